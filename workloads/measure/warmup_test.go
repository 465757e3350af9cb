package measure

import (
	"context"
	"testing"
	"time"

	"github.com/gpuprof/gpuprof"
)

// What ends a run in its warm-up leaves the steps that were finished and a
// warning that says what they are. A device that failed can say nothing more of
// the window it failed in; else all are left.
func TestWarmUpIsKeptOfARunThatEndsInIt(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	for _, c := range []struct {
		name  string
		f     fake
		least int
	}{
		{"failure", fake{spin: 100 * time.Microsecond, failAt: 30}, 3},
		{"interrupt", fake{spin: 100 * time.Microsecond, cancel: cancel, cancelAt: 29}, 29},
	} {
		p := c.f.plan()
		p.Warmup = Warmup{Steps: 1000}
		r, err := Run(ctx, openHost(t), p)
		if err == nil || r.Status != gpuprof.Partial {
			t.Fatalf("%s: status %s, %v", c.name, r.Status, err)
		}
		if n := r.Step.N(); n < c.least || n > 29 || len(r.Order) != n || r.Throughput.Series.N() == 0 || r.BareStep != nil || r.Overhead != nil {
			t.Fatalf("%s: %d steps are kept, %d in order, want %d to 29", c.name, n, len(r.Order), c.least)
		}
		if !warned(r, warmUpOnly) || warned(r, "overhead-unmeasured") {
			t.Errorf("%s: warnings %v", c.name, r.Warnings)
		}
		addsUp(t, r)
	}
}

// A complete run holds no step of the warm-up.
func TestWarmUpIsNoSample(t *testing.T) {
	p := fake{spin: 100 * time.Microsecond}.plan()
	p.Warmup, p.Samples = Warmup{Steps: 40}, 12
	r, err := Run(context.Background(), openHost(t), p)
	if err != nil || r.Step.N() != 12 || warned(r, warmUpOnly) {
		t.Errorf("%d samples, warnings %v, %v", r.Step.N(), r.Warnings, err)
	}
}

// Steps of a warm-up do not go among the samples of other processes.
func TestMergeLeavesWarmUpOut(t *testing.T) {
	process := func(failAt int) *gpuprof.Run {
		p := fake{spin: 100 * time.Microsecond, failAt: failAt}.plan()
		p.Warmup, p.Samples = Warmup{Steps: 20}, 12
		r, err := Run(context.Background(), openHost(t), p)
		if (err != nil) != (failAt > 0) {
			t.Fatal(err)
		}
		return r
	}
	whole, cut := process(0), process(8)
	for _, runs := range [][]*gpuprof.Run{{whole, cut}, {cut, whole}} {
		m, err := Merge(runs)
		if err != nil {
			t.Fatal(err)
		}
		if m.Status != gpuprof.Partial || m.Step.N() != 12 || m.Throughput == nil || len(m.Order) != len(whole.Order) || len(m.Flags) != len(m.Order) || warned(m, warmUpOnly) {
			t.Errorf("status %s, %d samples, %d in order, warnings %v", m.Status, m.Step.N(), len(m.Order), m.Warnings)
		}
		addsUp(t, m)
	}
	m, err := Merge([]*gpuprof.Run{cut, cut})
	if err != nil || m.Step.N() != 2*cut.Step.N() || !warned(m, warmUpOnly) {
		t.Errorf("of processes that all ended in the warm-up %d steps are kept, want twice %d; warnings %v, %v", m.Step.N(), cut.Step.N(), m.Warnings, err)
	}
}
