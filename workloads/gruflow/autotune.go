package gruflow

import (
	"context"
	"time"

	"github.com/gpuprof/gpuprof/workloads/loop"
)

type tuning struct{ seconds float64 }

// tuneTiles times the GRU with every tile (rows per item of a product), and with the vendor's products where they are
// allowed, and keeps the fastest. Results do not depend on the tile: it groups rows and leaves the order of each sum
// unchanged.
func (s *session) tuneTiles(ctx context.Context) error {
	type candidate struct {
		tile   int
		vendor bool
	}
	var candidates []candidate
	if s.net.vendor {
		candidates = append(candidates, candidate{0, true})
	}
	if s.k.Library != "on" {
		for _, tile := range tiles {
			candidates = append(candidates, candidate{tile, false})
		}
	}
	best, err := loop.Fastest(ctx, candidates, func(c candidate) (time.Duration, error) {
		s.net.tile, s.net.vendor = c.tile, c.vendor
		return s.timeGRU()
	})
	if err != nil {
		return err
	}
	s.net.tile, s.net.vendor = best.tile, best.vendor
	s.tuned = &tuning{}
	return s.restoreStart()
}

// timeGRU returns the shortest time of three forward passes after a warm-up pass.
func (s *session) timeGRU() (time.Duration, error) {
	groups := s.net.bindLayers(s.slots[0].x)
	deriveLives(groups)
	if s.Err != nil {
		return 0, s.Err
	}
	if s.train != nil { // in training, a step first converts the weights to the products' formats
		for l := range s.shape.L {
			g := s.train.u.weightGroup(l)
			if err := s.run(&g); err != nil {
				return 0, err
			}
		}
	}
	return loop.Shortest(func() error {
		for i := range groups {
			if err := s.run(&groups[i]); err != nil {
				return err
			}
		}
		return s.stream.Sync()
	}, nil)
}
