package e3nn

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/loop"
	"github.com/gpuprof/gpuprof/workloads/op"
)

// tuning is what a search for the fastest launch shapes found out.
type tuning struct {
	seconds  float64
	tried    int
	edges    int
	from, to device.Event
}

// candidates are the shapes of a layer's tensor product that may be chosen.
// With deterministic=on only those that add in the same order, so that the
// choice, which depends on timing, changes no bit.
func (s *session) candidates(i int) []op.TensorProduct {
	own := s.products[i]
	if !s.set.On("autotune") {
		return []op.TensorProduct{own}
	}
	all := own.Candidates(s.dev)
	if !s.set.On("deterministic") {
		return all
	}
	kept, segment := []op.TensorProduct{own}, own.Segment
	if segment == 0 {
		segment = defaultSegment
	}
	for _, c := range all[1:] {
		if c.Segment == segment {
			kept = append(kept, c)
		}
	}
	return kept
}

// defaultSegment is what a TensorProduct without a segment takes.
const defaultSegment = 256

// multipliers are the ways of a layer's MLP that may be chosen: the library as
// it is set, and where it need not be used the tiles of our own product. With
// deterministic=on the library stays what it is, because the two round
// differently. On the host device, where one product of the large presets takes
// seconds, there is no search for them.
func (s *session) multipliers(i int) []op.MLP {
	own := s.mlps[i]
	if s.dev.Info().Kind == "host" {
		return []op.MLP{own}
	}
	var kept []op.MLP
	for _, m := range own.Candidates(s.dev) {
		if m.Library == own.Library || !s.set.On("deterministic") {
			kept = append(kept, m)
		}
	}
	return kept
}

// startTuning puts a batch on the device and computes what all layers share.
func (s *session) startTuning(shared ...*op.Bound) error {
	began := time.Now()
	t := &tuning{}
	var err error
	if t.from, err = s.dev.NewEvent(); err != nil {
		return err
	}
	if t.to, err = s.dev.NewEvent(); err != nil {
		return err
	}
	sl := &s.slots[0]
	t.edges = s.batches.collate(&sl.host, 0)
	if err := s.send(sl, t.edges, loop.Silent{}); err != nil {
		return err
	}
	for _, b := range shared {
		b.SetEdges(t.edges)
		if err := b.Enqueue(s.Compute); err != nil {
			return err
		}
	}
	if err := s.Copies.Sync(); err != nil {
		return err
	}
	if err := s.Compute.Sync(); err != nil {
		return err
	}
	t.seconds = time.Since(began).Seconds()
	s.tuned = t
	return nil
}

// tuneLayer times every way of a layer's MLP, then every shape of its tensor
// product on the weights that came out, and keeps the fastest of each.
func (s *session) tuneLayer(ctx context.Context, i int) error {
	began := time.Now()
	defer func() { s.tuned.seconds += time.Since(began).Seconds() }()
	err := fastest(ctx, s, s.multipliers(i), &s.mlps[i], func() (*op.Bound, error) { return s.bindMLP(i) })
	if err != nil {
		return fmt.Errorf("tuning the radial MLP: %w", err)
	}
	err = fastest(ctx, s, s.candidates(i), &s.products[i], func() (*op.Bound, error) {
		product, scatter, err := s.bindProduct(i)
		if scatter != nil {
			err = scatter.Close()
		}
		return product, err
	})
	if err != nil {
		return fmt.Errorf("tuning the tensor product: %w", err)
	}
	return nil
}

// fastest tries every value of what and leaves the one whose operation takes
// least time.
func fastest[T any](ctx context.Context, s *session, values []T, what *T, bind func() (*op.Bound, error)) error {
	best, least := values[0], int64(math.MaxInt64)
	for _, v := range values {
		if err := ctx.Err(); err != nil {
			return err
		}
		*what = v
		b, err := bind()
		if err != nil {
			return err
		}
		ns, err := s.tuned.time(s, b)
		if e := b.Close(); err == nil {
			err = e
		}
		if err != nil {
			return err
		}
		if ns < least {
			best, least = v, ns
		}
	}
	if len(values) > 1 {
		s.tuned.tried += len(values)
	}
	*what = best
	return nil
}

// time is the shortest of three passes on the device, after one to warm up.
func (t *tuning) time(s *session, b *op.Bound) (int64, error) {
	b.SetEdges(t.edges)
	least := int64(math.MaxInt64)
	for pass := range 4 {
		if err := s.Compute.Record(t.from); err != nil {
			return 0, err
		}
		if err := b.Enqueue(s.Compute); err != nil {
			return 0, err
		}
		if err := s.Compute.Record(t.to); err != nil {
			return 0, err
		}
		if err := s.Compute.Sync(); err != nil {
			return 0, err
		}
		ns, err := s.dev.ElapsedNS(t.from, t.to)
		if err != nil {
			return 0, err
		}
		if pass > 0 {
			least = min(least, ns)
		}
	}
	return least, nil
}

// chosen describes every layer's choice.
func (t *tuning) chosen(s *session) []string {
	var out []string
	for i, p := range s.products {
		threads, segment, tile := "default", "default", "default"
		if p.Threads > 0 {
			threads = fmt.Sprint(p.Threads)
		}
		if p.Segment > 0 {
			segment = fmt.Sprint(p.Segment)
		}
		if n := s.mlps[i].Tile; n > 0 {
			tile = fmt.Sprint(n)
		}
		out = append(out, fmt.Sprintf("threads=%s segment=%s library=%s tile=%s", threads, segment, s.mlps[i].Library, tile))
	}
	return out
}
