package collate

import (
	"context"
	"math"
	"math/rand/v2"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/loop"
	"github.com/gpuprof/gpuprof/workloads/op"
)

const (
	// tolerance of the float32 kernel against float64 arithmetic.
	tolerance = 1e-5
	// What is checked at least where all would take over a second.
	sampledRows = 64
	// What the references do in about a second on one core: distances of a
	// brute-force neighbour search, and terms of the consuming kernel.
	referenceDistances = 20_000_000
	referenceTerms     = 100_000_000
)

// Check implements workloads.Session. As many batches as are in flight are made,
// staged, copied and consumed as in a step, over poisoned memory, and compared
// after each stage. Whole steps follow.
func (s *session) Check(ctx context.Context) ([]gpuprof.Check, error) {
	c := &checker{s: s, ctx: ctx, rng: rand.New(rand.NewPCG(s.r.Seed, 3))}
	for i := range depth {
		if err := c.batch(i); err != nil {
			return c.checks(), err
		}
	}
	if err := c.wholeSteps(); err != nil {
		return c.checks(), err
	}
	return c.checks(), ctx.Err()
}

// checker compares batches with a reference put together row by row.
type checker struct {
	s    *session
	ctx  context.Context
	rng  *rand.Rand
	errs [stageCount]verdict

	whole verdict // of whole steps
}

// verdict adds up ||out-ref||^2 and ||ref||^2 of a stage, and what was compared.
type verdict struct {
	diff, ref      float64
	compared, rows int
}

// differs notes that something which must be equal to the bit is not.
func (v *verdict) differs() { v.diff = math.Inf(1) }

func (v *verdict) relative() float64 {
	if v.ref == 0 {
		if v.diff == 0 {
			return 0
		}
		return math.Inf(1)
	}
	return math.Sqrt(v.diff / v.ref)
}

// batch takes batch i through the pipeline.
func (c *checker) batch(i int) error {
	s := c.s
	l := &s.lanes[i%depth]
	if err := s.quiesce(); err != nil {
		return err
	}
	for _, b := range s.own {
		poison(b.home)
	}
	sl, err := s.fetch(i, loop.Silent{})
	if err != nil {
		return err
	}
	if err := c.assembly(sl); err != nil {
		return err
	}
	if l.host != nil {
		poison(l.host.Bytes())
	}
	if err := s.stage(l, sl); err != nil {
		return err
	}
	if err := c.sameFields(stStage, sl, func(f int) ([]byte, error) { return l.from.bytes(f), nil }); err != nil {
		return err
	}
	if err := op.Poison(s.dev, s.Compute, l.dev, l.out); err != nil {
		return err
	}
	if err := s.send(l, loop.Silent{}); err != nil {
		return err
	}
	if err := s.Compute.Sync(); err != nil {
		return err
	}
	if err := c.sameFields(stH2D, sl, func(f int) ([]byte, error) {
		return c.read(l.dev, 4*l.placed.at[f], 4*sl.words(f))
	}); err != nil {
		return err
	}
	if err := s.run(l, loop.Silent{}); err != nil {
		return err
	}
	return c.consumed(l, sl)
}

// sameFields compares every array of a batch with a copy of it, bit for bit.
func (c *checker) sameFields(stage int, sl *slot, copied func(f int) ([]byte, error)) error {
	v := &c.errs[stage]
	for f := range fields {
		got, err := copied(f)
		if err != nil {
			return err
		}
		if string(got) != string(sl.bytes(f)) {
			v.differs()
		}
	}
	v.compared, v.rows = v.compared+sl.rows[uSample], v.rows+sl.rows[uSample]
	return nil
}

// consumed compares the kernel's result for all edges, or for a sample of them.
func (c *checker) consumed(l *lane, sl *slot) error {
	s, v := c.s, &c.errs[stConsume]
	species := sl.ints(fSpecies)
	at := 0
	for _, f := range [2][3]int{{uEdge, fESrc, fEVec}, {uReach, fPSrc, fPVec}} {
		n := sl.rows[f[0]]
		got, err := c.read(l.out, 4*at, 4*n)
		if err != nil {
			return err
		}
		at += n
		out, src, vec := floatsOf(got), sl.ints(f[1]), sl.floats(f[2])
		rows := pick(c.rng, n, referenceTerms/max(s.passes, 1)/2)
		v.compared, v.rows = v.compared+len(rows), v.rows+n
		for _, e := range rows {
			ref := 0.0
			if from := src[e]; from >= 0 {
				ref = consumeRef(species[from], vec[3*e:3*e+3], s.passes, s.r.Cutoff)
			}
			d := float64(out[e]) - ref
			v.diff += d * d
			v.ref += ref * ref
		}
	}
	return c.ctx.Err()
}

// pick takes all of n rows when budget allows, or sampledRows at least: the
// first, the last and random ones.
func pick(rng *rand.Rand, n, budget int) []int {
	if n <= max(budget, sampledRows) {
		all := make([]int, n)
		for i := range all {
			all[i] = i
		}
		return all
	}
	rows := []int{0, n - 1}
	for range max(budget, sampledRows) {
		rows = append(rows, rng.IntN(n))
	}
	return rows
}

// read copies bytes of a device buffer.
func (c *checker) read(b device.Buffer, at, n int) ([]byte, error) {
	out := make([]byte, n)
	if n == 0 {
		return out, nil
	}
	tmp, err := c.s.dev.Alloc(n, device.Pageable)
	if err != nil {
		return nil, err
	}
	if err := c.s.Compute.Copy(tmp, 0, b, at, n); err != nil {
		return nil, err
	}
	if err := c.s.Compute.Sync(); err != nil {
		return nil, err
	}
	copy(out, tmp.Bytes())
	return out, tmp.Free()
}

// checks are the compared stages in step order.
func (c *checker) checks() []gpuprof.Check {
	var out []gpuprof.Check
	for st, v := range c.errs {
		if v.rows == 0 {
			continue
		}
		tol := 0.0 // the same bits
		if st == stConsume {
			tol = tolerance
		}
		out = append(out, loop.CheckOf(allStages()[st].Name, v.relative(), tol, v.compared, v.rows))
	}
	if v := c.whole; v.rows > 0 {
		out = append(out, loop.WholeCheck(v.relative(), tolerance, v.compared, v.rows, "rows"))
	}
	return out
}
