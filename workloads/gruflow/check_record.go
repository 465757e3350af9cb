package gruflow

import (
	"math"

	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/op"
)

func (c *checker) readStored(b device.Buffer, at, n int) []float32 {
	if c.s.prec.isNarrow() {
		return c.readNarrow(b, at, n)
	}
	return c.read(b, at, n)
}

// stateRow reads a row of a layer's recorded states at a level: the state before the row's time step, or with after = 1
// the state after that step.
func (c *checker) stateRow(l, level, row, after int) []float32 {
	sh := c.s.shape
	slot := level % c.s.rec.every
	return c.readStored(c.s.rec.u.layers[l].states, (slot*sh.T*sh.B+row+after*sh.B)*sh.H, sh.H)
}

func (c *checker) inputRow(l, level, row int) []float32 {
	sh := c.s.shape
	if l > 0 {
		return c.stateRow(l-1, level, row, 1)
	}
	return c.read(c.s.slots[c.slot].x, ((c.micro*c.s.rec.window+level)*sh.T*sh.B+row)*sh.I, sh.I)
}

// checkCells compares a layer's new states and recorded gates at one level with the formula.
func (c *checker) checkCells(g *group) {
	s, sh, e, l := c.s, c.s.shape, &c.Errs[g.stage], g.layer
	p := s.params.layers[l]
	slot := g.level % s.rec.every
	var energy []float32
	if g.stage == stGRU && l == 0 {
		energy = c.read(s.flow.energy, 0, sh.B)
	}
	for _, row := range c.rows {
		x := c.inputRow(l, g.level, row)
		if energy != nil {
			e.Same(x[:1], energy[row%sh.B:][:1])
			field := device.Floats(s.inputs)[c.batch*int(s.inputWords())+((g.micro*s.rec.window+g.level)*sh.T*sh.B+row)*sh.I:][:sh.I]
			e.Same(x[1:], field[1:])
		}
		before := c.stateRow(l, g.level, row, 0)
		after := c.stateRow(l, g.level, row, 1)
		kept := c.readStored(s.rec.u.layers[l].kept, (slot*sh.T*sh.B+row)*4*sh.H, 4*sh.H)
		gates, next := refKept(op.As[float64](x), op.As[float64](before), p)
		e.Add(after, next)
		e.Add(kept, gates)
	}
}

func (c *checker) levelDown(g *group) {
	s, sh, e, lv := c.s, c.s.shape, &c.Errs[stFlow], &c.level
	e.Used = true
	now := map[device.Buffer][]float32{}
	for _, b := range []device.Buffer{s.flow.energy, s.flow.level, s.flow.place, s.flow.record} {
		now[b] = c.read(b, 0, b.Len()/4)
	}
	sources, levels := drawSources(sh, s.seed), intView(now[s.flow.level])
	for _, k := range c.carriersOf() {
		// The state before the update is recomputed from the recording, because the update may have cleared it.
		h := c.recomputeState(sh.L-1, g.level, k)
		before := carrier{energy: float64(lv.energy[k]), level: int(lv.level[k]), x: float64(lv.place[2*k]), y: float64(lv.place[2*k+1])}
		next, record, leaves := refFlow(before, h, s.params.proj, s.params.bias, sh.D, float64(sources[k]))
		tol := &c.Errs[stFlow]
		if s.prec.isNarrow() { // the recording is rounded, but the update reads unrounded values
			tol = &c.Errs[stGRU]
		}
		tol.Add(now[s.flow.record][k*outputs:][:outputs], record[:])
		tol.Add(now[s.flow.energy][k:k+1], []float64{next.energy})
		tol.Add(now[s.flow.place][2*k:2*k+2], []float64{next.x, next.y})
		path := c.read(s.rec.path, (g.level*sh.B+k)*pathWords, pathWords)
		e.Same(path[pathEnergy:][:1], lv.energy[k:][:1])
		share := float64(record[outDeposit]) / before.energy
		tol.Add(path[pathShare:][:1], []float64{share})
		if int(levels[k]) != next.level {
			e.Diff = math.Inf(1)
		}
		for l := range sh.L {
			if !leaves {
				break
			}
			e.Same(c.stateRow(l, g.level, (sh.T-1)*sh.B+k, 1), make([]float32, sh.H))
		}
	}
}

// recomputeState recomputes, from the recording, a carrier's state after the last time step of a level.
func (c *checker) recomputeState(l, level, k int) []float64 {
	s, sh := c.s, c.s.shape
	row := (sh.T-1)*sh.B + k
	before := c.stateRow(l, level, row, 0)
	v := c.readStored(s.rec.u.layers[l].kept, (level%s.rec.every*sh.T*sh.B+row)*4*sh.H, 4*sh.H)
	out := make([]float64, sh.H)
	for i := range out {
		z, n := float64(v[sh.H+i]), float64(v[2*sh.H+i])
		out[i] = (1-z)*n + z*float64(before[i])
	}
	return out
}

func (c *checker) levelMetrics(g *group) {
	s, sh := c.s, c.s.shape
	rec := c.read(s.flow.record, 0, sh.B*outputs)
	levels := c.read(s.flow.level, 0, sh.B)
	var h []float32
	if s.prec.isNarrow() {
		h = c.read(s.net.h, (sh.L-1)*sh.B*sh.H, sh.B*sh.H)
	} else {
		h = c.read(s.rec.u.layers[sh.L-1].states, (g.level%s.rec.every+1)*sh.T*sh.B*sh.H, sh.B*sh.H)
	}
	got := c.read(s.flow.metrics, g.level*sh.metrics(), sh.metrics())
	c.compareMetrics(got, refMetrics(sh, rec, intView(levels), h))
}
