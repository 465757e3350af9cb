package rules

import (
	"iter"
	"math"
	"slices"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// stall is a call in which a host thread waits for a device: a synchronise
// call, or the call behind a copy to the host that cannot return before it is
// done.
type stall struct {
	host int32
	copy int32 // the copy (index into T.GPU), -1 for a synchronise call
	// owner is the operator that asked for it, if it has a rule of its own: a
	// read of a scalar (item) or an operator whose shape depends on data (shape).
	owner int32
	by    stallOwner
	// ends: a synchronise call that follows, in the same operator, a copy to
	// pageable memory: the way PyTorch makes such a copy.
	ends bool
	// blocks: the call is one that returns only when the copy is done, whatever
	// the memory.
	blocks bool
}

// syncs says whether a wait is a synchronise call.
func (s *stall) syncs() bool { return s.copy < 0 && !s.blocks }

type stallOwner uint8

const (
	ownedByNobody stallOwner = iota
	ownedByItem
	ownedByShape
)

// findStalls lists the waits of the steady part, by host event, and apart from
// them those of the steps left out, whose effect may reach into it. A
// synchronisation with which the profiler closes a recording, or, where there are
// no steps, a benchmark after its last launch, keeps nothing waiting and is not
// among them. A wait has one owner, the most telling one: unique() that reads a
// scalar inside is a data-dependent shape, not an item() of the program.
func (c *ruleContext) findStalls() (steady, others []stall) {
	var out []stall
	add := func(h, g int32) {
		s := stall{host: h, copy: g, owner: -1, blocks: c.is(c.t.Host[h].Name, markBlocks)}
		if o := c.within(h, markShape); o >= 0 {
			s.owner, s.by = o, ownedByShape
		} else if o := c.within(h, markItem); o >= 0 {
			s.owner, s.by = o, ownedByItem
		}
		out = append(out, s)
	}
	for _, h := range c.waitingCalls() {
		add(h, -1)
	}
	for _, d := range c.devices {
		for _, g := range d.Ops {
			op := &c.t.GPU[g]
			if op.Kind == model.Memcpy && op.Launch >= 0 && (op.Dir == model.D2H || c.is(c.t.Host[op.Launch].Name, markBlocks)) {
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
			continue // it waits for work from before the recording
		}
		if c.x.InSteady(c.t.Host[s.host].Start) {
			steady = append(steady, s)
		} else {
			others = append(others, s)
		}
	}
	return steady, others
}

// waitingCalls are the calls that wait for a device, those behind copies that
// are in the trace aside.
func (c *ruleContext) waitingCalls() []int32 {
	closing := int64(math.MaxInt64)
	if !c.stepped() {
		closing = c.lastLaunch()
	}
	var out []int32
	for i := range c.t.Host {
		h := &c.t.Host[i]
		if h.Kind != model.API || !c.is(h.Name, markSync|markBlocks) {
			continue
		}
		syncs := c.is(h.Name, markSync) && h.Start < closing && int32(i) != c.x.Trailing
		if syncs || c.is(h.Name, markBlocks) && len(c.x.Launched(int32(i))) == 0 {
			out = append(out, int32(i))
		}
	}
	return out
}

// lastLaunch is when any process last starts work on a device.
func (c *ruleContext) lastLaunch() int64 {
	last := int64(math.MinInt64)
	for _, v := range c.launches {
		last = max(last, v[len(v)-1])
	}
	return last
}

// endsCopy says whether a wait ends the copy of the one before it.
func (c *ruleContext) endsCopy(before, s *stall) bool {
	parent := c.x.Parent(s.host)
	return s.syncs() && parent >= 0 && before.copy >= 0 && c.t.GPU[before.copy].Memory == model.Pageable && c.x.Parent(before.host) == parent
}

// findLaunches collects when each process starts work on a device.
func (c *ruleContext) findLaunches() {
	n := map[int32]int{}
	each := func(f func(process int32, at int64)) {
		for i := range c.t.Host {
			if h := &c.t.Host[i]; h.Kind == model.API && c.is(h.Name, markLaunch) {
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

// goneWith is what a device would not have lost without the waits that gone
// picks; all other waits stay.
func (c *ruleContext) goneWith(gone func(*stall) bool) func(*ruleDevice) model.Spans {
	return func(d *ruleDevice) model.Spans {
		var calls []model.Span
		for _, of := range [][]stall{c.stalls, c.others} {
			for i := range of {
				if s := &of[i]; gone(s) && d.on(c, c.t.Host[s.host].Lane) {
					calls = append(calls, c.blocked(s))
				}
			}
		}
		return c.lead(d, model.UnionOf(calls), nil, gone)
	}
}

// blocked is the time a wait keeps its process from launching. While another
// thread launches, nothing is kept. A read of a scalar goes as a whole.
func (c *ruleContext) blocked(s *stall) model.Span {
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

// profilerShare is how much of what the host does may be the profiler's doing:
// programs whose steps the host bounds took 1.1 to 1.25 times as long with it.
const profilerShare = 5 // one in this many

// waitCaveat goes with every claim about a wait.
const waitCaveat = "the wait itself overlaps device work; the claim is the idle time it causes, at most the time the host was blocked and a fifth of its work beside the device (the profiler's share)"

// lead is the starved time of a device that would not be, if its process had
// not been blocked for a while: going on at once it would have been ahead of
// the device by as long as it was blocked, and all starving from there on is
// first paid from that lead. So no more is claimed than the device starved,
// and no more than the host was held up: a program that cannot feed its device
// anyway is not helped by waiting less.
//
// While the device starves under a blocked host, nothing is gained on it but
// that time itself. In time that is taken from the device's own work as well
// (spent) the host gains nothing on it. A wait that stays and finds the device
// done gives up what was gained.
//
// A profiler makes the host slower and thereby the wait shorter: without it
// the host would have come to the wait earlier, by a share of what it did
// since the device last waited for it.
func (c *ruleContext) lead(d *ruleDevice, blocked, spent model.Spans, gone func(*stall) bool) model.Spans {
	if len(blocked) == 0 {
		return nil
	}
	// Before its first operation a device may have been at work on what came before
	// the recording: what waits for it then is not for these rules.
	starved := d.Starved.Within(d.Worked).And(c.lived)
	out := []model.Span(starved.And(blocked))
	gain, rest, ends := blocked.Minus(starved).Minus(spent), starved.Minus(blocked), c.drains(d, gone)
	var ahead, even int64 // how far ahead, and since when the host is known to have been level
	for len(rest) > 0 {
		next := rest[0].Start
		switch {
		case len(ends) > 0 && ends[0] <= next && (len(gain) == 0 || ends[0] <= gain[0].Start):
			ahead, even = 0, ends[0]
			ends = ends[1:]
		case len(gain) > 0 && gain[0].Start < next:
			g := gain[0]
			if even = max(even, starved.Before(g.Start)); even > 0 && !blocked.Contains(g.Start-1) {
				ahead += (g.Start - even) / profilerShare
			}
			ahead, even = ahead+g.Len(), g.End
			gain = gain[1:]
		default:
			until := rest[0].End
			if len(ends) > 0 {
				until = min(until, ends[0])
			}
			n := min(ahead, until-next)
			if n > 0 {
				out = append(out, model.Span{Start: next, End: next + n})
			}
			ahead, even = ahead-n, until
			if rest[0].Start = until; until == rest[0].End {
				rest = rest[1:]
			}
		}
	}
	return model.UnionOf(out)
}

// drains are the ends of the waits that stay and find the device done, sorted.
func (c *ruleContext) drains(d *ruleDevice, gone func(*stall) bool) []int64 {
	var out []int64
	add := func(h int32) {
		if e := &c.t.Host[h]; d.on(c, e.Lane) && !d.Busy.Contains(e.End) {
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
		if b.rule != c.rule.id && d.on(c, b.lane) && !d.Busy.Contains(b.at) {
			out = append(out, b.at)
		}
	}
	slices.Sort(out)
	return out
}

// blocker is a call that waits for a device, by the way of what it is for: it
// has a rule of its own.
type blocker struct {
	rule string
	lane uint32
	at   int64 // when it lets go
}

// findBlockers lists releases of memory, and copies from pageable memory.
func (c *ruleContext) findBlockers() []blocker {
	var out []blocker
	if c.named(markFree) {
		for i := range c.t.Host {
			if h := &c.t.Host[i]; h.Kind == model.API && c.is(h.Name, markFree) {
				out = append(out, blocker{gpuprof.RuleAllocatorChurn, h.Lane, h.End})
			}
		}
	}
	for i := range c.t.GPU {
		if op := &c.t.GPU[i]; largePageable(op) && op.Launch >= 0 {
			h := &c.t.Host[op.Launch]
			out = append(out, blocker{gpuprof.RulePageableH2D, h.Lane, max(h.End, op.End)})
		}
	}
	return out
}

// stallsOf are the waits of the steady part that ok picks, in the order of their calls.
func (c *ruleContext) stallsOf(ok func(*stall) bool) iter.Seq[*stall] {
	return func(yield func(*stall) bool) {
		for i := range c.stalls {
			if s := &c.stalls[i]; ok(s) && !yield(s) {
				return
			}
		}
	}
}

// owners are the operators that the waits of one owner belong to, each once.
func (c *ruleContext) owners(by stallOwner) (out []int32) {
	for s := range c.stallsOf(func(s *stall) bool { return s.by == by }) {
		if len(out) == 0 || out[len(out)-1] != s.owner {
			out = append(out, s.owner)
		}
	}
	return out
}

// hostTime is the time of the calls of the waits that ok picks, each call once,
// and when any of them was under way.
func (c *ruleContext) hostTime(ok func(*stall) bool) (calls int, ns int64, when model.Spans) {
	last := int32(-1)
	var v []model.Span
	for s := range c.stallsOf(ok) {
		if s.host != last {
			h := &c.t.Host[s.host]
			calls, ns, last = calls+1, ns+h.Dur(), s.host
			v = append(v, model.Span{Start: h.Start, End: h.End})
		}
	}
	return calls, ns, model.UnionOf(v)
}
