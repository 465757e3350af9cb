package op

import (
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/vec"
)

// radialTile is the number of edges processed per pass over the first layer's weights.
const radialTile = 32

func radialHost(args *device.Args, lo, hi int) {
	a := device.View[radialView](args)
	var factors [radialTile * radialFunctions]float32
	var cells [radialTile * radialFunctions * vec.CellInts]int32
	var row [radialHidden]float32
	n, kind, envelope, cutoff := a.functions.Int(), a.kind.Int(), a.envelope.Int() != 0, float64(a.cutoff.F32())
	hidden, inner, form, scale, c := a.hidden.Int(), a.inner.Int(), a.form.Int(), a.scale.F32(), a.c.F32()
	vectors, w1, h := a.vec.Floats(), a.w1.Floats(), a.h.Floats()
	for r := range radialTile {
		for k := range n { // adds function k times row k of w1 to row r of h
			copy(cells[(r*n+k)*vec.CellInts:], []int32{int32(k), int32(r)})
		}
	}
	for e := lo; e < hi; e += radialTile {
		edges := min(radialTile, hi-e)
		b := factors[:edges*n]
		for i := range edges {
			basisOne(b[i*n:(i+1)*n], vectors[3*(e+i):3*(e+i)+3], kind, envelope, cutoff)
		}
		for i := range b {
			b[i] *= scale
		}
		if form == packPlain {
			out := h[e*hidden : (e+edges)*hidden]
			clear(out)
			vec.Sweep(out, hidden, w1, hidden, hidden, cells[:edges*n*vec.CellInts], b)
			vec.Silu(out, c)
			continue
		}
		for i := range edges {
			out := row[:inner]
			clear(out)
			vec.Sweep(out, inner, w1, hidden, hidden, cells[:n*vec.CellInts], b[i*n:(i+1)*n])
			vec.Silu(out[:hidden], c)
			packRow(form, out, a.h, e+i)
		}
	}
}

// packRow stores row r of the hidden layer with its padding.
func packRow(form int, v []float32, h device.Mem, r int) {
	if form != packSplit {
		out := h.Halves()[r*len(v):]
		for i, x := range v {
			out[i] = packHalf(form, x)
		}
		return
	}
	n := len(v)
	out := h.Floats()[3*r*n:][:3*n]
	for i, x := range v {
		out[i], out[n+i], out[2*n+i] = roundTF32(x), roundTF32(x), packLow(x)
	}
}
