package op

import (
	"github.com/gpuprof/gpuprof/workloads/device"
)

func positionsHost(a *device.Args, lo, hi int) {
	f, rowPtr, colPtr, perm, out := a.Floats(0), a.Ints(1), a.Ints(2), a.Ints(3), a.Floats(4)
	atoms, rows := a.Int(6), a.Int(7)
	first := int(colPtr[atoms+1])
	for i := lo; i < hi; i++ {
		var x, y, z float64
		if i < atoms {
			for _, e := range perm[colPtr[i]:colPtr[i+1]] {
				x, y, z = x-float64(f[3*e]), y-float64(f[3*e+1]), z-float64(f[3*e+2])
			}
		}
		if r := i - first; r >= 0 && r < rows {
			for e := rowPtr[r]; e < rowPtr[r+1]; e++ {
				x, y, z = x+float64(f[3*e]), y+float64(f[3*e+1]), z+float64(f[3*e+2])
			}
		}
		out[3*i], out[3*i+1], out[3*i+2] = float32(x), float32(y), float32(z)
	}
}
