//go:build !race

// The race detector allocates by itself.

package resnet

import (
	"testing"

	"github.com/gpuprof/gpuprof/workloads/device/host"
	"github.com/gpuprof/gpuprof/workloads/testkit/workloadtest"
)

func TestBatchAllocatesNothing(t *testing.T) {
	for _, o := range []Options{{}, {Layout: NCHW, BN: Apart}, {Impl: Im2col, Precision: BF16}, {Precision: FP16}, {Impl: Direct, Preprocess: OnDevice}} {
		o.Shape, o.MaxBatch, o.Slots = odd(), 3, 1
		n, s := opened(t, workloadtest.Host(t, host.Options{Threads: 1}), o)
		dst := make([]byte, n.InputBytes())
		batch := func() {
			n.Fill(dst, 3)
			if err := n.EnqueueAll(s, 0, 3); err != nil {
				t.Fatal(err)
			}
			if err := s.Sync(); err != nil {
				t.Fatal(err)
			}
		}
		batch() // scratch memory grows, the image is drawn
		if allocs := testing.AllocsPerRun(20, batch); allocs != 0 {
			t.Errorf("%s: a batch allocates %v times", n.o, allocs)
		}
	}
}
