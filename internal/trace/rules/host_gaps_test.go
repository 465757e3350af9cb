package rules_test

import (
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// A pause of the host that comes once, in several steps, is no wait of each step: nothing is claimed for it.
func TestPauseThatComesOnce(t *testing.T) {
	for name, c := range map[string]struct {
		pauses []int64 // of the host, by step
		once   bool
	}{
		"once":       {[]int64{0, 0, 9 * ms, 0}, true},
		"twice":      {[]int64{0, 9 * ms, 9 * ms, 0}, false},
		"every step": {[]int64{3 * ms, 3 * ms, 3 * ms, 3 * ms}, false},
	} {
		s := newScene()
		for _, ns := range c.pauses {
			s.step(func() {
				s.products(10, 20*us)
				s.work(ns)
				s.products(10, 20*us)
			})
		}
		a, _ := analyse(t, s.end().trace())
		f := find(a, gpuprof.RuleHostBound)
		if once := f != nil && strings.Contains(f.Title, "waits for the host once"); once != c.once || f == nil {
			t.Errorf("%s: the findings are %v", name, a.Findings)
		}
		if c.once && f != nil && f.ClaimNS > 0 {
			t.Errorf("%s: claims %d ns", name, f.ClaimNS)
		}
	}
}

// A gap in which the host polls does not hide what the host does in the other gaps.
func TestPollingInOneGap(t *testing.T) {
	s := newScene()
	poll := func() { s.inKind(model.Python, "shm.py(40): poll", "", func() {}) }
	s.repeat(4, func() {
		s.products(10, 100*us)
		if s.steps == 2 {
			for range 40_000 {
				poll()
			}
		}
		s.inKind(model.Python, "model.py(565): forward", "", func() { s.work(60 * ms) })
		s.products(10, 100*us)
	})
	a, _ := analyse(t, s.end().trace())
	f := mustFind(t, a, gpuprof.RuleHostBound)
	if !strings.Contains(f.Title, "model.py(565): forward") {
		t.Errorf("title %q", f.Title)
	}
}
