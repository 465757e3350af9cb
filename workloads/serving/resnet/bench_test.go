package resnet

import (
	"context"
	"fmt"
	"testing"

	"github.com/gpuprof/gpuprof/workloads/device/host"
	"github.com/gpuprof/gpuprof/workloads/testkit/workloadtest"
)

// A batch of 32 on two threads.
func BenchmarkForward(b *testing.B) {
	for _, o := range []Options{{}, {Layout: NCHW}, {Impl: Im2col}, {Impl: Direct}, {BN: Apart}, {Precision: BF16}} {
		o = o.withDefaults()
		o.Shape, o.MaxBatch, o.Slots = Small(), 32, 1
		b.Run(fmt.Sprint(o), func(b *testing.B) { forward(b, o) })
	}
}

func forward(b *testing.B, o Options) {
	n, s := opened(b, workloadtest.Host(b, host.Options{Threads: 2}), o)
	if _, err := n.Check(context.Background(), s, 0, []int{0, 1}); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if err := n.EnqueueAll(s, 0, o.MaxBatch); err != nil {
			b.Fatal(err)
		}
		if err := s.Sync(); err != nil {
			b.Fatal(err)
		}
	}
	seconds := b.Elapsed().Seconds() / float64(b.N)
	b.ReportMetric(2*float64(o.MultiplyAdds())*float64(o.MaxBatch)/seconds/1e9, "Gflop/s")
	b.ReportMetric(float64(o.MaxBatch)/seconds, "images/s")
}
