package gruflow

import (
	"github.com/gpuprof/gpuprof/workloads/device"
)

func persistentHost(a *device.Args, lo, hi int) {
	batch, k, n, steps, tile := a.Int(9), a.Int(10), a.Int(11), a.Int(12), a.Int(17)
	x, h, prec := a.Floats(0)[a.Int(13):], a.Floats(5)[a.Int(14):], precision(a.Int(16))
	wi, bi, wh, bh := a.Floats(1), a.Floats(2), a.Floats(3), a.Floats(4)
	var out []float32
	if a.Int(15) != 0 {
		out = a.Floats(6)
	}
	row := scratchRow(k, n, prec)
	for band := lo; band < hi; band++ {
		r0 := band * tile
		size := min(tile, batch-r0)
		scratch := a.Floats(7)[r0*row : (r0+size)*row]
		gx, gh, rounded := scratch[:3*n*size], scratch[3*n*size:6*n*size], scratch[6*n*size:]
		state := h[r0*n : (r0+size)*n]
		for t := range steps {
			multiply(prec, x[(t*batch+r0)*k:][:size*k], wi, bi, gx, rounded, size, k)
			multiply(prec, state, wh, bh, gh, rounded, size, n)
			for r := range size {
				cell(gx[3*r*n:], gh[3*r*n:], state[r*n:(r+1)*n], n)
			}
			if out != nil {
				copy(out[(t*batch+r0)*n:], state)
			}
		}
	}
}

// multiply computes left w + bias with left [rows,k] rounded on the way, through scratch.
func multiply(p precision, left, w, bias, out, scratch []float32, rows, k int) {
	n := len(bias)
	switch {
	case p.isNarrow():
		small := viewHalves(scratch)[:rows*k]
		p.pack(small, left)
		narrowRows(p, small, viewHalves(w), bias, out, rows, k, n)
		return
	case p != fp32:
		p.round(scratch[:rows*k], left)
		left = scratch
	}
	wideRows(left, w, bias, out, rows, k, n)
}
