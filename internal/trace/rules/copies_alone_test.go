package rules_test

import (
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// Copies that repeat without any kernel, as when a model is loaded: the device does not wait for the host between them.
// With a kernel in each repeat it does.
func TestCopiesWithoutKernels(t *testing.T) {
	for _, kernels := range []bool{false, true} {
		s := newScene()
		s.native = true
		s.repeat(8, func() {
			for range 6 {
				s.copy(7, model.H2D, model.Pageable, 1<<20, 90*us, true)
				s.work(2000 * us)
			}
			if kernels {
				s.kernel("step(float *)", 60*us)
				s.work(500 * us)
			}
		})
		a, _ := analyse(t, s.end().trace())
		if f := find(a, gpuprof.RuleHostBound); (f != nil) != kernels {
			t.Errorf("kernels %t: host-bound %v", kernels, f)
		}
	}
}
