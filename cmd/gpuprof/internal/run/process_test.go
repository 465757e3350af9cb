package run

import (
	"testing"
	"time"
)

// The progress of several processes gives the time left: at first by --max-time, then by
// the processes that are done.
func TestProgressOfProcesses(t *testing.T) {
	t.Parallel()
	s := &session{Cmd: &Cmd{Runs: 4, MaxTime: 10 * time.Second}}
	for _, c := range []struct {
		k            int
		since, spent time.Duration
		done         float64
		phase, note  string
	}{
		{0, 0, 0, 0, "process 1 of 4", "at most 40s left"},
		{0, 5 * time.Second, 5 * time.Second, 0.5, "process 1 of 4", "at most 35s left"},
		{2, 8 * time.Second, 0, 2, "process 3 of 4", "about 8s left"},
		{3, 15 * time.Second, 9 * time.Second, 3.99, "process 4 of 4", "about 0s left"},
	} {
		at := s.progressOf(c.k, c.since, c.spent)
		if at.Phase != c.phase || at.Note != c.note || at.Done < c.done-1e-9 || at.Done > c.done+1e-9 {
			t.Errorf("%+v: %+v", c, at)
		}
	}
	s.MaxTime = noTimeLimit
	if at := s.progressOf(0, 0, 0); at.Note != "" {
		t.Errorf("without a limit: %+v", at)
	}
}
