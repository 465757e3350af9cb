package op

import (
	"github.com/gpuprof/gpuprof/workloads/device"
)

func gateTangentHost(args *device.Args, lo, hi int) {
	a := device.View[gateTangentView](args)
	x, dx, out, table, constants := a.x.Floats(), a.dx.Floats(), a.out.Floats(), a.table.Ints(), a.constants.Floats()
	inDim, outDim, runs := a.inDim.Int(), a.outDim.Int(), a.runs.Int()
	for r := lo; r < hi; r++ {
		for i := range runs {
			gateTangentRun(table[i*runInts:(i+1)*runInts], constants[i], x[r*inDim:(r+1)*inDim], dx[r*inDim:(r+1)*inDim], out[r*outDim:(r+1)*outDim])
		}
	}
}

func gateTangentRun(t []int32, c float32, x, dx, out []float32) {
	xAt, oAt, copies, d := int(t[0]), int(t[1]), int(t[2]), int(t[3])
	gateAt, act, su, si := int(t[4]), int(t[5]), int(t[6]), int(t[7])
	for u := range copies {
		z := float64(x[gateAt+u])
		slope := c * float32(activationSlope(act, z)) * dx[gateAt+u]
		if d == 0 {
			out[oAt+u] = slope
			continue
		}
		phi := c * float32(activate(act, z))
		for i := range d {
			at := u*su + i*si
			out[oAt+at] = slope*x[xAt+at] + phi*dx[xAt+at]
		}
	}
}

func gateSecondHost(args *device.Args, lo, hi int) {
	a := device.View[gateSecondView](args)
	x, dx, dout, grad, table, constants := a.x.Floats(), a.dx.Floats(), a.dout.Floats(), a.grad.Floats(), a.table.Ints(), a.constants.Floats()
	inDim, outDim, runs := a.inDim.Int(), a.outDim.Int(), a.runs.Int()
	for r := lo; r < hi; r++ {
		in, out := r*inDim, r*outDim
		for i := range runs {
			gateSecondRun(table[i*runInts:(i+1)*runInts], constants[i], x[in:in+inDim], dx[in:in+inDim], dout[out:out+outDim], grad[in:in+inDim])
		}
	}
}

func gateSecondRun(t []int32, c float32, x, dx, dout, grad []float32) {
	xAt, oAt, copies, d := int(t[0]), int(t[1]), int(t[2]), int(t[3])
	gateAt, act, su, si := int(t[4]), int(t[5]), int(t[6]), int(t[7])
	for u := range copies {
		z, dz := float64(x[gateAt+u]), dx[gateAt+u]
		slope, bend := c*float32(activationSlope(act, z)), c*float32(activationCurvature(act, z))*dz
		if d == 0 {
			grad[gateAt+u] = bend * dout[oAt+u]
			continue
		}
		var sum, moved float32
		for i := range d {
			at := u*su + i*si
			g := dout[oAt+at]
			sum += x[xAt+at] * g
			moved += dx[xAt+at] * g
			grad[xAt+at] = slope * dz * g
		}
		grad[gateAt+u] = bend*sum + slope*moved
	}
}
