package op

import (
	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device"
)

// Rebind returns the same operation on other buffers: every argument that is a key of swap becomes its value. Kernels,
// tables and scratch memory are shared with b, so the copy must be enqueued on the same stream as b and must not be
// closed. A value must be at least as large as its key.
func (b *Bound) Rebind(swap map[device.Buffer]device.Buffer) (*Bound, error) {
	for from, to := range swap {
		if to.Len() < from.Len() {
			return nil, gpuprof.Errorf(gpuprof.ErrUsage, "binding %s again: a buffer of %d bytes cannot stand in for one of %d", b.name, to.Len(), from.Len()).WithFix("allocate it as large")
		}
	}
	c := *b
	c.owned = nil
	c.launches = append([]launch(nil), b.launches...)
	for i := range c.launches {
		args := &c.launches[i].Args
		for j := range args {
			if to, ok := swap[args[j].Buf]; ok && to != nil {
				args.SetBuf(j, to)
			}
		}
	}
	return &c, nil
}

// Output returns the buffer that the operation itself owns, nil if it writes to the caller's. Only an unfused product
// owns one: each edge's result, [E, TP.Out.Dim] in Layout, which the product's scatter sums.
func (b *Bound) Output() device.Buffer { return b.output }
