package op

import "github.com/gpuprof/gpuprof/workloads/device"

func gateHost(args *device.Args, lo, hi int) {
	a := device.View[gateView](args)
	x, out, table, constants := a.x.Floats(), a.out.Floats(), a.table.Ints(), a.constants.Floats()
	inDim, outDim, runs := a.inDim.Int(), a.outDim.Int(), a.runs.Int()
	for r := lo; r < hi; r++ {
		for i := range runs {
			gateRun(table[i*runInts:(i+1)*runInts], constants[i], x[r*inDim:(r+1)*inDim], out[r*outDim:(r+1)*outDim])
		}
	}
}

func gateRun(t []int32, c float32, x, out []float32) {
	xAt, oAt, copies, d := int(t[0]), int(t[1]), int(t[2]), int(t[3])
	gateAt, act, su, si := int(t[4]), int(t[5]), int(t[6]), int(t[7])
	for u := range copies {
		g := c * float32(activate(act, float64(x[gateAt+u])))
		if d == 0 {
			out[oAt+u] = g
			continue
		}
		for i := range d {
			at := u*su + i*si
			out[oAt+at] = g * x[xAt+at]
		}
	}
}
