package op

import "github.com/gpuprof/gpuprof/workloads/device"

func readoutHost(args *device.Args, lo, hi int) {
	a := device.View[readoutView](args)
	x, factors, rho := a.x.Floats(), a.a.Floats(), a.rho.Floats()
	width, first, count, add := a.width.Int(), a.first.Int(), a.factors.Int(), a.add.Int() != 0
	for r := lo; r < hi; r++ {
		sum := float32(0)
		for u, v := range x[r*width+first:][:count] {
			sum += factors[u] * v
		}
		storeValue(&rho[r], sum, add)
	}
}

func readoutGradHost(args *device.Args, lo, hi int) {
	a := device.View[readoutGradView](args)
	drho, factors, dx := a.drho.Floats(), a.a.Floats(), a.dx.Floats()
	width, first, count := a.width.Int(), a.first.Int(), a.factors.Int()
	for r := lo; r < hi; r++ {
		row := dx[r*width : (r+1)*width]
		clear(row)
		for u := range count {
			row[first+u] = drho[r] * factors[u]
		}
	}
}

func residualHost(args *device.Args, lo, hi int) {
	a := device.View[residualView](args)
	rho, target, drho, loss, k := a.rho.Floats(), a.target.Floats(), a.drho.Floats(), a.loss.Floats(), a.scale.F32()
	for r := lo; r < hi; r++ {
		d := rho[r] - target[r]
		drho[r], loss[r] = d*k, d*d*k/2
	}
}

func sumHost(args *device.Args, lo, hi int) {
	a := device.View[sumView](args)
	x, out, n := a.x.Floats(), a.out.Floats(), a.values.Int()
	for c := lo; c < hi; c++ {
		sum := 0.0
		for _, v := range x[c*sumChunk : min((c+1)*sumChunk, n)] {
			sum += float64(v)
		}
		out[c] = float32(sum)
	}
}
