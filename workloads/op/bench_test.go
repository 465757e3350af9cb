package op

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// maceMedium is the shape of MACE medium with 5,000 edges.
func maceMedium(b *testing.B, r *rig, impl string, layout Layout) *convolution {
	degrees := make([]int, 1000)
	left := 5000
	for i := range degrees {
		degrees[i] = min(158, left)
		left -= degrees[i]
	}
	c := r.convolution(TensorProduct{TP: uvu(b, "128x0e+128x1o", "0e+1o+2e+3o", "128x0e+128x1o+128x2e"), Impl: impl, Layout: layout, Scale: 0.25},
		r.graph(degrees, 1000))
	r.run(c.product, c.scatter)
	return c
}

// BenchmarkCSROverUnfused takes turns, so that a machine that slows down slows
// both; the metric is the median of the ratios turn by turn.
func BenchmarkCSROverUnfused(b *testing.B) {
	r := newRig(b, 0)
	csr, unfused := maceMedium(b, r, ImplCSR, IrMul), maceMedium(b, r, ImplUnfused, IrMul)
	timed := func(c *convolution) float64 {
		start := time.Now()
		r.run(c.product, c.scatter)
		return time.Since(start).Seconds()
	}
	var ratios []float64
	for b.Loop() {
		u := timed(unfused)
		ratios = append(ratios, u/timed(csr))
	}
	slices.Sort(ratios)
	b.ReportMetric(ratios[len(ratios)/2], "x")
}

func BenchmarkTensorProduct(b *testing.B) {
	for _, impl := range []string{ImplUnfused, ImplFused, ImplCSR} {
		for _, layout := range []Layout{MulIr, IrMul} {
			b.Run(fmt.Sprintf("%s/%s", impl, layout), func(b *testing.B) {
				r := newRig(b, 0)
				c := maceMedium(b, r, impl, layout)
				for b.Loop() {
					r.run(c.product, c.scatter)
				}
				b.ReportMetric(5000*float64(b.N)/b.Elapsed().Seconds(), "edges/s")
			})
		}
	}
}

func BenchmarkRadial(b *testing.B) {
	const edges = 2000
	r := newRig(b, 0)
	m := MLP{In: 10, Hidden: 100, Out: 1024}
	bound := r.must(Radial{Basis{Kind: "gaussian", N: 10, Cutoff: 4}, m}.Bind(r.dev, r.normal(3*edges), r.normal(m.In*m.Hidden), r.normal(m.Hidden*m.Out), r.alloc(edges*m.Out), edges))
	r.run(bound)
	for b.Loop() {
		r.run(bound)
	}
	b.ReportMetric(float64(bound.Minimum().Flops)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GF/s")
}

func BenchmarkSph(b *testing.B) {
	const edges = 20000
	r := newRig(b, 0)
	s := Sph{LMax: 3}
	bound := r.must(s.Bind(r.dev, r.normal(3*edges), r.alloc(edges*s.Dim()), edges))
	r.run(bound)
	for b.Loop() {
		r.run(bound)
	}
	b.ReportMetric(edges*float64(b.N)/b.Elapsed().Seconds(), "edges/s")
}

func BenchmarkScatter(b *testing.B) {
	for _, deterministic := range []bool{false, true} {
		b.Run(fmt.Sprintf("deterministic=%t", deterministic), func(b *testing.B) {
			r := newRig(b, 0)
			degrees := make([]int, 200)
			for i := range degrees {
				degrees[i] = 25
			}
			g := r.graph(degrees, 10)
			s := ScatterAdd{C: 1024, Deterministic: deterministic, Scale: 0.25}
			bound := r.must(s.Bind(r.dev, ScatterBuffers{Src: r.normal(len(g.src) * s.C), Dst: r.ints(g.dst), RowPtr: r.ints(g.rowPtr), Out: r.alloc(200 * s.C)}, 200, len(g.src)))
			r.run(bound)
			for b.Loop() {
				r.run(bound)
			}
			b.ReportMetric(float64(bound.Minimum().Bytes())*float64(b.N)/b.Elapsed().Seconds()/1e9, "GB/s")
		})
	}
}
