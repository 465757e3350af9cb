package gruflow

import (
	"github.com/gpuprof/gpuprof/workloads/device"
)

func persistentHost(args *device.Args, lo, hi int) {
	a := device.View[gruPersistentView](args)
	batch, k, n, steps, tile := a.B.Int(), a.K.Int(), a.H.Int(), a.T.Int(), a.tile.Int()
	x, h, prec := a.x.Floats()[a.xAt.Int():], a.h.Floats()[a.hAt.Int():], precision(a.precision.Int())
	wi, bi, wh, bh := a.wi.Floats(), a.bi.Floats(), a.wh.Floats(), a.bh.Floats()
	var out []float32
	if a.hasOut.Int() != 0 {
		out = a.out.Floats()
	}
	row := scratchRow(k, n, prec)
	for band := lo; band < hi; band++ {
		r0 := band * tile
		size := min(tile, batch-r0)
		scratch := a.scratch.Floats()[r0*row : (r0+size)*row]
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
