package gruflow

import (
	"math"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/loop"
	"github.com/gpuprof/gpuprof/workloads/op"
)

// checkMetrics compares each metric with a float64 sum over the device's arrays. The error is relative to the metric's
// own size.
func (c *checker) checkMetrics() {
	s, sh := c.s, c.s.shape
	rec := c.read(s.flow.record, 0, s.flow.record.Len()/4)
	levels := c.read(s.flow.level, 0, sh.B)
	h := c.read(c.net().h, (sh.L-1)*sh.B*sh.H, sh.B*sh.H)
	got := c.read(s.flow.metrics, 0, sh.metrics())
	c.compareMetrics(got, refMetrics(sh, rec, intView(levels), h))
}

// copyBack checks that the results arrive on the host bit for bit.
func (c *checker) copyBack() {
	s, sl := c.s, &c.s.slots[c.slot]
	if c.Stops(s.readPacked(sl)) || c.Stops(s.receive(sl, loop.Silent{})) || c.Stops(s.stream.Sync()) {
		return
	}
	metrics := c.read(s.flow.metrics, 0, sl.metrics.Len()/4)
	c.Errs[stMetrics].Same(device.Floats(sl.metrics), metrics)
	rec := c.read(s.flow.record, 0, sl.out.Len()/4)
	c.Errs[stD2H].Same(device.Floats(sl.out), rec)
}

// carriersKept is the number of leading buffers in checkGraph's list that hold the carriers.
const carriersKept = 5

// checkGraph replays the step's graph from the same start, and compares its results with the results of the step's
// single launches, which have been checked. With deterministic=off the metrics, and in training the parameters, may
// differ in the last bits.
func (c *checker) checkGraph() {
	s, sl, e := c.s, &c.s.slots[c.slot], &c.Errs[stGraph]
	results := func() (out [][]float32) {
		all := []device.Buffer{c.net().h, s.flow.record, s.flow.energy, s.flow.level, s.flow.place}
		if s.train != nil {
			for _, p := range s.train.step.Params() {
				all = append(all, p.P)
			}
		}
		for _, b := range append(all, s.flow.metrics) {
			out = append(out, c.read(b, 0, b.Len()/4))
		}
		return out
	}
	want := results()
	if c.Stops(c.resetSlot()) || c.Stops(s.send(sl, c.batch, loop.Silent{})) || c.Stops(s.runDevice(c.slot, loop.Silent{})) {
		return
	}
	got := results()
	last := len(want) - 1
	for i := range want[:last] {
		var off op.ErrorNorm
		if off.Add(got[i], op.As[float64](want[i])); i >= carriersKept && !s.k.Deterministic && off.Relative() <= chainBound {
			continue // the loss differs in the last bits, so the new parameters do
		}
		e.Same(got[i], want[i])
	}
	for m, v := range got[last] {
		w := float64(want[last][m])
		if d := math.Abs(float64(v) - w); !(d <= tolerance*math.Abs(w)) || s.k.Deterministic && d != 0 {
			e.Diff = math.Inf(1)
		}
	}
}

func (c *checker) stageChecks() []gpuprof.Check {
	all := c.s.shape.T * c.s.shape.B
	if c.whole {
		all = len(c.rows)
	}
	var out []gpuprof.Check
	for st, e := range c.Errs {
		if !e.Used {
			continue
		}
		tol := tolerance
		switch st {
		case stGRU, stRecompute, stFlowBack, stGRUBack, stGrads:
			tol = c.s.prec.tolerance()
		case stH2D, stWeights, stD2H, stGraph:
			tol = 0 // the bits must be equal
		}
		out = append(out, loop.CheckOf(allStages()[st].Name, e.Relative(), tol, len(c.rows), all))
	}
	return append(out, c.lawChecks()...)
}
