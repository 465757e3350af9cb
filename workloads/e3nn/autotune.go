package e3nn

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"time"

	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/loop"
	"github.com/gpuprof/gpuprof/workloads/op"
)

type tuning struct {
	seconds  float64
	tried    int
	edges    int
	from, to device.Event
}

// candidates returns the tensor products with the launch shapes among which autotune chooses for layer i. With
// deterministic=on it keeps only shapes with the same order of additions: the choice depends on timing and must not
// change a bit of the result.
func (s *session) candidates(i int) []op.TensorProduct {
	own := s.products[i]
	if !s.k.Autotune {
		return []op.TensorProduct{own}
	}
	all := own.Candidates(s.dev)
	if !s.k.Deterministic {
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

// defaultSegment is the number of edges per segment of an op.TensorProduct whose Segment is 0.
const defaultSegment = 256

// mlpCandidates returns the MLPs among which autotune chooses for layer i: with and without the vendor's library, and
// with each tile of our own product. If the library is required, it is always used. With deterministic=on the library
// setting stays, because the library and our product round differently. The host device has one candidate, because one
// product of the large presets takes seconds there.
func (s *session) mlpCandidates(i int) []op.MLP {
	own := s.mlps[i]
	if s.dev.Info().Kind == "host" {
		return []op.MLP{own}
	}
	var kept []op.MLP
	for _, m := range own.Candidates(s.dev) {
		if m.Library == own.Library || !s.k.Deterministic {
			kept = append(kept, m)
		}
	}
	return kept
}

// startTuning copies a batch to the device, and runs the operations in shared, whose results all layers use.
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
	if !op.Counts(s.dev) {
		t.edges = s.batches.collate(&sl.host, 0)
	}
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

// tuneLayer times every candidate for a layer's MLP, then every candidate for its tensor product on the resulting
// weights, and keeps the fastest of each.
func (s *session) tuneLayer(ctx context.Context, i int) error {
	began := time.Now()
	defer func() { s.tuned.seconds += time.Since(began).Seconds() }()
	err := chooseFastest(ctx, s, s.mlpCandidates(i), &s.mlps[i], func() (*op.Bound, error) { return s.bindMLP(i) })
	if err != nil {
		return fmt.Errorf("tuning the radial MLP: %w", err)
	}
	err = chooseFastest(ctx, s, s.candidates(i), &s.products[i], func() (*op.Bound, error) {
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

// chooseFastest sets *what to the one of values whose operation, bound by bind, takes the least time.
func chooseFastest[T any](ctx context.Context, s *session, values []T, what *T, bind func() (*op.Bound, error)) error {
	best, err := loop.Fastest(ctx, values, func(v T) (int64, error) {
		*what = v
		b, err := bind()
		if err != nil {
			return 0, err
		}
		ns, err := s.tuned.shortestTime(s, b)
		return ns, cmp.Or(err, b.Close())
	})
	if err != nil {
		return err
	}
	if len(values) > 1 {
		s.tuned.tried += len(values)
	}
	*what = best
	return nil
}

// shortestTime returns the shortest time in nanoseconds of three runs of b on the device, after a warm-up run.
func (t *tuning) shortestTime(s *session, b *op.Bound) (int64, error) {
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

func (t *tuning) describeChoices(s *session) []string {
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
