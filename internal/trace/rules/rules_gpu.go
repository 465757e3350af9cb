package rules

import (
	"cmp"
	"maps"
	"slices"

	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// findOwn lists the operations that belong to the steps findings speak of: by
// their launch where that is known, for a device may still be busy with the
// dropped step when the next one begins.
func (c *ruleContext) findOwn(d *ruleDevice) {
	var in model.Span // the stretch of steps found last: most operations lie where the one before did
	d.mine = make([]bool, len(d.Ops))
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
		d.mine[i] = true
	}
}

// exclusive is the steady time in which only operations of the steady steps
// that pick chooses run on the device: no other operation overlaps it.
func (d *ruleDevice) exclusive(c *ruleContext, pick func(g int32) bool) model.Spans {
	picked := make([]bool, len(d.Ops))
	some := false
	for i, g := range d.Ops {
		picked[i] = d.mine[i] && pick(g)
		some = some || picked[i]
	}
	if !some {
		return nil
	}
	in := d.Union(c.t, func(k int, _ int32) bool { return picked[k] })
	return in.Minus(d.Union(c.t, func(k int, _ int32) bool { return !picked[k] })).And(d.steady)
}

// waits are the times in which a device does nothing because the next operation,
// which pick chooses, was launched and has not begun: they go when it goes.
// Where the device starved before, the next operation would have to begin as
// well; such waits count only if late says so.
func (d *ruleDevice) waits(c *ruleContext, pick func(g int32) bool, late bool) model.Spans {
	var out []model.Span
	for i, g := range d.Ops {
		if !d.mine[i] || !pick(g) {
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

// named says whether any name of the trace carries a mark: most rules have
// nothing to look for in most traces.
func (c *ruleContext) named(m nameMark) bool {
	for i := range c.names {
		if c.names[i].what&m != 0 {
			return true
		}
	}
	return false
}

// under is when operations of the steps that count which pick chooses are under
// way, on the device where that is longest.
func (c *ruleContext) under(pick func(g int32) bool) model.Spans {
	by := map[int]model.Spans{}
	for _, d := range c.devices {
		by[d.Device] = d.Union(c.t, func(k int, g int32) bool { return d.mine[k] && pick(g) }).And(c.x.Steady)
	}
	return longest(by)
}

// exclusives is exclusive for every device, by index into T.Devices.
func (c *ruleContext) exclusives(pick func(g int32) bool) map[int]model.Spans {
	out := map[int]model.Spans{}
	for _, d := range c.devices {
		out[d.Device] = d.exclusive(c, pick)
	}
	return out
}

// spareOf is, for every device, a share of the time of each operation in which nothing else runs on the device; a share of
// 0 or less leaves an operation out.
func (c *ruleContext) spareOf(share func(g int32) float64) map[int]model.Spans {
	exposed := c.exclusives(func(g int32) bool { return share(g) > 0 })
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

// claimOn claims spans by device.
func (c *ruleContext) claimOn(by map[int]model.Spans) claim {
	return c.claimGPU(func(d *ruleDevice) model.Spans { return by[d.Device] })
}

// longest is the longest of sets of spans by device.
func longest(by map[int]model.Spans) model.Spans {
	var out model.Spans
	for _, device := range slices.Sorted(maps.Keys(by)) {
		if by[device].Total() > out.Total() {
			out = by[device]
		}
	}
	return out
}

// most is the total of the longest of sets of spans by device.
func most(by map[int]model.Spans) int64 { return longest(by).Total() }

// steadyOps calls f for every operation of the steady steps that pick chooses.
func (c *ruleContext) steadyOps(pick func(g int32) bool, f func(d *ruleDevice, g int32, op *model.GPU)) {
	for _, d := range c.devices {
		for i, g := range d.Ops {
			if d.mine[i] && pick(g) {
				f(d, g, &c.t.GPU[g])
			}
		}
	}
}

// anyOp picks every operation.
func anyOp(int32) bool { return true }

// ofGraph says whether an operation was started by a graph launch: one call
// for many.
func (c *ruleContext) ofGraph(op *model.GPU) bool {
	return op.Graph || op.Launch >= 0 && c.is(c.t.Host[op.Launch].Name, markGraph)
}

// gpuUnder says whether a device operation was launched under an event with a
// mark and, if so, which; -1 otherwise. Where the launch is unknown the
// operator with its external id speaks for it.
func (c *ruleContext) gpuUnder(g int32, m nameMark) int32 {
	if h := c.t.GPU[g].Launch; h >= 0 {
		if e := c.within(h, m); e >= 0 {
			return e
		}
	}
	return c.within(c.x.EnclosingOp(g), m)
}
