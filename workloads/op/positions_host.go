package op

import "github.com/gpuprof/gpuprof/workloads/device"

func positionsHost(args *device.Args, lo, hi int) {
	a := device.View[positionsView](args)
	f, rowPtr, colPtr, perm, out := a.f.Floats(), a.rowptr.Ints(), a.colptr.Ints(), a.perm.Ints(), a.out.Floats()
	atoms, rows := a.atoms.Int(), a.rows.Int()
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
