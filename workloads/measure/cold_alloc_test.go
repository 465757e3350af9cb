//go:build !race

package measure

// The race detector allocates on its own account in calls of the driver.

import (
	"context"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/probes/events"
	"github.com/gpuprof/gpuprof/workloads/gruflow"
)

// Clearing the cache and the blocking kernel allocate nothing either.
func TestColdLoopAllocatesNothing(t *testing.T) {
	d, _ := simulated(t, false)
	p := planOf(t, gruflow.New())
	p.Mode = gpuprof.Cold
	r := newRunner(context.Background(), quick{d}, p)
	if err := r.setup(); err != nil {
		t.Fatal(err)
	}
	defer r.sess.Close()
	for _, phase := range []func() error{r.prepareProbes, r.warmUp} {
		if err := phase(); err != nil {
			t.Fatal(err)
		}
	}
	if r.enqueueNS <= 0 {
		t.Fatal("the caller's time in a step is not known, so nothing is blocked")
	}
	if _, _, err := r.rec.Reset(events.Probed); err != nil {
		t.Fatal(err)
	}
	main := r.sess.Main()
	n := testing.AllocsPerRun(20, func() {
		if err := r.prepareStep(); err != nil {
			t.Fatal(err)
		}
		if err := r.rec.Start(0); err != nil {
			t.Fatal(err)
		}
		r.rec.End(r.rec.Begin(0, main))
		if err := r.settleStep(); err != nil {
			t.Fatal(err)
		}
	})
	if n != 0 {
		t.Errorf("%v allocations a step", n)
	}
}
