package op

import "github.com/gpuprof/gpuprof/workloads/device"

func fillHost(args *device.Args, lo, hi int) {
	a := device.View[fillView](args)
	out, v := a.out.Floats()[lo:hi], a.value.F32()
	for i := range out {
		out[i] = v
	}
}
