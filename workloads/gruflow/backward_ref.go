package gruflow

import "math"

type grad64 struct{ wi, wh, bi, bh []float64 }

func newGrad64(s shape, l int) grad64 {
	g := s.gates()
	return grad64{wi: make([]float64, g*s.inputWidth(l)), wh: make([]float64, g*s.H), bi: make([]float64, g), bh: make([]float64, g)}
}

// refCellBack computes one GRU step of one row backward in float64. dh1 is the cotangent of the new state. It returns
// the cotangents of the input and of the old state, and adds to the gradients. It recomputes r, z, n and u = W_hn h +
// b_hn; then
//
//	dn = dh1 (1-z), dz = dh1 (h-n), a_n = dn (1-n^2), a_r = a_n u r(1-r), a_z = dz z(1-z)
//	Gx = (a_r, a_z, a_n), Gh = (a_r, a_z, a_n r)
//	dx = Gx W_i, dh = dh1 z + Gh W_h, dW_i += Gx^T x, dW_h += Gh^T h, db_i += Gx, db_h += Gh
//
// so the two biases of n have different gradients. norace: one goroutine computes here, as in refCell.
//
//go:norace
func refCellBack[F float32 | float64](x, h, dh1 []float64, wi, wh, bi, bh []F, to grad64) (dx, dh []float64) {
	n := len(h)
	row := func(w, b []F, i int, v []float64) float64 {
		sum := float64(b[i])
		for j, a := range v {
			sum += float64(w[i*len(v)+j]) * a
		}
		return sum
	}
	gx, gh := make([]float64, 3*n), make([]float64, 3*n)
	dx, dh = make([]float64, len(x)), make([]float64, n)
	for j := range n {
		u := row(wh, bh, 2*n+j, h)
		r := sigmoid(row(wi, bi, j, x) + row(wh, bh, j, h))
		z := sigmoid(row(wi, bi, n+j, x) + row(wh, bh, n+j, h))
		c := math.Tanh(row(wi, bi, 2*n+j, x) + r*u)
		an := dh1[j] * (1 - z) * (1 - c*c)
		gx[j], gx[n+j], gx[2*n+j] = an*u*r*(1-r), dh1[j]*(h[j]-c)*z*(1-z), an
		gh[j], gh[n+j], gh[2*n+j] = gx[j], gx[n+j], an*r
		dh[j] = dh1[j] * z
	}
	for i := range 3 * n {
		for j, v := range x {
			dx[j] += gx[i] * float64(wi[i*len(x)+j])
			to.wi[i*len(x)+j] += gx[i] * v
		}
		for j, v := range h {
			dh[j] += gh[i] * float64(wh[i*n+j])
			to.wh[i*n+j] += gh[i] * v
		}
		to.bi[i] += gx[i]
		to.bh[i] += gh[i]
	}
	return dx, dh
}

// gruGrads holds the results of a GRU's backward pass: dx [T,B,I], dh0 [L,B,H] and each layer's gradients.
type gruGrads struct {
	dx, dh0 []float64
	layers  []grad64
}

// refBackward computes a whole GRU backward in float64, through time and layers, from the cotangents dout [T,B,H] of
// the top layer's output and dhn [L,B,H] of the last states.
func refBackward(s shape, layers []layer64, x, h0, dout, dhn []float64) gruGrads {
	// Every layer's states; the first is the initial state.
	states := make([][]float64, s.L)
	in, width := x, s.I
	for l, p := range layers {
		row := s.B * s.H
		states[l] = make([]float64, (s.T+1)*row)
		copy(states[l], h0[l*row:(l+1)*row])
		for i := range s.T * s.B {
			refCell(in[i*width:(i+1)*width], states[l][i*s.H:(i+1)*s.H], p.wi, p.wh, p.bi, p.bh, states[l][row+i*s.H:][:s.H])
		}
		in, width = states[l][row:], s.H
	}
	g := gruGrads{dh0: make([]float64, s.L*s.B*s.H), layers: make([]grad64, s.L)}
	for l := s.L - 1; l >= 0; l-- {
		p, row := layers[l], s.B*s.H
		in, width = x, s.inputWidth(l)
		if l > 0 {
			in = states[l-1][row:]
		}
		g.layers[l] = newGrad64(s, l)
		g.dx = make([]float64, s.T*s.B*width)
		dh := g.dh0[l*row : (l+1)*row]
		copy(dh, dhn[l*row:(l+1)*row])
		for i := s.T*s.B - 1; i >= 0; i-- {
			mine := dh[i%s.B*s.H:][:s.H]
			for j := range mine {
				mine[j] += dout[i*s.H+j]
			}
			dx, before := refCellBack(in[i*width:(i+1)*width], states[l][i*s.H:(i+1)*s.H], mine, p.wi, p.wh, p.bi, p.bh, g.layers[l])
			copy(mine, before)
			copy(g.dx[i*width:], dx)
		}
		dout = g.dx
	}
	return g
}
