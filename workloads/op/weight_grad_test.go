package op

import (
	"fmt"
	"testing"

	"github.com/gpuprof/gpuprof/workloads/device"
)

// Gradients of weights, over more rows than a chunk, added to and written anew, in
// both layouts.
func TestWeightGrads(t *testing.T) {
	onBoth(t, func(t *testing.T, l lab) {
		for _, rows := range []int{3, 4200} {
			for _, layout := range []Layout{MulIr, IrMul} {
				m := Linear{In: irreps(t, "4x0e+3x1o+2x0e"), Out: irreps(t, "5x0e+2x1o+3x0e+2x2e"), Layout: layout}
				in, out := m.In.Dim(), m.Out.Dim()
				x, dout, before := l.normal(rows*in), l.normal(rows*out), l.normal(m.WeightNumel())
				dw := l.floats(before)
				g := LinearWeightGrad{Linear: m, Add: true}
				b := l.must(g.Bind(l.dev, l.floats(x), l.floats(dout), dw, rows))
				l.run(b)
				want, dx := doubles(before), make([]float64, in)
				for r := range rows {
					RefLinearGrad(m, doubles(x[r*in:(r+1)*in]), make([]float64, len(want)), doubles(dout[r*out:(r+1)*out]), dx, want)
				}
				near(t, fmt.Sprint("linear ", rows, layout), l.read(dw, len(want)), want, 5e-6)
			}
		}
	})
}

func TestMLPWeightGrads(t *testing.T) {
	onBoth(t, func(t *testing.T, l lab) {
		for _, precision := range []string{FP32, TF32, BF16, FP16} {
			const edges = 300
			m := MLP{In: 10, Hidden: 70, Out: 90, Precision: precision, Library: map[string]string{FP32: "off"}[precision]}
			b, w1, w2, dw := l.normal(edges*m.In), l.normal(m.In*m.Hidden), l.normal(m.Hidden*m.Out), l.normal(edges*m.Out)
			words := func(n int) device.Buffer { return l.floats(nans(n)) }
			basis, one, two, back := l.floats(b), l.floats(w1), l.floats(w2), l.floats(dw)
			a, h, w, da, dw1, dw2 := words(edges*m.Hidden), words(edges*m.Hidden), words(edges*m.Out), words(edges*m.Hidden), words(len(w1)), words(len(w2))
			g := MLPGrad{MLP: m}
			wg := MLPWeightGrad{MLP: m}
			backward := l.must(g.Bind(l.dev, MLPGradBuffers{A: a, W1: one, W2: two, DW: back, DA: da}, edges))
			grads := l.must(wg.Bind(l.dev, basis, da, h, back, dw1, dw2, edges))
			l.run(l.must(m.BindKept(l.dev, basis, one, two, a, h, w, edges)), backward, grads)
			want1, want2, db := make([]float64, len(w1)), make([]float64, len(w2)), make([]float64, m.In)
			for e := range edges {
				if err := RefMLPGrad(m, doubles(b[e*m.In:(e+1)*m.In]), doubles(w1), doubles(w2), doubles(dw[e*m.Out:(e+1)*m.Out]), db, want1, want2); err != nil {
					t.Fatal(err)
				}
			}
			bound := map[string]float64{FP32: 3e-6, TF32: 2e-3, BF16: 2e-2, FP16: 5e-3}[precision]
			near(t, precision+" dw1", l.read(dw1, len(want1)), want1, bound)
			near(t, precision+" dw2", l.read(dw2, len(want2)), want2, bound)
			if precision != FP32 {
				if e := relative(l.read(dw2, len(want2)), want2); e < 1e-6 {
					t.Errorf("%s: dw2 is off by %g: its inputs were not rounded", precision, e)
				}
			}
		}
	})
}

func relative(got, want []float64) float64 {
	var e ErrorNorm
	for i, w := range want {
		e.Diff += (got[i] - w) * (got[i] - w)
		e.Ref += w * w
	}
	return e.Relative()
}

func TestReadoutWeightGrad(t *testing.T) {
	onBoth(t, func(t *testing.T, l lab) {
		const rows, width, count = 4100, 7, 4
		drho, x, da := l.normal(rows), l.normal(rows*width), l.floats(nans(count))
		for _, v := range [][]float32{drho, x} { // sums of normal products are sometimes nearly 0, and then any error is large beside them
			for i := range v {
				v[i]++
			}
		}
		r := Readout{Width: width, Count: count}
		b := l.must(r.BindWeightGrad(l.dev, l.floats(drho), l.floats(x), da, rows))
		l.run(b)
		want := make([]float64, count)
		for i := range rows {
			for u := range want {
				want[u] += float64(drho[i]) * float64(x[i*width+u])
			}
		}
		near(t, "readout", l.read(da, count), want, 5e-6)
	})
}
