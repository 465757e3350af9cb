package op

import (
	"errors"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device"
)

// rate is a cost that grows linearly with the number of edges: fixed plus perEdge for each edge.
type rate struct{ fixed, perEdge gpuprof.Cost }

func (r rate) costFor(edges int) gpuprof.Cost {
	return r.fixed.Add(r.perEdge.Times(int64(edges)))
}

func (r rate) add(o rate) rate { return rate{r.fixed.Add(o.fixed), r.perEdge.Add(o.perEdge)} }

// items gives a launch's number of items, (fixed + ceil(edges*perEdge/per)) * times; a per or times of 0 means 1.
type items struct{ fixed, perEdge, per, times int }

func (it items) countFor(edges int) int {
	times := max(it.times, 1)
	if it.perEdge == 0 {
		return it.fixed * times
	}
	per := max(it.per, 1)
	return (it.fixed + (edges*it.perEdge+per-1)/per) * times
}

type launch struct {
	Call
	items items
	cost  rate
}

// Bound is an operation bound to its buffers: the kernel launches of one step. One goroutine at a time may use it.
type Bound struct {
	name            string
	launches        []launch
	owned           []device.Buffer
	output          device.Buffer // see Output
	minimum         rate
	edges, capacity int
	overEdges       bool // the cost or the items of some launch depend on the number of edges
}

var _ device.Op = (*Bound)(nil)

// SetEdges makes the next Enqueue process the first e edges of the buffers, without allocating. Before the first call,
// Enqueue processes edgeCap edges, the capacity given to Bind. Enqueue returns an error if e is outside 0..capacity.
// SetEdges has no effect on operations over rows.
func (b *Bound) SetEdges(e int) {
	if b.overEdges {
		b.setEdges(e)
	}
}

func (b *Bound) setEdges(e int) {
	b.edges = e
	if e < 0 || e > b.capacity {
		return
	}
	for i := range b.launches {
		l := &b.launches[i]
		l.N = l.items.countFor(e)
		(*Binder)(nil).Set(&l.Call, 0, e)
	}
}

// Edges returns the number of edges that the next Enqueue processes.
func (b *Bound) Edges() int { return b.edges }

// Enqueue launches the operation on s and skips launches without items.
func (b *Bound) Enqueue(s device.Stream) error {
	if b.edges < 0 || b.edges > b.capacity {
		return gpuprof.Errorf(gpuprof.ErrUsage, "enqueuing %s: %d edges do not fit the capacity of %d it was bound with", b.name, b.edges, b.capacity).WithFix("bind it with more")
	}
	for i := range b.launches {
		l := &b.launches[i]
		if l.N == 0 {
			continue
		}
		if err := s.Launch(l.Func, l.N, &l.Args); err != nil {
			return err
		}
	}
	return nil
}

// Parts returns one entry per launch that has items at the current number of edges, in launch order.
func (b *Bound) Parts() []gpuprof.Part {
	parts := make([]gpuprof.Part, 0, len(b.launches))
	for i := range b.launches {
		l := &b.launches[i]
		if l.N == 0 {
			continue
		}
		cost := l.cost.costFor(b.edges)
		cost.Launches = 1
		parts = append(parts, gpuprof.Part{Kernel: l.Kernel, Cost: cost})
	}
	return parts
}

// Minimum returns a lower bound on the cost of any implementation at the current number of edges. It counts the least
// arithmetic, one read of every input, one write of every output and one launch.
func (b *Bound) Minimum() gpuprof.Cost {
	c := b.minimum.costFor(b.edges)
	c.Launches = 1
	return c
}

// Close frees the memory that Bind allocated, not the buffers that the caller passed in.
func (b *Bound) Close() error {
	var errs []error
	for _, buf := range b.owned {
		errs = append(errs, buf.Free())
	}
	b.owned = nil
	return errors.Join(errs...)
}
