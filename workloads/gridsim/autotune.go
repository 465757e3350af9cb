package gridsim

import (
	"context"
	"time"

	"github.com/gpuprof/gpuprof/workloads/loop"
)

// tuneTiles times the law (the kernels that update all cells) with every tile, the number of cells per work item, and
// keeps the fastest. Results do not depend on the tile: it groups cells and leaves the order of each sum unchanged.
func (s *session) tuneTiles(ctx context.Context) error {
	began := time.Now()
	best, err := loop.Fastest(ctx, tiles[:], func(tile int) (time.Duration, error) {
		s.tile = tile
		s.bindLaw()
		if s.Err != nil {
			return 0, s.Err
		}
		return s.timeLaw()
	})
	if err != nil {
		return err
	}
	s.tile = best
	s.bindLaw()
	s.tuned = time.Since(began).Seconds()
	return s.Err
}

// timeLaw returns the shortest time of three steps of the law after a warm-up step.
func (s *session) timeLaw() (time.Duration, error) {
	timed := s.timed
	s.timed = false // stages are described later
	defer func() { s.timed = timed }()
	return loop.Shortest(func() error {
		for i := range s.ops {
			if err := s.runOperation(&s.ops[i], loop.Silent{}); err != nil {
				return err
			}
		}
		return s.Compute.Sync()
	}, func() error {
		if err := s.endTape(loop.Silent{}); err != nil {
			return err
		}
		return s.memory.give(s.blocks[bNext])
	})
}
