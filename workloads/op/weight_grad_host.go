package op

import (
	"math"

	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/vec"
)

func weightGradHost(args *device.Args, lo, hi int) {
	a := device.View[weightGradView](args)
	left, right, partial, tiles, work := a.a.Floats(), a.b.Floats(), a.partial.Floats(), a.tiles.Ints(), a.work.Floats()
	rows, aDim, bDim, numel, across := a.rows.Int(), a.aDim.Int(), a.bDim.Int(), a.numel.Int(), a.across.Int()
	for item := lo; item < hi; item++ {
		chunk, tile := item/across, tiles[item%across*outerInts:][:outerInts]
		space := work[item*int(tile[11]):][:tile[11]]
		m1, m3, d := int(tile[3]), int(tile[4]), int(tile[5])
		u, copies, v, cols, k := int(tile[6]), int(tile[7]), int(tile[8]), int(tile[9]), math.Float32frombits(uint32(tile[10]))
		out := partial[chunk*numel+int(tile[2])+u*m3+v:]
		for r := range copies {
			clear(out[r*m3:][:cols])
		}
		end := min((chunk+1)*outerChunk, rows)
		for r0 := chunk * outerChunk; r0 < end; r0 += outerRows {
			n := min(outerRows, end-r0)
			for i := range d {
				at := int(tile[0]) + i*m1 + u
				vec.GemmT(copies, cols, n, k, left[r0*aDim+at:], aDim, right[r0*bDim+int(tile[1])+i*m3+v:], bDim, out, m3, space)
			}
		}
	}
}

func weightSumHost(args *device.Args, lo, hi int) {
	a := device.View[weightSumView](args)
	partial, out, n, chunks, add := a.partial.Floats(), a.out.Floats()[lo:hi], a.count.Int(), ceilDiv(a.rows.Int(), outerChunk), a.add.Int() != 0
	if !add {
		clear(out)
	}
	for c := range chunks {
		vec.Axpy(1, partial[c*n+lo:][:hi-lo], out)
	}
}

func roundHost(args *device.Args, lo, hi int) {
	a := device.View[roundInplaceView](args)
	x := a.x.Floats()[lo:hi]
	for precision, mode := range roundings {
		if mode == a.mode.Int() {
			RoundTo(precision, x)
		}
	}
}
