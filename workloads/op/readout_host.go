package op

import (
	"github.com/gpuprof/gpuprof/workloads/device"
)

func readoutHost(a *device.Args, lo, hi int) {
	x, factors, rho := a.Floats(0), a.Floats(1), a.Floats(2)
	width, first, count, add := a.Int(4), a.Int(5), a.Int(6), a.Int(7) != 0
	for r := lo; r < hi; r++ {
		sum := float32(0)
		for u, v := range x[r*width+first:][:count] {
			sum += factors[u] * v
		}
		storeValue(&rho[r], sum, add)
	}
}

func readoutGradHost(a *device.Args, lo, hi int) {
	drho, factors, dx := a.Floats(0), a.Floats(1), a.Floats(2)
	width, first, count := a.Int(4), a.Int(5), a.Int(6)
	for r := lo; r < hi; r++ {
		row := dx[r*width : (r+1)*width]
		clear(row)
		for u := range count {
			row[first+u] = drho[r] * factors[u]
		}
	}
}

func residualHost(a *device.Args, lo, hi int) {
	rho, target, drho, loss, k := a.Floats(0), a.Floats(1), a.Floats(2), a.Floats(3), a.F32(5)
	for r := lo; r < hi; r++ {
		d := rho[r] - target[r]
		drho[r], loss[r] = d*k, d*d*k/2
	}
}

func sumHost(a *device.Args, lo, hi int) {
	x, out, n := a.Floats(0), a.Floats(1), a.Int(3)
	for c := lo; c < hi; c++ {
		sum := 0.0
		for _, v := range x[c*sumChunk : min((c+1)*sumChunk, n)] {
			sum += float64(v)
		}
		out[c] = float32(sum)
	}
}
