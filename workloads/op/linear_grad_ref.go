package op

import "math"

// RefLinearGrad computes one row of the linear layer's backward pass, in l.Layout: dx [In.Dim] from the output's
// cotangent dout. If dw [WeightNumel] is not nil, it adds the row's share to dw; otherwise x may be nil.
//
//	dx_ui = k sum_w W_uw dout_wi,  dW_uw += k sum_i x_ui dout_wi,  k = 1/sqrt(fan-in)
//
//go:norace
func RefLinearGrad(l Linear, x, w, dout, dx, dw []float64) {
	back := make([]float64, l.Out.Dim())
	FromLayout(l.Layout, l.Out, back, dout)
	flat, sum := make([]float64, l.In.Dim()), make([]float64, l.In.Dim())
	if dw != nil {
		FromLayout(l.Layout, l.In, flat, x)
	}
	inAt, outAt, wAt := l.In.Offsets(), l.Out.Offsets(), 0
	for i, a := range l.In {
		for o, b := range l.Out {
			if a.Ir != b.Ir {
				continue
			}
			d, k := a.Ir.Dim(), 1/math.Sqrt(float64(l.In.Count(a.Ir)))
			for u := range a.Mul {
				for v := range b.Mul {
					at, dot := wAt+u*b.Mul+v, 0.0
					for c := range d {
						g := back[outAt[o]+v*d+c]
						sum[inAt[i]+u*d+c] += k * w[at] * g
						dot += flat[inAt[i]+u*d+c] * g
					}
					if dw != nil {
						dw[at] += k * dot
					}
				}
			}
			wAt += a.Mul * b.Mul
		}
	}
	ToLayout(l.Layout, l.In, dx, sum)
}
