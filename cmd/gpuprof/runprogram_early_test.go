package main

import (
	"testing"
	"time"

	"github.com/gpuprof/gpuprof/internal/record"
)

// A line on a terminal says what a recording waits for.
func TestStateOfRecording(t *testing.T) {
	t.Parallel()
	p := &program{runProgramCmd: &runProgramCmd{Steps: 5, TimeWindow: 2 * time.Second}, options: record.Options{Skip: 10}, dir: "profile"}
	for want, processes := range map[string][]record.Process{
		"waiting for the program to import torch": nil,
		"waiting for step 11":                     {{PID: 1}},
		"recording 5 steps":                       {{PID: 1}, {PID: 2, Began: true, Kind: "optimizer"}},
		"recording step 3 of 5":                   {{PID: 2, Began: true, Kind: "optimizer", Recorded: 2}},
		"recording 2s of time":                    {{PID: 1, Began: true, Kind: "window"}},
		"the steps are recorded in profile":       {{PID: 1, Began: true, Kind: "optimizer", File: "trace-1.json"}, {PID: 2}},
	} {
		if got := p.stateOf(&record.Hook{Processes: processes}); got != want {
			t.Errorf("%v: %q, want %q", processes, got, want)
		}
	}
}

// The progress of several processes gives the time left: at first by --max-time, then by
// the processes that are done.
func TestProgressOfProcesses(t *testing.T) {
	t.Parallel()
	s := &session{runCmd: &runCmd{Runs: 4, MaxTime: 10 * time.Second}}
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
