package gruflow

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/loop"
	"github.com/gpuprof/gpuprof/workloads/op"
)

const (
	// tolerance is the largest error, against float64, of the carriers' update and of the metrics; both always use
	// float32.
	tolerance = 1e-5
	// sampledRows is the number of rows that are checked where all rows would take over a second.
	sampledRows = 64
	// referenceRate is the speed of the reference on one core, in flops per second as counted for the float32 kernels. It
	// only decides between all rows and a sample.
	referenceRate = 8e8
)

// Check implements workloads.Session. It checks both slots (steps in flight), then whole steps. A row of the GRU is one
// carrier (row of the batch) at one time step. The reference of a row starts from the device's input of the layer. So
// an error is attributed to its layer, and any time step of a long sequence can be checked. Check restores the
// carriers' initial state.
func (s *session) Check(ctx context.Context) ([]gpuprof.Check, error) {
	rng := rand.New(rand.NewPCG(s.seed, 3))
	whole := op.ReferenceSeconds(s.Stages(), referenceRate) < 1
	out, err := op.EachSlot(depth, func(k int) ([]gpuprof.Check, error) {
		c := s.newChecker(ctx)
		c.slot, c.batch = k, k%s.batches
		err := c.run(rng, k == 0 && whole)
		return c.stageChecks(), err
	})
	if err != nil {
		return out, err
	}
	steps, err := s.checkWholeSteps(ctx)
	return append(out, steps...), cmp.Or(err, ctx.Err())
}

// checker runs one step on the device group by group. It fills each output with NaN before, and compares sampled rows
// after.
type checker struct {
	op.Checker
	s     *session
	ctx   context.Context
	slot  int
	batch int
	micro int   // micro-batch of the current group, in training
	rows  []int // checked rows among the T*B rows of the GRU
	whole bool
	start state
	top   []float32 // the top layer's state before the carriers' update
	laws  [lawCount]op.ErrorNorm
	level levelCheck // in training, a stage's inputs
}

func (s *session) newChecker(ctx context.Context) *checker {
	return &checker{s: s, ctx: ctx, Checker: op.Checker{Mem: &s.mem, Stream: s.stream, Errs: make([]op.ErrorNorm, stageCount)}}
}

func (c *checker) run(rng *rand.Rand, whole bool) error {
	s := c.s
	n, count := s.shape.T*s.shape.B, sampledRows
	if whole {
		count = n
	}
	c.rows = op.PickRows(rng, n, count, 0, n-1)
	c.whole = len(c.rows) == n
	c.start = drawState(s.shape, s.seed)
	if err := c.resetSlot(); err != nil {
		return err
	}
	c.checkInput()
	s.poison = true
	defer func() { s.poison = false }()
	groups := s.slots[c.slot].groups
	for i := range groups {
		if c.checkGroup(&groups[i]); c.Err != nil {
			return fmt.Errorf("stage %s: %w", allStages()[groups[i].stage].Name, c.Err)
		}
		if err := c.ctx.Err(); err != nil {
			return err
		}
	}
	s.poison = false
	c.copyBack()
	if s.k.Graph {
		c.checkGraph()
	}
	if s.train != nil && c.slot == 0 {
		c.checkConservation()
	}
	return c.Err
}

func (c *checker) resetSlot() error {
	s := c.s
	sl := &s.slots[c.slot]
	if err := s.restoreStart(); err != nil {
		return err
	}
	if s.train != nil {
		if err := s.train.step.Checked(s.stream); err != nil {
			return err
		}
	}
	for _, b := range []device.Buffer{sl.x, s.flow.record, s.flow.metrics} {
		if err := s.fillBuffer(b, 0, b.Len()/4); err != nil {
			return err
		}
	}
	if err := s.stream.Sync(); err != nil {
		return err
	}
	op.PoisonHost(sl.out, sl.metrics)
	return nil
}

// checkInput copies the batch to the device and compares it bit for bit.
func (c *checker) checkInput() {
	s := c.s
	sl := &s.slots[c.slot]
	if c.Stops(s.send(sl, c.batch, loop.Silent{})) {
		return
	}
	n := sl.x.Len() / 4
	c.Errs[stH2D].Same(c.read(sl.x, 0, n), device.Floats(s.inputs)[c.batch*n:(c.batch+1)*n])
}

func (c *checker) checkGroup(g *group) {
	s, sh := c.s, c.s.shape
	if s.rec != nil {
		c.checkTrained(g)
		return
	}
	if g.stage == stFlow {
		c.top = c.read(c.net().h, (sh.L-1)*sh.B*sh.H, sh.B*sh.H)
	}
	if c.Stops(s.run(g)) || c.Stops(s.stream.Sync()) {
		return
	}
	switch g.stage {
	case stGRU:
		c.checkLayer(g.layer)
	case stFlow:
		c.carriers()
	default:
		c.checkMetrics()
	}
}

func (c *checker) read(b device.Buffer, at, n int) []float32 {
	return c.Read(c.s.current(b), at, n)
}

// checkLayer compares one layer's new states with the formula, from the device's input of the layer and its preceding
// state. It compares the layers of a library together.
func (c *checker) checkLayer(l int) {
	if c.net().lib == nil {
		c.oneLayer(l)
		return
	}
	if c.s.shape.T > 1 && c.s.shape.L > 1 { // the library does not expose data between layers
		c.checkChain()
		return
	}
	for l := range c.s.shape.L {
		c.oneLayer(l)
	}
}

func (c *checker) net() *gru { return c.s.slots[c.slot].net }

// readOutputs reads one row of a layer's output sequence, or of its state if it has no sequence.
func (c *checker) readOutputs(l, row int) []float32 {
	n, h := c.net(), c.s.shape.H
	switch {
	case c.s.shape.T == 1:
		return c.read(n.h, (l*c.s.shape.B+row)*h, h)
	case n.lib != nil && n.prec.isNarrow():
		return c.readNarrow(n.lib.y, row*h, h)
	case n.lib != nil:
		return c.read(n.lib.y, row*h, h)
	}
	return c.readScratch(n.seq[l], row*h, h)
}

// readNarrow reads n 16-bit values from value number at on.
func (c *checker) readNarrow(b device.Buffer, at, n int) []float32 {
	words := c.read(b, at/2, (at+n+1)/2-at/2)
	out := make([]float32, n)
	c.net().prec.unpack(out, viewHalves(words)[at%2:][:n])
	return out
}

func (c *checker) oneLayer(l int) {
	s, sh := c.s, c.s.shape
	ref := make([]float64, sh.H)
	p := s.params.layers[l]
	for _, row := range c.rows {
		t, carrier := row/sh.B, row%sh.B
		x := c.layerInput(l, row)
		at := (l*sh.B + carrier) * sh.H
		before := c.start.h[at : at+sh.H]
		if t > 0 {
			before = c.readOutputs(l, row-sh.B)
		}
		refCell(op.As[float64](x), op.As[float64](before), p.wi, p.wh, p.bi, p.bh, ref)
		c.Errs[stGRU].Add(c.readOutputs(l, row), ref)
		if t < sh.T-1 || sh.T == 1 {
			continue
		}
		c.Errs[stGRU].Add(c.read(c.net().h, at, sh.H), ref)
	}
}

// layerInput returns a row of a layer's input: the batch with the energy in column 0, or the preceding layer's
// output.
func (c *checker) layerInput(l, row int) []float32 {
	s, sh := c.s, c.s.shape
	if l > 0 {
		return c.readOutputs(l-1, row)
	}
	x := slices.Clone(device.Floats(s.inputs)[(c.batch*sh.T*sh.B+row)*sh.I:][:sh.I])
	x[0] = c.start.energy[row%sh.B]
	return x
}

// checkChain compares the new states of a few carriers at all time steps with a reference that reads only the batch and
// the initial state. Carriers times time steps is about the number of sampled rows.
func (c *checker) checkChain() {
	s, sh := c.s, c.s.shape
	for _, k := range c.carriersOf() {
		h := make([][]float64, sh.L)
		for l := range h {
			h[l] = op.As[float64](c.start.h[(l*sh.B+k)*sh.H:][:sh.H])
		}
		for t := range sh.T {
			x := c.layerInput(0, t*sh.B+k)
			in := op.As[float64](x)
			for l, p := range s.params.layers {
				next := make([]float64, sh.H)
				refCell(in, h[l], p.wi, p.wh, p.bi, p.bh, next)
				h[l], in = next, next
			}
			c.Errs[stGRU].Add(c.readOutputs(sh.L-1, t*sh.B+k), in)
		}
		for l := range h {
			c.Errs[stGRU].Add(c.read(c.net().h, (l*sh.B+k)*sh.H, sh.H), h[l])
		}
	}
}

// carriersOf returns the first and the last carrier (row of the batch), then random ones until carriers times time
// steps reach the number of sampled rows.
func (c *checker) carriersOf() []int {
	sh := c.s.shape
	most := max(2, ceilDiv(len(c.rows), sh.T))
	list := []int{0, sh.B - 1}
	for _, row := range c.rows {
		if k := row % sh.B; len(list) < most && !slices.Contains(list, k) {
			list = append(list, k)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// carriers compares the update of the carriers (rows of the batch) with the formula, computed from the top layer's last
// state. The update must leave this state unchanged, except that the states of a carrier that has just entered must be
// zero in all layers.
func (c *checker) carriers() {
	s, sh, e := c.s, c.s.shape, &c.Errs[stFlow]
	e.Used = true
	now := make(map[device.Buffer][]float32)
	for _, b := range []device.Buffer{c.net().h, s.flow.energy, s.flow.level, s.flow.place, s.flow.record} {
		now[b] = c.read(b, 0, b.Len()/4)
	}
	sources, levels := drawSources(sh, s.seed), intView(now[s.flow.level])
	for _, row := range c.rows {
		if row < (sh.T-1)*sh.B {
			continue
		}
		k := row % sh.B
		h := c.top[k*sh.H : (k+1)*sh.H]
		before := carrier{energy: float64(c.start.energy[k]), level: int(c.start.level[k]), x: float64(c.start.place[2*k]), y: float64(c.start.place[2*k+1])}
		next, record, leaves := refFlow(before, op.As[float64](h), s.params.proj, s.params.bias, sh.D, float64(sources[k]))
		e.Add(now[s.flow.record][k*outputs:(k+1)*outputs], record[:])
		e.Add(now[s.flow.energy][k:k+1], []float64{next.energy})
		e.Add(now[s.flow.place][2*k:2*k+2], []float64{next.x, next.y})
		if int(levels[k]) != next.level {
			e.Diff = math.Inf(1)
		}
		for l := range sh.L {
			after := now[c.net().h][(l*sh.B+k)*sh.H:][:sh.H]
			switch {
			case leaves:
				e.Add(after, make([]float64, sh.H))
			case l == sh.L-1:
				e.Same(after, h)
			}
		}
	}
}
