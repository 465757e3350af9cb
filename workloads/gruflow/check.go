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
	// tolerance is the largest error of the carrier update and of the metrics against float64; both always use float32.
	tolerance = 1e-5
	// sampledRows is the number of rows that are checked where all rows would take over a second.
	sampledRows = 64
	// referenceRate is the speed of the reference on one core, in flops per second as counted for the float32 kernels. It
	// only decides between all rows and a sample.
	referenceRate = 8e8
)

// Check implements workloads.Session. It checks both slots (steps in flight), then whole steps. A row of the GRU is one
// carrier at one time step. The reference of a row starts from the device's input of the layer, so that an error is
// attributed to its layer, and any time step of a long sequence can be checked. Check restores the carriers' initial
// state.
func (s *session) Check(ctx context.Context) ([]gpuprof.Check, error) {
	rng := rand.New(rand.NewPCG(s.seed, 3))
	whole := op.ReferenceSeconds(s.stages, referenceRate) < 1
	out, err := op.EachSlot(depth, func(k int) ([]gpuprof.Check, error) {
		c := &checker{s: s, ctx: ctx, slot: k, batch: k % s.batches, errs: make([]op.ErrorNorm, stageCount)}
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
	s     *session
	ctx   context.Context
	slot  int
	batch int
	micro int   // micro-batch of the current group, in training
	rows  []int // checked rows among the T*B rows of the GRU
	whole bool
	start state
	top   []float32 // the top layer's state before the carriers' update
	errs  []op.ErrorNorm
	laws  [lawCount]op.ErrorNorm
	level levelCheck // in training, a stage's inputs
}

func (c *checker) run(rng *rand.Rand, whole bool) error {
	s := c.s
	c.rows, c.whole = pickRows(rng, s.shape.T*s.shape.B, whole)
	c.start = drawState(s.shape, s.seed)
	if err := c.resetSlot(); err != nil {
		return err
	}
	if err := c.checkInput(); err != nil {
		return err
	}
	s.poison = true
	defer func() { s.poison = false }()
	groups := s.slots[c.slot].groups
	for i := range groups {
		if err := c.checkGroup(&groups[i]); err != nil {
			return fmt.Errorf("stage %s: %w", allStages()[groups[i].stage].Name, err)
		}
		if err := c.ctx.Err(); err != nil {
			return err
		}
	}
	s.poison = false
	if err := c.copyBack(); err != nil {
		return err
	}
	if s.k.Graph {
		if err := c.checkGraph(); err != nil {
			return err
		}
	}
	if s.train != nil && c.slot == 0 {
		return c.checkConservation()
	}
	return nil
}

// pickRows returns rows out of n: all, or the first, the last and sampledRows random ones. Its second result reports
// whether these are all.
func pickRows(rng *rand.Rand, n int, whole bool) ([]int, bool) {
	if whole || n <= sampledRows+2 {
		all := make([]int, n)
		for i := range all {
			all[i] = i
		}
		return all, true
	}
	rows := []int{0, n - 1}
	for len(rows) < sampledRows+2 {
		rows = append(rows, 1+rng.IntN(n-2))
		slices.Sort(rows)
		rows = slices.Compact(rows)
	}
	return rows, false
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
	for _, b := range []device.Buffer{sl.out, sl.metrics} {
		v := device.Floats(b)
		for i := range v {
			v[i] = float32(math.NaN())
		}
	}
	return nil
}

// checkInput copies the batch to the device and compares it bit for bit.
func (c *checker) checkInput() error {
	s := c.s
	sl := &s.slots[c.slot]
	if err := s.send(sl, c.batch, loop.Silent{}); err != nil {
		return err
	}
	n := sl.x.Len() / 4
	got, err := c.read(sl.x, 0, n)
	if err != nil {
		return err
	}
	c.errs[stH2D].Same(got, device.Floats(s.inputs)[c.batch*n:(c.batch+1)*n])
	return nil
}

func (c *checker) checkGroup(g *group) error {
	s, sh := c.s, c.s.shape
	if s.rec != nil {
		return c.checkTrained(g)
	}
	if g.stage == stFlow {
		var err error
		if c.top, err = c.read(c.net().h, (sh.L-1)*sh.B*sh.H, sh.B*sh.H); err != nil {
			return err
		}
	}
	if err := s.run(g); err != nil {
		return err
	}
	if err := s.stream.Sync(); err != nil {
		return err
	}
	switch g.stage {
	case stGRU:
		return c.checkLayer(g.layer)
	case stFlow:
		return c.carriers()
	}
	return c.checkMetrics()
}

func (c *checker) read(b device.Buffer, at, n int) ([]float32, error) {
	return c.s.mem.Receive(c.s.stream, c.s.current(b), at, n)
}

// checkLayer compares one layer's new states with the formula, from the device's input of the layer and its preceding
// state. It compares the layers of a library together.
func (c *checker) checkLayer(l int) error {
	if c.net().lib == nil {
		return c.oneLayer(l)
	}
	if c.s.shape.T > 1 && c.s.shape.L > 1 { // the library does not expose data between layers
		return c.checkChain()
	}
	for l := range c.s.shape.L {
		if err := c.oneLayer(l); err != nil {
			return err
		}
	}
	return nil
}

func (c *checker) net() *gru { return c.s.slots[c.slot].net }

// readOutputs reads one row of a layer's output sequence, or of its state if it has no sequence.
func (c *checker) readOutputs(l, row int) ([]float32, error) {
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
func (c *checker) readNarrow(b device.Buffer, at, n int) ([]float32, error) {
	words, err := c.read(b, at/2, (at+n+1)/2-at/2)
	if err != nil {
		return nil, err
	}
	out := make([]float32, n)
	c.net().prec.unpack(out, viewHalves(words)[at%2:][:n])
	return out, nil
}

func (c *checker) oneLayer(l int) error {
	s, sh := c.s, c.s.shape
	ref := make([]float64, sh.H)
	p := s.params.layers[l]
	for _, row := range c.rows {
		t, carrier := row/sh.B, row%sh.B
		x, err := c.layerInput(l, row)
		if err != nil {
			return err
		}
		at := (l*sh.B + carrier) * sh.H
		before := c.start.h[at : at+sh.H]
		if t > 0 {
			if before, err = c.readOutputs(l, row-sh.B); err != nil {
				return err
			}
		}
		refCell(op.As[float64](x), op.As[float64](before), p.wi, p.wh, p.bi, p.bh, ref)
		got, err := c.readOutputs(l, row)
		if err != nil {
			return err
		}
		c.errs[stGRU].Add(got, ref)
		if t < sh.T-1 || sh.T == 1 {
			continue
		}
		if got, err = c.read(c.net().h, at, sh.H); err != nil {
			return err
		}
		c.errs[stGRU].Add(got, ref)
	}
	return nil
}

// layerInput returns a row of a layer's input: the batch with the energy in column 0, or the preceding layer's
// output.
func (c *checker) layerInput(l, row int) ([]float32, error) {
	s, sh := c.s, c.s.shape
	if l > 0 {
		return c.readOutputs(l-1, row)
	}
	x := slices.Clone(device.Floats(s.inputs)[(c.batch*sh.T*sh.B+row)*sh.I:][:sh.I])
	x[0] = c.start.energy[row%sh.B]
	return x, nil
}

// checkChain compares the new states of a few carriers at all time steps, computed from the batch and the initial state
// alone. It takes as many carriers as give the number of sampled rows.
func (c *checker) checkChain() error {
	s, sh := c.s, c.s.shape
	for _, k := range c.carriersOf() {
		h := make([][]float64, sh.L)
		for l := range h {
			h[l] = op.As[float64](c.start.h[(l*sh.B+k)*sh.H:][:sh.H])
		}
		for t := range sh.T {
			x, err := c.layerInput(0, t*sh.B+k)
			if err != nil {
				return err
			}
			in := op.As[float64](x)
			for l, p := range s.params.layers {
				next := make([]float64, sh.H)
				refCell(in, h[l], p.wi, p.wh, p.bi, p.bh, next)
				h[l], in = next, next
			}
			got, err := c.readOutputs(sh.L-1, t*sh.B+k)
			if err != nil {
				return err
			}
			c.errs[stGRU].Add(got, in)
		}
		for l := range h {
			got, err := c.read(c.net().h, (l*sh.B+k)*sh.H, sh.H)
			if err != nil {
				return err
			}
			c.errs[stGRU].Add(got, h[l])
		}
	}
	return nil
}

// carriersOf returns the first and last carrier, then random ones until carriers times time steps reach the number of
// sampled rows.
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

// carriers compares the carrier update with the formula, computed from the top layer's last state. The update must
// leave this state unchanged; but the states of a carrier that has just entered must be zero in all layers.
func (c *checker) carriers() error {
	s, sh, e := c.s, c.s.shape, &c.errs[stFlow]
	e.Used = true
	now := make(map[device.Buffer][]float32)
	for _, b := range []device.Buffer{c.net().h, s.flow.energy, s.flow.level, s.flow.place, s.flow.record} {
		var err error
		if now[b], err = c.read(b, 0, b.Len()/4); err != nil {
			return err
		}
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
	return nil
}
