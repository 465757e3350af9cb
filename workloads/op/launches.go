package op

import (
	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device"
)

// Launch is one kernel of a package that has kernels of its own: N items, and what
// they cost by count. Args are those of the kernel's signature, a Buffer, an int or a
// float32 each.
type Launch struct {
	Kernel *device.Kernel
	N      int
	Cost   gpuprof.Cost
	Args   []any
}

// BindLaunches binds launches that follow each other. minimum is the least that any
// way of doing the same computes and moves.
func BindLaunches(dev device.Device, name string, minimum gpuprof.Cost, all ...Launch) (*Bound, error) {
	k := newBinder(dev, name, 0)
	k.b.minimum = rate{fixed: minimum}
	for _, l := range all {
		k.launch(l.Kernel, items{fixed: l.N}, rate{fixed: l.Cost}, l.Args...)
	}
	return k.done()
}

// Moved is the cost of flops on r values read and w written, of four bytes.
func Moved(flops, r, w int) gpuprof.Cost { return move(flops, r, w) }
