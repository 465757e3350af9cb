package analyze

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// bigTrace is a training program of n events: steps with modules, nested
// operators, launches and kernels on a forward and a backward thread, written
// as profilers do: host events by thread, then device events by stream.
func bigTrace(n int) *model.Trace {
	rng := rand.New(rand.NewPCG(1, 2))
	b := newBuilder()
	ops := []string{"aten::mul", "aten::addmm", "aten::native_layer_norm", "aten::add_", "aten::bmm"}
	kernels := make([]string, 200)
	for i := range kernels {
		kernels[i] = fmt.Sprintf("void vectorized_elementwise_kernel<%d>", i)
	}
	b.lane(1)
	var host [2][]model.Host
	var gpu [2][]model.GPU
	now, free := int64(1e15), [2]int64{}
	corr, seq := int64(0), int64(0)
	add := func(lane uint32, k model.Kind, name string, from, to, id, s int64) {
		host[lane] = append(host[lane], model.Host{Start: from, End: to, Corr: id, Seq: s, Name: b.name(name), Lane: lane, Kind: k})
	}
	total := 0
	for step := 0; total < n; step++ {
		begin := now
		at := len(host[0])
		add(0, model.Step, fmt.Sprintf("ProfilerStep#%d", step), begin, begin, 0, 0)
		for layer := 0; layer < 400 && total < n; layer++ {
			lane, stream := uint32(layer/200), layer%7/6
			prefix, module := "", fmt.Sprintf("nn.Module: Linear_%d", layer%200)
			var s int64
			if lane == 1 {
				prefix = "autograd::engine::evaluate_function: "
				s = seq - int64(layer) + int64(layer%200)
			} else {
				seq++
				s = seq
				add(0, model.Python, module, now, now+20000, 0, 0)
				total++
			}
			op := ops[rng.IntN(len(ops))]
			add(lane, model.Op, prefix+op, now+100, now+19000, corr+1, s)
			add(lane, model.Op, op, now+200, now+18000, corr+2, s)
			corr += 3
			call := now + 3000 + rng.Int64N(1000)
			add(lane, model.API, "cudaLaunchKernel", call, call+4000, corr, 0)
			from := max(call+6000, free[stream])
			to := from + 2000 + rng.Int64N(20000)
			free[stream] = to + 500
			gpu[stream] = append(gpu[stream], model.GPU{Start: from, End: to, Corr: corr, Process: 1, Name: b.name(kernels[rng.IntN(len(kernels))]), Kind: model.Kernel, Stream: int64(stream)})
			now += 20500
			total += 4
		}
		host[0][at].End = now
		now += 1000
	}
	b.t.Devices = []model.Device{{}}
	b.t.Host = slices.Concat(host[0], host[1])
	b.t.GPU = slices.Concat(gpu[0], gpu[1])
	b.t.Events = len(b.t.Host) + len(b.t.GPU)
	return b.t
}

func BenchmarkFinish(b *testing.B) {
	for range b.N {
		b.StopTimer()
		t := bigTrace(4_000_000)
		b.StartTimer()
		t.Finish()
	}
	b.ReportMetric(4e6*float64(b.N)/b.Elapsed().Seconds(), "events/s")
}

func BenchmarkIndex(b *testing.B) {
	t := bigTrace(4_000_000)
	t.Finish()
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		if _, err := NewIndex(context.Background(), t); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(4e6*float64(b.N)/b.Elapsed().Seconds(), "events/s")
}

func BenchmarkSummarise(b *testing.B) {
	t := bigTrace(4_000_000)
	t.Finish()
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		if _, err := Summarise(context.Background(), []*model.Trace{t}, Options{}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(4e6*float64(b.N)/b.Elapsed().Seconds(), "events/s")
}
