package op

import (
	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device"
)

// Launch is one launch of a kernel: N items and their counted cost. Args is the argument struct that device.Typed was
// given for the kernel. Packages with kernels of their own build Launches.
type Launch struct {
	Kernel *device.Kernel
	N      int
	Cost   gpuprof.Cost
	Args   any
}

// BindLaunches returns an operation that runs the launches all in this order. The argument minimum is a lower bound on
// the cost of any implementation of the operation.
func BindLaunches(dev device.Device, name string, minimum gpuprof.Cost, all ...Launch) (*Bound, error) {
	k := newBinder(dev, name, 0)
	k.b.minimum = rate{fixed: minimum}
	for _, l := range all {
		k.addLaunch(l.Kernel, items{fixed: l.N}, rate{fixed: l.Cost}, l.Args)
	}
	return k.finishBinding()
}
