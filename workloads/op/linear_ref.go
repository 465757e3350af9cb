package op

import "math"

// RefLinear computes one row in l.Layout; with l.Accumulate it adds to out (norace: see RefGemm).
//
//go:norace
func RefLinear(l Linear, x, w, out []float64) {
	flat := make([]float64, l.In.Dim())
	FromLayout(l.Layout, l.In, flat, x)
	sum := make([]float64, l.Out.Dim())
	inAt, outAt, wAt := l.In.Offsets(), l.Out.Offsets(), 0
	for i, a := range l.In {
		for o, b := range l.Out {
			if a.Ir != b.Ir {
				continue
			}
			d, fanIn := a.Ir.Dim(), math.Sqrt(float64(l.In.Count(a.Ir)))
			for u := range a.Mul {
				x := flat[inAt[i]+u*d:][:d]
				for v := range b.Mul {
					weight := w[wAt+u*b.Mul+v] / fanIn
					out := sum[outAt[o]+v*d:][:d]
					for c := range x {
						out[c] += weight * x[c]
					}
				}
			}
			wAt += a.Mul * b.Mul
		}
	}
	there := make([]float64, l.Out.Dim())
	ToLayout(l.Layout, l.Out, there, sum)
	for i, v := range there {
		if l.Accumulate {
			out[i] += v
		} else {
			out[i] = v
		}
	}
}
