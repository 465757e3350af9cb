package serving

import (
	"context"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof/internal/testkit/sim"
	"github.com/gpuprof/gpuprof/workloads/testkit/workloadtest"
)

// Where cuDNN fails the convolutions are our own, and the run says why; impl=cudnn fails.
func TestCuDNNFails(t *testing.T) {
	d := workloadtest.Simulated(t, true, "cudnn")
	for _, at := range []string{"cudnnGetConvolutionForwardAlgorithm_v7@1:3000", "cudnnConvolutionForward@2:5000"} {
		sim.Set(t, sim.Library(t), "fail="+at)
		s := openOn(t, d, "small", "width=3", "blocks=1-1", "max_batch=2")
		call, _, _ := strings.Cut(at, "@")
		by := s.Substituted()
		for _, part := range []string{"gpuprof's own kernels compute the convolutions, since cuDNN failed: ", call, "cuDNN status ", "planted"} {
			if !strings.Contains(by, part) {
				t.Errorf("%s: the run says %q, want %q", at, by, part)
			}
		}
		if in := s.Input()["convolutions"]; in != "own kernels" {
			t.Errorf("%s: the convolutions are said to be computed by %v", at, in)
		}
		passes(t, s)
		sim.Set(t, sim.Library(t), "fail="+at)
		_, err := New().Open(context.Background(), d, workloadtest.Config(t, New(), "small", "width=3", "blocks=1-1", "max_batch=2", "impl=cudnn"))
		if err == nil || !strings.Contains(err.Error(), call) {
			t.Errorf("impl=cudnn: %v", err)
		}
	}
}
