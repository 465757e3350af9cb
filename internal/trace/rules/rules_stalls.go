package rules

import (
	"iter"
	"math"
	"slices"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// stall is a host call that waits for a device: a synchronization, or a copy that returns only when it is done.
type stall struct {
	host int32
	copy int32 // index into T.GPU, -1 for a synchronization
	// owner is the enclosing operator if a rule of its own claims the stall, -1 none: a scalar read (item), or an
	// operator with a data-dependent shape. by is the kind of owner.
	owner int32
	by    stallOwner
	// ends marks a synchronization that waits for the end of a copy from or to pageable memory in the same operator, as
	// PyTorch issues them.
	ends bool
	// blocks marks a copy whose call returns only when the copy is done, whatever the kind of memory.
	blocks bool
}

func (s *stall) isSync() bool { return s.copy < 0 && !s.blocks }

type stallOwner uint8

const (
	ownedByNobody stallOwner = iota
	ownedByItem
	ownedByShape
)

// findStalls lists the stalls in the steps that are not dropped (steady) and the other stalls, which may delay launches
// in these steps (others). Both are sorted by host event. It skips the synchronization that ends the recording and,
// without steps, all synchronizations after the last launch, because they delay no launch. A stall inside both kinds of
// owners belongs to the data-dependent shape: the scalar read in unique() is not an item() of the program.
func (c *ruleContext) findStalls() (steady, others []stall) {
	var out []stall
	add := func(h, g int32) {
		s := stall{host: h, copy: g, owner: -1, blocks: c.nameHasMark(c.t.Host[h].Name, markBlocks)}
		if o := c.findMarkAround(h, markShape); o >= 0 {
			s.owner, s.by = o, ownedByShape
		} else if o := c.findMarkAround(h, markItem); o >= 0 {
			s.owner, s.by = o, ownedByItem
		}
		out = append(out, s)
	}
	for _, h := range c.listWaitingCalls() {
		add(h, -1)
	}
	for _, d := range c.devices {
		for _, g := range d.Ops {
			op := &c.t.GPU[g]
			if op.Kind == model.Memcpy && op.Launch >= 0 && (op.Dir == model.D2H || c.nameHasMark(c.t.Host[op.Launch].Name, markBlocks)) {
				add(op.Launch, g)
			}
		}
	}
	slices.SortFunc(out, func(a, b stall) int {
		if a.host != b.host {
			return int(a.host) - int(b.host)
		}
		return int(a.copy) - int(b.copy)
	})
	for i := range out {
		out[i].ends = i > 0 && c.endsCopy(&out[i-1], &out[i])
	}
	for _, s := range out {
		if c.t.Host[s.host].Start < c.x.Before() {
			continue // the call waits for work launched before the recording
		}
		if c.x.InSteady(c.t.Host[s.host].Start) {
			steady = append(steady, s)
		} else {
			others = append(others, s)
		}
	}
	return steady, others
}

// listWaitingCalls returns the calls that wait for a device, except blocking copy calls whose copies were recorded:
// findStalls adds a stall for each of these copies.
func (c *ruleContext) listWaitingCalls() []int32 {
	closing := int64(math.MaxInt64)
	if !c.hasSteps() {
		closing = c.findLastLaunch()
	}
	var out []int32
	for i := range c.t.Host {
		h := &c.t.Host[i]
		if h.Kind != model.API || !c.nameHasMark(h.Name, markSync|markBlocks) {
			continue
		}
		syncs := c.nameHasMark(h.Name, markSync) && h.Start < closing && int32(i) != c.x.Trailing
		if syncs || c.nameHasMark(h.Name, markBlocks) && len(c.x.Launched(int32(i))) == 0 {
			out = append(out, int32(i))
		}
	}
	return out
}

func (c *ruleContext) findLastLaunch() int64 {
	last := int64(math.MinInt64)
	for _, v := range c.launches {
		last = max(last, v[len(v)-1])
	}
	return last
}

// endsCopy reports whether s is a synchronization that waits for the copy of the previous stall before. The copy must
// be from or to pageable memory and have the same parent event.
func (c *ruleContext) endsCopy(before, s *stall) bool {
	parent := c.x.Parent(s.host)
	return s.isSync() && parent >= 0 && before.copy >= 0 && c.t.GPU[before.copy].Memory == model.Pageable && c.x.Parent(before.host) == parent
}

func (c *ruleContext) findLaunches() {
	n := map[int32]int{}
	each := func(f func(process int32, at int64)) {
		for i := range c.t.Host {
			if h := &c.t.Host[i]; h.Kind == model.API && c.nameHasMark(h.Name, markLaunch) {
				f(c.t.ProcessOf(h.Lane), h.Start)
			}
		}
	}
	each(func(p int32, _ int64) { n[p]++ })
	c.launches = map[int32][]int64{}
	for p := range n {
		c.launches[p] = make([]int64, 0, n[p])
	}
	each(func(p int32, at int64) { c.launches[p] = append(c.launches[p], at) })
	for p := range c.launches {
		slices.Sort(c.launches[p])
	}
}

// starvedBecauseOf returns a function for the idle time of a device, before launches, that would vanish without the
// stalls that gone accepts.
func (c *ruleContext) starvedBecauseOf(gone func(*stall) bool) func(*ruleDevice) model.Spans {
	return func(d *ruleDevice) model.Spans {
		var calls []model.Span
		for _, of := range [][]stall{c.stalls, c.others} {
			for i := range of {
				if s := &of[i]; gone(s) && d.isDrivenBy(c, c.t.Host[s.host].Lane) {
					calls = append(calls, c.blockedSpan(s))
				}
			}
		}
		return c.starvedByBlocking(d, model.UnionOf(calls), nil, gone)
	}
}

// blockedSpan returns the time in which a stall keeps its process from launching. It is the whole call, or the whole
// operator for a scalar read. If another thread launches work during the call, it begins at the last of these launches.
func (c *ruleContext) blockedSpan(s *stall) model.Span {
	h := &c.t.Host[s.host]
	v := c.launches[c.t.ProcessOf(h.Lane)]
	i, _ := slices.BinarySearch(v, h.End)
	if i > 0 && v[i-1] > h.Start {
		return model.Span{Start: v[i-1], End: h.End}
	}
	if s.by == ownedByItem {
		o := &c.t.Host[s.owner]
		return model.Span{Start: o.Start, End: o.End}
	}
	return model.Span{Start: h.Start, End: h.End}
}

// profilerShare: the profiler takes at most 1/profilerShare of host time. Host-bound programs took 1.1 to 1.25 times as
// long with the profiler.
const profilerShare = 5

// waitCaveat is the caveat of findings that claim the device's idle time after a wait of the host.
const waitCaveat = "the wait itself overlaps device work; the claim is the idle time it causes, at most the time the host was blocked and a fifth of its work beside the device (the profiler's share)"

// starvedByBlocking returns the starved time of a device (idle, nothing launched) that would vanish if its process were
// not blocked during the spans blocked. Without blocking, the host would run ahead of the device by the blocked time
// (the lead), and this lead would cover later starved time. So the result exceeds neither the starved nor the blocked
// time: a program that cannot feed its device gains nothing from shorter waits.
//
// Starved time during a blocked call is part of the result and does not add to the lead. Blocked time in spent does not
// add to the lead either, because there the advised change also shortens the device's work. gone accepts the stalls
// that the change removes. Another stall that ends with an idle device resets the lead to zero.
//
// A profiler slows the host and thereby shortens its waits. Without the profiler the host would begin to wait earlier,
// so 1/profilerShare of the host work since the last wait is added to the lead.
func (c *ruleContext) starvedByBlocking(d *ruleDevice, blocked, spent model.Spans, gone func(*stall) bool) model.Spans {
	if len(blocked) == 0 {
		return nil
	}
	// Before its first recorded operation a device may run earlier work, so idle time there does not count.
	starved := d.Starved.Within(d.ActiveSpan).And(c.lived)
	out := []model.Span(starved.And(blocked))
	gain, rest, endsCopy := blocked.Minus(starved).Minus(spent), starved.Minus(blocked), c.listDrains(d, gone)
	var ahead, leadAt int64 // lead of the host, ns, and the last time at which the lead was computed
	for len(rest) > 0 {
		next := rest[0].Start
		switch {
		case len(endsCopy) > 0 && endsCopy[0] <= next && (len(gain) == 0 || endsCopy[0] <= gain[0].Start):
			ahead, leadAt = 0, endsCopy[0]
			endsCopy = endsCopy[1:]
		case len(gain) > 0 && gain[0].Start < next:
			g := gain[0]
			if leadAt = max(leadAt, starved.Before(g.Start)); leadAt > 0 && !blocked.Contains(g.Start-1) {
				ahead += (g.Start - leadAt) / profilerShare
			}
			ahead, leadAt = ahead+g.Len(), g.End
			gain = gain[1:]
		default:
			until := rest[0].End
			if len(endsCopy) > 0 {
				until = min(until, endsCopy[0])
			}
			n := min(ahead, until-next)
			if n > 0 {
				out = append(out, model.Span{Start: next, End: next + n})
			}
			ahead, leadAt = ahead-n, until
			if rest[0].Start = until; until == rest[0].End {
				rest = rest[1:]
			}
		}
	}
	return model.UnionOf(out)
}

// listDrains returns the sorted end times of the waits for device d that remain after the change and end with the
// device idle. gone accepts the stalls that the change removes; blockers of the running rule count as removed.
func (c *ruleContext) listDrains(d *ruleDevice, gone func(*stall) bool) []int64 {
	var out []int64
	add := func(h int32) {
		if e := &c.t.Host[h]; d.isDrivenBy(c, e.Lane) && !d.Busy.Contains(e.End) {
			out = append(out, e.End)
		}
	}
	for _, of := range [][]stall{c.stalls, c.others} {
		for i := range of {
			if s := &of[i]; !gone(s) && (s.copy < 0 || s.blocks || c.t.GPU[s.copy].Memory == model.Pageable) {
				add(s.host)
			}
		}
	}
	for _, b := range c.blockers {
		if b.rule != c.rule.id && d.isDrivenBy(c, b.lane) && !d.Busy.Contains(b.at) {
			out = append(out, b.at)
		}
	}
	slices.Sort(out)
	return out
}

// blocker is a call that waits for a device as a side effect. rule is the id of the rule that reports calls of this
// kind.
type blocker struct {
	rule string
	lane uint32
	at   int64 // end of the wait
}

// findBlockers lists releases of device memory and large copies from pageable memory.
func (c *ruleContext) findBlockers() []blocker {
	var out []blocker
	if c.hasMark(markFree) {
		for i := range c.t.Host {
			if h := &c.t.Host[i]; h.Kind == model.API && c.nameHasMark(h.Name, markFree) {
				out = append(out, blocker{gpuprof.RuleAllocatorChurn, h.Lane, h.End})
			}
		}
	}
	for i := range c.t.GPU {
		if op := &c.t.GPU[i]; isLargePageable(op) && op.Launch >= 0 {
			h := &c.t.Host[op.Launch]
			out = append(out, blocker{gpuprof.RulePageableH2D, h.Lane, max(h.End, op.End)})
		}
	}
	return out
}

// eachStall yields the stalls in the steps that are not dropped, if ok accepts them, in the order of their calls.
func (c *ruleContext) eachStall(ok func(*stall) bool) iter.Seq[*stall] {
	return func(yield func(*stall) bool) {
		for i := range c.stalls {
			if s := &c.stalls[i]; ok(s) && !yield(s) {
				return
			}
		}
	}
}

// listOwners returns the owners of the stalls with this kind of owner, each operator once.
func (c *ruleContext) listOwners(by stallOwner) (out []int32) {
	for s := range c.eachStall(func(s *stall) bool { return s.by == by }) {
		if len(out) == 0 || out[len(out)-1] != s.owner {
			out = append(out, s.owner)
		}
	}
	return out
}

// sumHostTime returns the number, the total time (ns) and the spans of the calls whose stalls ok accepts. A call with
// several stalls counts once.
func (c *ruleContext) sumHostTime(ok func(*stall) bool) (calls int, ns int64, when model.Spans) {
	last := int32(-1)
	var v []model.Span
	for s := range c.eachStall(ok) {
		if s.host != last {
			h := &c.t.Host[s.host]
			calls, ns, last = calls+1, ns+h.Dur(), s.host
			v = append(v, model.Span{Start: h.Start, End: h.End})
		}
	}
	return calls, ns, model.UnionOf(v)
}
