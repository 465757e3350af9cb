package serving

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/gpuprof/gpuprof/workloads"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/loop"
)

// graphs holds the network's captured launches: one graph for each slot and batch size, since a graph fixes both.
type graphs struct {
	of      [][]device.Op // by slot and index in session.sizes; nil with graph=off
	made    int
	seconds float64 // spent on capturing and instantiating
}

func (s *session) captureGraphs(ctx context.Context) error {
	began, on := time.Now(), s.compute
	if on == nil { // streams=new: a graph runs on any stream
		on = s.main
	}
	s.graphs.of = make([][]device.Op, len(s.slots))
	for k := range s.slots {
		for _, size := range s.sizes {
			if err := ctx.Err(); err != nil {
				return fmt.Errorf("capturing batches of %d: %w", size, err)
			}
			g, err := s.dev.Capture(on, func() error { return s.net.run(on, k, size, 0, loop.Silent{}) })
			if err != nil {
				return fmt.Errorf("capturing batches of %d: %w", size, err)
			}
			s.graphs.of[k] = append(s.graphs.of[k], g)
			s.graphs.made++
		}
	}
	s.graphs.seconds = time.Since(began).Seconds()
	return nil
}

// runNetwork enqueues the network for a batch, as single launches or as the graph of the batch's size.
func (s *session) runNetwork(on device.Stream, l *slot, p workloads.Probe) error {
	if s.graphs.of == nil {
		return s.net.run(on, l.at, l.requests, s.index[stForward], p)
	}
	size, _ := slices.BinarySearch(s.sizes, l.requests) // always found: with pad=on no other size occurs
	sp := p.Begin(s.index[stForward], on)
	err := s.graphs.of[l.at][size].Enqueue(on)
	p.End(sp)
	return err
}
