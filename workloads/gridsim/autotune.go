package gridsim

import (
	"context"
	"math"
	"time"

	"github.com/gpuprof/gpuprof/workloads/loop"
)

// tuneTiles runs the law with every tile and keeps the fastest. A tile groups cells and does not change the order of a
// sum, so results do not depend on it.
func (s *session) tuneTiles(ctx context.Context) error {
	began := time.Now()
	best, fastest := s.tile, time.Duration(math.MaxInt64)
	for _, tile := range tiles {
		if err := ctx.Err(); err != nil {
			return err
		}
		s.tile = tile
		s.bindLaw()
		if s.Err != nil {
			return s.Err
		}
		t, err := s.timeLaw()
		if err != nil {
			return err
		}
		if t < fastest {
			best, fastest = tile, t
		}
	}
	s.tile = best
	s.bindLaw()
	s.tuned = time.Since(began).Seconds()
	return s.Err
}

// timeLaw returns the shortest of three steps of the law, after one to warm up.
func (s *session) timeLaw() (time.Duration, error) {
	timed := s.timed
	s.timed = false // there are no stages yet
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
