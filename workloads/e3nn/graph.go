package e3nn

import (
	"context"
	"fmt"
	"time"

	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/loop"
)

// graphs holds the captured launches of steps. A graph fixes the number of edges of its launches. So there is one for
// each slot (a step in flight) and each number of edges among the batches that the steps use in turn; these are counted
// at set-up. Batches with the same number of edges share a graph, because it reads the batch from the slot.
type graphs struct {
	of      [depth][]device.Op // by slot and batch; nil with graph=off
	made    int
	seconds float64 // spent on capturing and instantiating
}

func (s *session) captureGraphs(ctx context.Context) error {
	began := time.Now()
	n := len(s.in.batches)
	for k := range depth {
		s.graphs.of[k] = make([]device.Op, n)
		same := map[int]device.Op{}
		for b, edges := range s.in.edges {
			if n%depth == 0 && b%depth != k { // this slot never gets this batch
				continue
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			if same[edges] == nil {
				s.setEdges(k, edges)
				g, err := s.dev.Capture(s.Compute, func() error { return s.compute(k, 0, loop.Silent{}) })
				if err != nil {
					return fmt.Errorf("capturing the step: %w", err)
				}
				same[edges] = g
				s.graphs.made++
			}
			s.graphs.of[k][b] = same[edges]
		}
	}
	s.graphs.seconds = time.Since(began).Seconds()
	return nil
}
