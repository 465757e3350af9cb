//go:build !race

// The race detector allocates on its own account: counts hold for normal builds only.

package gruflow

import (
	"testing"

	"github.com/gpuprof/gpuprof/workloads/loop"
)

// The race detector allocates on its own account in calls of the driver.
func TestCUDAStepsAllocateNothing(t *testing.T) {
	for _, set := range []string{"impl=auto", "impl=fused", "impl=plain", "impl=persistent", "graph=on"} {
		t.Run(set, func(t *testing.T) {
			s := openOn(t, openSimulated(t, true), "small", "flows=8", "hidden=8", set)
			run(t, s, 4)
			i := 4
			if n := testing.AllocsPerRun(10, func() {
				if err := s.Step(i, loop.Silent{}); err != nil {
					t.Fatal(err)
				}
				i++
			}); n != 0 {
				t.Errorf("%v allocations a step", n)
			}
			if err := s.stream.Sync(); err != nil {
				t.Fatal(err)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}
