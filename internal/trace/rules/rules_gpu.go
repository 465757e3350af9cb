package rules

import (
	"cmp"
	"maps"
	"slices"

	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// markSteadyOps marks in d.counted the operations that belong to the steps that are not dropped. An operation belongs to
// the step that launched it, because the device may lag behind the host by a step; without a recorded launch, to the
// step in which it began.
func (c *ruleContext) markSteadyOps(d *ruleDevice) {
	var in model.Span // the span of steps that contains the previous operation, and most often the next one
	d.counted = make([]bool, len(d.Ops))
	for i, g := range d.Ops {
		op := &c.t.GPU[g]
		at := op.Start
		if op.Launch >= 0 {
			at = c.t.Host[op.Launch].Start
		}
		if at < in.Start || at >= in.End {
			s := c.x.Called.Around(at)
			if len(s) == 0 {
				continue
			}
			in = s[0]
		}
		d.counted[i] = true
	}
}

// exclusiveTime returns the time, in the steps that are not dropped, in which only operations that pick accepts run on
// the device.
func (d *ruleDevice) exclusiveTime(c *ruleContext, pick func(g int32) bool) model.Spans {
	picked := make([]bool, len(d.Ops))
	some := false
	for i, g := range d.Ops {
		picked[i] = d.counted[i] && pick(g)
		some = some || picked[i]
	}
	if !some {
		return nil
	}
	in := d.Union(c.t, func(k int, _ int32) bool { return picked[k] })
	return in.Minus(d.Union(c.t, func(k int, _ int32) bool { return !picked[k] })).And(d.steady)
}

// waitsBefore returns the idle time between launch and start of the operations that pick accepts: a change that removes
// the operations also removes this time. If the device waited for the launch, the time counts only if late is set,
// because without the operation the next one would wait as long.
func (d *ruleDevice) waitsBefore(c *ruleContext, pick func(g int32) bool, late bool) model.Spans {
	var out []model.Span
	for i, g := range d.Ops {
		if !d.counted[i] || !pick(g) {
			continue
		}
		start := c.t.GPU[g].Start
		at, found := slices.BinarySearchFunc(d.Queued, start, func(s model.Span, t int64) int { return cmp.Compare(s.End, t) })
		if found && (late || d.Starved.Before(d.Queued[at].Start) != d.Queued[at].Start) {
			out = append(out, d.Queued[at])
		}
	}
	return model.UnionOf(out).And(d.steady)
}

// hasMark reports whether any name in the trace has a mark. Most traces lack a given mark, so that rules can return
// early.
func (c *ruleContext) hasMark(m nameMark) bool {
	for i := range c.names {
		if c.names[i].what&m != 0 {
			return true
		}
	}
	return false
}

// runningTime returns the time, in the steps that are not dropped, in which operations that pick accepts run, on the
// device where it is longest.
func (c *ruleContext) runningTime(pick func(g int32) bool) model.Spans {
	by := map[int]model.Spans{}
	for _, d := range c.devices {
		by[d.Device] = d.Union(c.t, func(k int, g int32) bool { return d.counted[k] && pick(g) }).And(c.x.Steady)
	}
	return longestSpans(by)
}

// exclusiveByDevice returns exclusiveTime for every device, by index into T.Devices.
func (c *ruleContext) exclusiveByDevice(pick func(g int32) bool) map[int]model.Spans {
	out := map[int]model.Spans{}
	for _, d := range c.devices {
		out[d.Device] = d.exclusiveTime(c, pick)
	}
	return out
}

// takeShares returns, by device, the fraction share(g) of the exclusive time of each operation g. This is the time in
// which only operations with a fraction above 0 run.
func (c *ruleContext) takeShares(share func(g int32) float64) map[int]model.Spans {
	exposed := c.exclusiveByDevice(func(g int32) bool { return share(g) > 0 })
	out := map[int]model.Spans{}
	for _, d := range c.devices {
		var spans []model.Span
		for _, g := range d.Ops {
			if part := share(g); part > 0 {
				own := exposed[d.Device].Within(model.Span{Start: c.t.GPU[g].Start, End: c.t.GPU[g].End})
				spans = append(spans, own.First(int64(part*float64(own.Total())))...)
			}
		}
		out[d.Device] = model.UnionOf(spans)
	}
	return out
}

func (c *ruleContext) claimByDevice(by map[int]model.Spans) claim {
	return c.claimGPU(func(d *ruleDevice) model.Spans { return by[d.Device] })
}

func longestSpans(by map[int]model.Spans) model.Spans {
	var out model.Spans
	for _, device := range slices.Sorted(maps.Keys(by)) {
		if by[device].Total() > out.Total() {
			out = by[device]
		}
	}
	return out
}

func longestNS(by map[int]model.Spans) int64 { return longestSpans(by).Total() }

// eachSteadyOp calls f for every operation that pick accepts and that belongs to a step that is not dropped.
func (c *ruleContext) eachSteadyOp(pick func(g int32) bool, f func(d *ruleDevice, g int32, op *model.GPU)) {
	for _, d := range c.devices {
		for i, g := range d.Ops {
			if d.counted[i] && pick(g) {
				f(d, g, &c.t.GPU[g])
			}
		}
	}
}

func anyOperation(int32) bool { return true }

// isGraphOp reports whether a graph launch started an operation.
func (c *ruleContext) isGraphOp(op *model.GPU) bool {
	return op.Graph || op.Launch >= 0 && c.nameHasMark(c.t.Host[op.Launch].Name, markGraph)
}

// findMarkedEvent returns the innermost event with the mark m around the launch of a device operation, or else around
// its operator; -1 none.
func (c *ruleContext) findMarkedEvent(g int32, m nameMark) int32 {
	if h := c.t.GPU[g].Launch; h >= 0 {
		if e := c.findMarkAround(h, m); e >= 0 {
			return e
		}
	}
	return c.findMarkAround(c.x.EnclosingOp(g), m)
}
