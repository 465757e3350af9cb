package gruflow

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/gpuprof/gpuprof/workloads/device/host"
	"github.com/gpuprof/gpuprof/workloads/loop"
)

// One recurrent step of three layers; scripts/peer/peer_gru.py races the same
// against torch.nn.GRU.
func BenchmarkForward(b *testing.B) {
	for _, impl := range []string{implFused, implPlain} {
		b.Run(impl, func(b *testing.B) {
			const flows, inputs, hidden, layers = 1024, 65, 128, 3
			rng := rand.New(rand.NewPCG(1, 1))
			draw := func(n int) []float32 {
				v := make([]float32, n)
				for i := range v {
					v[i] = 0.1 * float32(rng.NormFloat64())
				}
				return v
			}
			c := ForwardConfig{TimeSteps: 1, Batch: flows, Input: inputs, Hidden: hidden, Impl: impl, Precision: "fp32"}
			flops := 0
			for l := range layers {
				width := hidden
				if l == 0 {
					width = inputs
				}
				flops += 6 * hidden * (width + hidden) * flows
				c.Layers = append(c.Layers, Layer{draw(3 * hidden * width), draw(3 * hidden * hidden), draw(3 * hidden), draw(3 * hidden)})
			}
			f, err := NewForward(openHost(b, host.Options{}), c)
			if err != nil {
				b.Fatal(err)
			}
			defer f.Close()
			if err := f.Set(draw(flows*inputs), draw(layers*flows*hidden)); err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				if err := f.Run(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(flops)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GF/s")
		})
	}
}

// A training step at the sizes of docs/performance.md; scripts/peer/peer_gru.py --train races the
// same against torch.nn.GRU.
func BenchmarkTrain(b *testing.B) {
	for _, s := range []shape{{T: 40, B: 256, I: 65, H: 64, L: 2}, {T: 8, B: 1024, I: 65, H: 256, L: 3}} {
		b.Run(fmt.Sprintf("B=%d,H=%d,L=%d,T=%d", s.B, s.H, s.L, s.T), func(b *testing.B) {
			rng := rand.New(rand.NewPCG(1, 1))
			draw := func(n int) []float32 {
				v := make([]float32, n)
				for i := range v {
					v[i] = 0.1 * float32(rng.NormFloat64())
				}
				return v
			}
			c, flops := ForwardConfig{TimeSteps: s.T, Batch: s.B, Input: s.I, Hidden: s.H}, 0
			for l := range s.L {
				c.Layers = append(c.Layers, Layer{draw(s.gates() * s.inputWidth(l)), draw(s.gates() * s.H), draw(s.gates()), draw(s.gates())})
				flops += 6 * s.gates() * (s.inputWidth(l) + s.H) * s.B * s.T
			}
			f, err := NewBackward(openHost(b, host.Options{}), c)
			if err == nil {
				err = f.Adam(1e-3)
			}
			if err != nil {
				b.Fatal(err)
			}
			defer f.Close()
			if err := f.Set(draw(s.T*s.B*s.I), draw(s.L*s.B*s.H), draw(s.T*s.B*s.H), make([]float32, s.L*s.B*s.H)); err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				if err := f.Run(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(flops)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GF/s")
		})
	}
}

func BenchmarkStep(b *testing.B) {
	s := openSession(b, "small")
	b.ResetTimer()
	for i := range b.N {
		if err := s.Step(i, loop.Silent{}); err != nil {
			b.Fatal(err)
		}
	}
	if err := s.stream.Sync(); err != nil {
		b.Fatal(err)
	}
}
