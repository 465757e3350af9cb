package op

import "github.com/gpuprof/gpuprof/workloads/device"

func gateGradHost(args *device.Args, lo, hi int) {
	a := device.View[gateGradView](args)
	x, dout, dx, table, constants := a.x.Floats(), a.dout.Floats(), a.dx.Floats(), a.table.Ints(), a.constants.Floats()
	inDim, outDim, runs := a.inDim.Int(), a.outDim.Int(), a.runs.Int()
	for r := lo; r < hi; r++ {
		for i := range runs {
			gateGradRun(table[i*runInts:(i+1)*runInts], constants[i], x[r*inDim:(r+1)*inDim], dout[r*outDim:(r+1)*outDim], dx[r*inDim:(r+1)*inDim])
		}
	}
}

func gateGradRun(t []int32, c float32, x, dout, dx []float32) {
	xAt, oAt, copies, d := int(t[0]), int(t[1]), int(t[2]), int(t[3])
	gateAt, act, su, si := int(t[4]), int(t[5]), int(t[6]), int(t[7])
	for u := range copies {
		z := float64(x[gateAt+u])
		slope := c * float32(activationSlope(act, z))
		if d == 0 {
			dx[gateAt+u] = slope * dout[oAt+u]
			continue
		}
		phi, sum := c*float32(activate(act, z)), float32(0)
		for i := range d {
			at := u*su + i*si
			sum += x[xAt+at] * dout[oAt+at]
			dx[xAt+at] = phi * dout[oAt+at]
		}
		dx[gateAt+u] = slope * sum
	}
}
