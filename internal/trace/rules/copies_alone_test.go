package rules_test

import (
	"strings"
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

// Copies to the host that kernels hide do not decide the advice for the copies that are not hidden.
func TestDirectionOfShownCopies(t *testing.T) {
	s := newScene()
	s.repeat(8, func() {
		s.copy(7, model.H2D, model.Pinned, 8<<20, 800*us, true)
		s.kernel("step(float *)", 3000*us)
		s.copy(14, model.D2H, model.Pinned, 32<<20, 2500*us, false)
		s.wait("cudaDeviceSynchronize")
	})
	a, _ := analyse(t, s.end().trace())
	f := find(a, gpuprof.RuleExposedCopy)
	if f == nil || !strings.Contains(f.Title, "most of them to the device") {
		t.Fatalf("finding %v", f)
	}
	if len(f.Sites) != 1 {
		t.Errorf("%d sites, want the copies to the device alone: %v", len(f.Sites), f.Sites)
	}
}
