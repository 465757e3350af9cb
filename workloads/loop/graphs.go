package loop

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/gpuprof/gpuprof/workloads"
	"github.com/gpuprof/gpuprof/workloads/device"
)

// GraphKey identifies a captured graph by everything about a step that the capture fixes. Slot is the batch in flight,
// Turn the index in the rotation of buffers, Count the number of edges or images of the batch. Optional reports whether
// optional stages run.
type GraphKey struct {
	Slot, Turn, Count int
	Optional          bool
}

// Graphs holds the captured launches of steps; it is empty with graph=off. It captures until an error, which it keeps
// in Err.
type Graphs struct {
	Of      map[GraphKey]device.Op
	Seconds float64 // spent on capturing and instantiating
	Err     error
}

// Capture captures what enqueue enqueues on a stream, unless the key already has a graph.
func (g *Graphs) Capture(ctx context.Context, d device.Device, on device.Stream, key GraphKey, enqueue func() error) {
	g.Err = cmp.Or(g.Err, ctx.Err())
	if g.Err != nil || g.Of[key] != nil {
		return
	}
	began := time.Now()
	graph, err := d.Capture(on, enqueue)
	if err != nil {
		g.Err = fmt.Errorf("capturing the step: %w", err)
		return
	}
	if g.Of == nil {
		g.Of = map[GraphKey]device.Op{}
	}
	g.Of[key] = graph
	g.Seconds += time.Since(began).Seconds()
}

// Replay enqueues the graph of a key in a span of the given stage, and reports whether there is one.
func (g *Graphs) Replay(key GraphKey, on device.Stream, stage int, p workloads.Probe) (replayed bool, err error) {
	graph := g.Of[key]
	if graph == nil {
		return false, nil
	}
	sp := p.Begin(stage, on)
	err = graph.Enqueue(on)
	p.End(sp)
	return true, err
}
