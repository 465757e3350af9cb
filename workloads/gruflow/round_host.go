package gruflow

import (
	"github.com/gpuprof/gpuprof/workloads/device"
)

func roundHost(a *device.Args, lo, hi int) {
	p, in, out := precision(a.Int(3)), a.Floats(0)[a.Int(4):][lo:hi], a.Floats(1)
	if p.isNarrow() {
		p.pack(viewHalves(out)[lo:hi], in)
		return
	}
	p.round(out[lo:hi], in)
}

func widenHost(a *device.Args, lo, hi int) {
	precision(a.Int(3)).unpack(a.Floats(1)[lo:hi], viewHalves(a.Floats(0))[a.Int(4):][lo:hi])
}
