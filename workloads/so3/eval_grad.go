package so3

// EvalGrad is the backward pass of Eval for one sample: it adds to dx, dy and dw the cotangents of x, y and w from the
// cotangent dout of out, all in mul_ir layout. For a path uvu with z_uk = w_u sum_i x_ui M_ik, M_ik = A sum_j C_ijk
// y_j, these are:
//
//	dw_u = sum_ik x_ui M_ik dz_uk,  dx_ui = w_u sum_k M_ik dz_uk,  dy_j = A sum_uik w_u C_ijk x_ui dz_uk
func (tp TensorProduct) EvalGrad(x, y, w, dout, dx, dy, dw []float64) error {
	d1, d2, numel := tp.In1.Dim(), tp.In2.Dim(), tp.WeightNumel()
	if err := tp.checkSizes("evaluating the gradients of", sized{"x", len(x), d1}, sized{"y", len(y), d2}, sized{"w", len(w), numel},
		sized{"dout", len(dout), tp.Out.Dim()}, sized{"dx", len(dx), d1}, sized{"dy", len(dy), d2}, sized{"dw", len(dw), numel}); err != nil {
		return err
	}
	return tp.eachPath(x, y, w, dout, func(p path, at pathAt) {
		g := pathGrad{path: p, dx: dx[at.x:], dy: dy[at.y:]}
		if at.w >= 0 {
			g.dw = dw[at.w:]
		}
		g.accumulate()
	})
}

// pathGrad is the backward pass of one instruction; path.out is the cotangent of its output.
type pathGrad struct {
	path
	dx, dy, dw []float64
}

// accumulate adds the path's part of dx, dy and dw. For each pair (u, v) that the mode couples, dz is the sum of w*dout
// over the pair's output channels. dz contributes to dx_u and dy_v; z . dout contributes to the gradient of a weight.
//
//go:norace
func (p pathGrad) accumulate() {
	d1, d2, d3 := 2*p.cg.L1+1, 2*p.cg.L2+1, 2*p.cg.L3+1
	var zs, dzs [2*MaxL + 1]float64
	z, dz := zs[:d3], dzs[:d3]
	for u := range p.m1 {
		for v := range p.m2 {
			if (p.mode == UUW || p.mode == UUU) && u != v {
				continue
			}
			clear(z)
			clear(dz)
			for _, e := range p.cg.Entries {
				z[e.K] += p.coefficient * e.C * p.x[u*d1+e.I] * p.y[v*d2+e.J]
			}
			first, last := p.fedBy(u, v)
			for o := first; o <= last; o++ {
				weight, back := p.weight(u, v, o), 0.0
				for k := range z {
					dz[k] += weight * p.out[o*d3+k]
					back += z[k] * p.out[o*d3+k]
				}
				if p.dw != nil {
					p.dw[p.weightAt(u, v, o)] += back
				}
			}
			for _, e := range p.cg.Entries {
				c := p.coefficient * e.C * dz[e.K]
				p.dx[u*d1+e.I] += c * p.y[v*d2+e.J]
				p.dy[v*d2+e.J] += c * p.x[u*d1+e.I]
			}
		}
	}
}
