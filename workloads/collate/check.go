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
	// tolerance is the largest error of the float32 kernel against float64.
	tolerance = 1e-5
	// sampledRows is the least number of rows that are checked where all rows would take over a second.
	sampledRows = 64
	// Work of about a second on one core: distances of a brute-force search, and terms of the consuming kernel.
	referenceDistances = 20_000_000
	referenceTerms     = 100_000_000
)

// Check implements workloads.Session. It makes as many batches as are in flight (depth) and takes each through the
// stages of a step, over memory filled with NaN. Copies must equal the batch bit for bit; assembled and computed values
// are compared with references. Then it checks whole steps.
func (s *session) Check(ctx context.Context) ([]gpuprof.Check, error) {
	c := &checker{s: s, ctx: ctx, rng: rand.New(rand.NewPCG(s.r.Seed, 3))}
	for i := range depth {
		if err := c.checkBatch(i); err != nil {
			return c.stageChecks(), err
		}
	}
	if err := c.checkWholeSteps(); err != nil {
		return c.stageChecks(), err
	}
	return c.stageChecks(), ctx.Err()
}

// checker compares batches with a reference that computes them row by row.
type checker struct {
	s    *session
	ctx  context.Context
	rng  *rand.Rand
	errs [stageCount]verdict

	whole verdict // result of whole steps
}

// verdict is the error of a stage, with the number of compared rows out of all.
type verdict struct {
	op.ErrorNorm
	compared, rows int
}

func (c *checker) checkBatch(i int) error {
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
	if err := c.checkAssembly(sl); err != nil {
		return err
	}
	if l.host != nil {
		poison(l.host.Bytes())
	}
	if err := s.stageBatch(l, sl); err != nil {
		return err
	}
	if err := c.compareFields(stStage, sl, func(f int) ([]byte, error) { return l.from.bytesOf(f), nil }); err != nil {
		return err
	}
	if err := op.Poison(s.dev, s.Compute, l.dev, l.out); err != nil {
		return err
	}
	if err := s.sendBatch(l, loop.Silent{}); err != nil {
		return err
	}
	if err := s.Compute.Sync(); err != nil {
		return err
	}
	if err := c.compareFields(stH2D, sl, func(f int) ([]byte, error) {
		return c.read(l.dev, 4*l.placed.at[f], 4*sl.wordsOf(f))
	}); err != nil {
		return err
	}
	if err := s.run(l, loop.Silent{}); err != nil {
		return err
	}
	return c.checkConsumed(l, sl)
}

// compareFields compares every field of a batch with its copy, bit for bit.
func (c *checker) compareFields(stage int, sl *slot, copied func(f int) ([]byte, error)) error {
	v := &c.errs[stage]
	for f := range fields {
		got, err := copied(f)
		if err != nil {
			return err
		}
		if string(got) != string(sl.bytesOf(f)) {
			v.Diff = math.Inf(1)
		}
	}
	v.compared, v.rows = v.compared+sl.rows[uSample], v.rows+sl.rows[uSample]
	return nil
}

// checkConsumed compares the kernel's results for all edges or a sample.
func (c *checker) checkConsumed(l *lane, sl *slot) error {
	s, v := c.s, &c.errs[stConsume]
	species := sl.intField(fSpecies)
	at := 0
	for _, f := range [2][3]int{{uEdge, fESrc, fEVec}, {uReach, fPSrc, fPVec}} {
		n := sl.rows[f[0]]
		got, err := c.read(l.out, 4*at, 4*n)
		if err != nil {
			return err
		}
		at += n
		out, src, vec := floatsOf(got), sl.intField(f[1]), sl.floatField(f[2])
		rows := op.PickRows(c.rng, n, max(sampledRows, referenceTerms/max(s.k.Consume, 1)/2), 0, n-1)
		v.compared, v.rows = v.compared+len(rows), v.rows+n
		for _, e := range rows {
			ref := 0.0
			if from := src[e]; from >= 0 {
				ref = consumeRef(species[from], vec[3*e:3*e+3], s.k.Consume, s.r.Cutoff)
			}
			d := float64(out[e]) - ref
			v.Diff += d * d
			v.Ref += ref * ref
		}
	}
	return c.ctx.Err()
}

func (c *checker) read(b device.Buffer, at, n int) ([]byte, error) {
	return op.ReceiveBytes(c.s.dev, c.s.Compute, b, at, n)
}

func (c *checker) stageChecks() []gpuprof.Check {
	var out []gpuprof.Check
	for st, v := range c.errs {
		if v.rows == 0 {
			continue
		}
		tol := 0.0 // equal bits
		if st == stConsume {
			tol = tolerance
		}
		out = append(out, loop.CheckOf(allStages()[st].Name, v.Relative(), tol, v.compared, v.rows))
	}
	if v := c.whole; v.rows > 0 {
		out = append(out, loop.WholeCheck(v.Relative(), tolerance, v.compared, v.rows, "rows"))
	}
	return out
}
