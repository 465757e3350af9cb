//go:build !race

// The simulated GPU is C++, in which the race detector sees nothing, and the float64 references beside it take ten times
// as long under it. TestResidual and TestResidualByLibrary have the same steps there.

package serving

import (
	"slices"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof/workloads/testkit/workloadtest"
)

func TestResidualOnCUDA(t *testing.T) {
	d := workloadtest.Simulated(t, false)
	for nth, set := range methods {
		if !nightly && nth%3 != 0 {
			continue // by day every third setting, and each on the host
		}
		set = append([]string{"width=3", "blocks=1-1"}, set...) // a simulated GPU is slow
		t.Run(strings.Join(set, ","), func(t *testing.T) { passes(t, openOn(t, d, "small", set...)) })
	}
}

// Convolutions are cuDNN's where it is found, and the run names its version and its algorithms; with library=off and
// impl=implicit they are our own.
func TestResidualByCuDNN(t *testing.T) {
	d := workloadtest.Simulated(t, true, "cublas", "cudnn")
	for _, c := range []struct{ set, by string }{
		{"", "cuDNN "}, {"impl=cudnn,precision=tf32,layout=nchw", "cuDNN "}, {"precision=bf16,bn=apart", "cuDNN "}, {"precision=fp16,bn=fused,streams=new", "cuDNN "},
		{"graph=on,pad=on,split=best", "cuDNN "}, {"streams=shared,warm=off", "cuDNN "}, {"autotune=on", "cuDNN "},
		{"library=off", "own kernels"}, {"impl=implicit", "own kernels"},
	} {
		t.Run(c.set, func(t *testing.T) {
			s := openOn(t, d, "small", append([]string{"width=3", "blocks=1-1", "max_batch=3"}, strings.FieldsFunc(c.set, func(r rune) bool { return r == ',' })...)...)
			passes(t, s)
			in := s.Input()
			by, algorithms := in["convolutions"].(string), in["convolution_algorithms"]
			if !strings.HasPrefix(by, c.by) && c.set != "autotune=on" { // which takes what was fastest
				t.Errorf("computed by %q, want %q", by, c.by)
			}
			if by != c.by && c.set != "autotune=on" {
				names := algorithms.([]string)
				// 1x1 by the algorithm that cuDNN lists next, for the first does not run.
				if len(names) != 6 || names[0] != "stem=winograd_nonfused" || !slices.Contains(names, "stage2.0.shortcut=implicit_precomp_gemm") {
					t.Errorf("the algorithms are said to be %v", names)
				}
			}
			if tried := in["autotune_tried"]; c.set == "autotune=on" && tried != 4*6 {
				t.Errorf("%v ways were tried, want four of each convolution", tried)
			}
		})
	}
}
