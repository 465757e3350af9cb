package rules_test

import (
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
)

// The type that is advised is one that the recorded device computes in on its tensor cores.
func TestAutocastOfTheDevice(t *testing.T) {
	for _, c := range []struct {
		major, minor  int
		kernel        string
		want, without string
	}{
		{7, 5, "volta_sgemm_128x64_tn", "dtype=torch.float16", "bfloat16"},
		{8, 0, sgemm, "dtype=torch.bfloat16", "torch.float16"},
	} {
		s := sceneGEMM(c.major, c.kernel)()
		s.device.Minor = c.minor
		a, _ := analyse(t, s.trace())
		f := mustFind(t, a, gpuprof.RuleNoAMP)
		if !strings.Contains(f.PyTorch, c.want) || strings.Contains(f.PyTorch, c.without) {
			t.Errorf("%d.%d: %s", c.major, c.minor, f.PyTorch)
		}
	}
}

// One wait in several steps is none of the loop.
func TestOneSynchronizeCall(t *testing.T) {
	for calls, fires := range map[int]bool{1: false, 3: true} {
		s := newScene()
		k := 0
		s.repeat(4, func() {
			s.products(3, 100*us)
			if k++; k > 1 && k-1 <= calls {
				s.wait("cudaDeviceSynchronize")
			}
			s.work(200 * us)
		})
		a, _ := analyse(t, s.end().trace())
		if f := find(a, gpuprof.RuleExplicitSync); (f != nil) != fires {
			t.Errorf("%d calls: %v", calls, f)
		}
	}
}
