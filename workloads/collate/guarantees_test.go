//go:build !race

package collate

// The race detector allocates on its own account and slows loops unevenly, so
// these counts and ratios hold for normal builds only.

import (
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof/workloads/loop"
)

// Steps allocate nothing, nor do the workers beside them, unless a knob asks
// for just that.
func TestStepsAllocateNothing(t *testing.T) {
	for _, set := range []string{
		"workers=0", "workers=0,impl=bulk", "workers=1", "workers=2,impl=bulk,padded=on", "workers=0,batch=1", "workers=2,batch=1,pinned=off,impl=bulk",
		"workers=1,pinned=off,streams=1,async_copy=off,item_reads=3,sync=every:3", "workers=0,pinned=off,sync=never",
	} {
		t.Run(set, func(t *testing.T) {
			s := openSession(t, "small", append([]string{"batch=4", "probes=20"}, strings.Split(set, ",")...)...)
			i := 0
			run := func(n int) {
				for range n {
					if err := s.Step(i, loop.Silent{}); err != nil {
						t.Fatal(err)
					}
					i++
				}
			}
			run(400) // every sample's memory has found its size
			if n := testing.AllocsPerRun(20, func() { run(20) }); n != 0 {
				t.Errorf("%v allocations in 20 steps", n)
			}
		})
	}
}

// Block copies against boxed elements: 24 times faster where this was written,
// so that five leaves room for any machine and its other work.
func TestBulkBeatsNaive(t *testing.T) {
	times := inTurn(15, collator(t, implNaive), collator(t, implBulk))
	if r := medianRatio(times[0], times[1]); r < 5 {
		t.Errorf("naive takes %.1f times as long as bulk, want at least 5", r)
	}
}
