package op

import (
	"github.com/gpuprof/gpuprof/workloads/device"
)

func fillHost(a *device.Args, lo, hi int) {
	out, v := a.Floats(0)[lo:hi], a.F32(2)
	for i := range out {
		out[i] = v
	}
}
