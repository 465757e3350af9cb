package gruflow

import (
	"github.com/gpuprof/gpuprof/workloads/device"
)

func roundHost(args *device.Args, lo, hi int) {
	a := device.View[gruRoundView](args)
	p, in, out := precision(a.precision.Int()), a.in.Floats()[a.inAt.Int():][lo:hi], a.out.Floats()
	if p.isNarrow() {
		p.pack(viewHalves(out)[lo:hi], in)
		return
	}
	p.round(out[lo:hi], in)
}

func widenHost(args *device.Args, lo, hi int) {
	a := device.View[gruRoundView](args)
	precision(a.precision.Int()).unpack(a.out.Floats()[lo:hi], viewHalves(a.in.Floats())[a.inAt.Int():][lo:hi])
}
