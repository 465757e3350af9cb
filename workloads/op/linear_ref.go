package op

import "math"

// RefLinear computes one row in l.Layout; out holds the values to add to when
// l.Accumulate is set.
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
			d := a.Ir.Dim()
			for u := range a.Mul {
				for v := range b.Mul {
					for c := range d {
						sum[outAt[o]+v*d+c] += w[wAt+u*b.Mul+v] * flat[inAt[i]+u*d+c] / math.Sqrt(float64(l.In.Count(a.Ir)))
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
