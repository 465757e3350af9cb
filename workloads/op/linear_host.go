package op

import (
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/vec"
)

func linearHost(args *device.Args, lo, hi int) {
	a := device.View[linearView](args)
	x, w, out, table, coefficients := a.x.Floats(), a.w.Floats(), a.out.Floats(), a.table.Ints(), a.coefficients.Floats()
	inDim, outDim, pairs, add := a.inDim.Int(), a.outDim.Int(), a.pairs.Int(), a.add.Int() != 0
	for r := lo; r < hi; r += tileRows {
		rows := min(tileRows, hi-r)
		if !add {
			clear(out[r*outDim : (r+rows)*outDim])
		}
		for p := range pairs {
			t := table[p*pairInts:]
			xAt, oAt, wAt, m1, m3, d := int(t[0]), int(t[1]), int(t[2]), int(t[3]), int(t[4]), int(t[5])
			for i := range d {
				vec.Gemm(rows, m3, m1, coefficients[p],
					x[r*inDim+xAt+i*m1:], inDim, w[wAt:], m3, out[r*outDim+oAt+i*m3:], outDim)
			}
		}
	}
}
