package resnet

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof/workloads/device/host"
	"github.com/gpuprof/gpuprof/workloads/op"
	"github.com/gpuprof/gpuprof/workloads/testkit/workloadtest"
)

// Every kernel on the simulated device, in both layouts, with and without the vendor's libraries: checked group by
// group on poisoned memory, and the same as the host device to rounding.
func TestCUDA(t *testing.T) {
	for _, libraries := range []bool{false, true} {
		for i, impl := range []string{Implicit, Im2col, Direct, CuDNN} {
			for j, layout := range []string{NHWC, NCHW} {
				for k, precision := range precisionNames {
					if libraries && (impl != Im2col || k > 1) && impl != CuDNN || impl == CuDNN && !libraries {
						continue // nothing else asks for a library, and this does
					}
					o := Options{Shape: odd(), Impl: impl, Layout: layout, BN: []string{Fold, Fused, Apart}[(i+j+k)%3], Precision: precision,
						Preprocess: []string{OnHost, OnDevice}[(i+k)%2], MaxBatch: 3, Slots: 2, Seed: 5}
					t.Run(fmt.Sprint("libraries=", libraries, " ", o), func(t *testing.T) { onCUDA(t, o, libraries) })
				}
			}
		}
	}
}

func onCUDA(t *testing.T, o Options, libraries bool) {
	t.Helper()
	n, s := opened(t, workloadtest.Simulated(t, libraries, "cublas", "cudnn"), o)
	by := "own kernels"
	switch {
	case o.Impl == CuDNN:
		by = "cuDNN "
	case libraries:
		by = "cuBLAS "
	}
	if !strings.HasPrefix(n.implementation(), by) {
		t.Errorf("the convolutions are said to be computed by %s", n.implementation())
	}
	passes(t, n, s, 1, 3, 1)
	if o.Impl == CuDNN {
		o.Impl = Implicit
	}
	onHost, hs := opened(t, workloadtest.Host(t, host.Options{Threads: 1}), o)
	var e op.ErrorNorm
	e.Add(run(t, n, s, 0, 4, 2, 8), op.As[float64](run(t, onHost, hs, 1, 4, 2, 8)))
	if r := e.Relative(); !(r <= n.Tolerance()) {
		t.Errorf("the logits are %.3g from the host's", r)
	}
}

// The large stem and its pooling.
func TestCUDAStem(t *testing.T) {
	for _, layout := range []string{NHWC, NCHW} {
		t.Run(layout, func(t *testing.T) {
			onCUDA(t, Options{Shape: stemmed(), Layout: layout, Preprocess: OnDevice, MaxBatch: 3, Slots: 2}, false)
		})
	}
}
