package op

import (
	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device"
)

// Launch is one kernel of a package with kernels of its own: N items and their counted cost. Args is the
// struct that the kernel was made with; see device.Typed.
type Launch struct {
	Kernel *device.Kernel
	N      int
	Cost   gpuprof.Cost
	Args   any
}

// BindLaunches binds launches that follow each other. minimum is the least that any implementation of the same
// computation computes and moves.
func BindLaunches(dev device.Device, name string, minimum gpuprof.Cost, all ...Launch) (*Bound, error) {
	k := newBinder(dev, name, 0)
	k.b.minimum = rate{fixed: minimum}
	for _, l := range all {
		k.addLaunch(l.Kernel, items{fixed: l.N}, rate{fixed: l.Cost}, l.Args)
	}
	return k.finishBinding()
}

// Moved returns the cost of flops operations on r values read and w written, of four bytes each.
func Moved(flops, r, w int) gpuprof.Cost { return moveCost(flops, r, w) }
