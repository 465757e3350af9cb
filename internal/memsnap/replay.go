package memsnap

import (
	"cmp"
	"slices"
)

// Replay is the history of one device, from the first event to the state at the end.
type Replay struct {
	S      *Snapshot
	Device int
	// Start is the memory before the first event. Complete reports that Start is empty: the recording has all
	// allocations.
	Start    Level
	Complete bool
	// Moved counts contradictions between events and segments, which come from other threads.
	Moved int
	// Stacks reports whether allocations have stacks, Freed whether frees have stacks of their own.
	Stacks, Freed bool

	part   tracePart
	ranks  *ranks
	start  *initialState // of a recording that starts late; nil until computed
	before []allocation  // allocated before the first event, and live at the end
	spans  []span        // segments at the end
	phases []Phase
	passes int // passes over the events
}

// Level is the memory at one moment, bytes.
type Level struct{ Requested, Reserved int64 }

// Phase is one step, from event First to Last; its optimizer runs from event Optimizer.
type Phase struct {
	Name                   string
	First, Optimizer, Last uint32
}

// span is a range of reserved addresses.
type span struct {
	lo, hi uint64
	exp    bool // of an expandable segment
}

// NewReplay prepares the events of a device.
func NewReplay(s *Snapshot, device int) *Replay {
	r := &Replay{S: s, Device: device, part: s.tracePartOf(device), ranks: newRanks(s.places)}
	r.matchBlocks()
	r.computeStart()
	r.phases = r.findSteps()
	return r
}

// Events returns the number of events of the device.
func (r *Replay) Events() int { return r.part.last - r.part.first }

// Steps returns the steps of the program.
func (r *Replay) Steps() []Phase { return r.phases }

func (r *Replay) eventAt(i int) (Action, *allocation) {
	act, row := r.eventRow(i)
	return act, r.S.allocs.get(r.part.allocs + row)
}

// eventRow returns the action of an event, and its row as an index in the trace.
func (r *Replay) eventRow(i int) (Action, int) {
	w := *r.S.events.get(r.part.first + i)
	return Action(w >> actionShift), int(w & allocMask)
}

// eachAlloc visits every allocation, first from events, then from before the recording.
func (r *Replay) eachAlloc(visit func(a *allocation)) {
	for i := r.part.allocs; i < r.part.lastAlloc; i++ {
		if a := r.S.allocs.get(i); r.isAlloc(a) {
			visit(a)
		}
	}
	for i := range r.before {
		visit(&r.before[i])
	}
}

// isAlloc reports whether a row is memory of the program, in contrast to a segment or a mark.
func (r *Replay) isAlloc(a *allocation) bool {
	if a.born == never {
		return true
	}
	act, _ := r.eventRow(int(a.born))
	return act == Alloc
}

// matchBlocks matches the blocks that exist at the end with their allocation events. A block without such an event is
// from before the recording.
func (r *Replay) matchBlocks() {
	held := map[uint64]*Block{}
	for i := range r.S.Segments {
		g := &r.S.Segments[i]
		if g.Device != r.Device {
			continue
		}
		r.spans = append(r.spans, span{g.Address, g.Address + g.Total, g.Expandable})
		for j := g.first; j < g.last; j++ {
			if b := &r.S.blocks[j]; b.State != Inactive {
				held[b.Address] = b
			}
		}
	}
	slices.SortFunc(r.spans, func(a, b span) int { return cmp.Compare(a.lo, b.lo) })
	for i := r.part.lastAlloc - 1; i >= r.part.allocs; i-- {
		a := r.S.allocs.get(i)
		if a.done != never || !r.isAlloc(a) {
			continue
		}
		b := held[a.addr]
		switch {
		case b == nil || b.Requested != a.size:
			r.Moved++
			a.done = a.asked // the end of its life is unknown
			if a.done == never {
				a.done = uint32(r.Events())
			}
		default:
			delete(held, a.addr)
		}
	}
	for _, b := range held {
		r.before = append(r.before, allocation{addr: b.Address, size: b.Requested, from: b.from, born: never, asked: never, done: never})
	}
	slices.SortFunc(r.before, func(a, b allocation) int { return cmp.Compare(a.addr, b.addr) })
}

// computeStart computes the level before the first event: the level at the end with all events undone.
func (r *Replay) computeStart() {
	r.Start = r.End()
	r.eachAlloc(func(a *allocation) { r.Stacks = r.Stacks || r.S.originOf(a).stack != 0 })
	for i := r.Events() - 1; i >= 0; i-- {
		act, a := r.eventAt(i)
		r.Start.add(act, a, -1)
		if act == FreeRequested && a.born != never && !r.Freed {
			from := r.S.originOf(a)
			r.Freed = from.freedBy != from.stack
		}
	}
	// Allocations that contradict the events were not counted, neither at the end nor when they were freed.
	r.eachAlloc(func(a *allocation) {
		if a.born != never && a.done != never && !r.isFreedAt(a) {
			r.Start.Requested += int64(a.size)
		}
	})
	r.Complete = r.Start == Level{}
}

// isFreedAt reports whether the event a.done frees the allocation.
func (r *Replay) isFreedAt(a *allocation) bool {
	if int(a.done) >= r.Events() {
		return false
	}
	act, of := r.eventAt(int(a.done))
	return act == FreeCompleted && of == a
}

// add applies an event to a level if by is 1, and undoes it if by is -1.
func (l *Level) add(act Action, a *allocation, by int64) {
	switch act {
	case Alloc:
		l.Requested += by * int64(a.size)
	case FreeCompleted:
		l.Requested -= by * int64(a.size)
	case SegmentAlloc, SegmentMap:
		l.Reserved += by * int64(a.size)
	case SegmentFree, SegmentUnmap:
		l.Reserved -= by * int64(a.size)
	}
}

// Levels visits the level after each event, with action and time, us.
func (r *Replay) Levels(visit func(event int, act Action, l Level, micros int64)) {
	r.eachEvent(func(event int, act Action, _ *allocation, l Level, micros int64) { visit(event, act, l, micros) })
}

func (r *Replay) eachEvent(visit func(event int, act Action, a *allocation, l Level, micros int64)) {
	r.passes++
	l, now := r.Start, int64(0)
	for i := range r.Events() {
		at := r.part.first + i
		if d := *r.S.deltas.get(at); d == escape {
			now = r.S.times[at]
		} else {
			now += int64(d)
		}
		act, a := r.eventAt(i)
		l.add(act, a, 1)
		visit(i, act, a, l, now)
	}
}

// End returns the level at the end of the snapshot.
func (r *Replay) End() Level {
	l := Level{}
	r.eachAlloc(func(a *allocation) {
		if a.done == never {
			l.Requested += int64(a.size)
		}
	})
	for _, g := range r.spans {
		l.Reserved += int64(g.hi - g.lo)
	}
	return l
}

// liveAt reports whether the memory is held after an event. born is never for memory from before the recording, done is
// never for memory that was not freed.
func (a *allocation) liveAt(event int) bool {
	return (a.born == never || int(a.born) <= event) && (a.done == never || int(a.done) > event)
}

// spansAt returns the reserved address ranges after an event: the final ranges with later events undone. Segments come
// and go as a whole. Pages of expandable segments may overlap, so spansAt counts at each edge how many ranges begin or
// end.
func (r *Replay) spansAt(event int) []span {
	whole := map[uint64]uint64{}
	var edges []edge
	pages := func(lo, hi uint64, by int) { edges = append(edges, edge{lo, by}, edge{hi, -by}) }
	for _, g := range r.spans {
		if g.exp {
			pages(g.lo, g.hi, 1)
		} else {
			whole[g.lo] = g.hi
		}
	}
	for i := r.Events() - 1; i > event; i-- {
		switch act, a := r.eventAt(i); act {
		case SegmentAlloc:
			delete(whole, a.addr)
		case SegmentFree:
			whole[a.addr] = a.addr + a.size
		case SegmentMap:
			pages(a.addr, a.addr+a.size, -1)
		case SegmentUnmap:
			pages(a.addr, a.addr+a.size, 1)
		}
	}
	var out []span
	for lo, hi := range whole {
		out = append(out, span{lo, hi, false})
	}
	out = append(out, coveredSpans(edges)...)
	slices.SortFunc(out, func(a, b span) int { return cmp.Compare(a.lo, b.lo) })
	return out
}

// edge is an address where reserved ranges begin or end: at is the address, by the change in the number of ranges
// that cover memory from there on.
type edge struct {
	at uint64
	by int
}

// coveredSpans returns the ranges of addresses that at least one reserved range covers.
func coveredSpans(edges []edge) (out []span) {
	slices.SortFunc(edges, func(a, b edge) int { return cmp.Compare(a.at, b.at) })
	depth := 0
	for i := 0; i < len(edges); {
		at, was := edges[i].at, depth
		for ; i < len(edges) && edges[i].at == at; i++ {
			depth += edges[i].by
		}
		switch {
		case was <= 0 && depth > 0:
			out = append(out, span{lo: at, exp: true})
		case was > 0 && depth <= 0:
			out[len(out)-1].hi = at
		}
	}
	return out
}

// findSteps finds steps by marks. A step ends with each Optimizer.step, else with each ProfilerStep, else with each
// mark of the most frequent name.
func (r *Replay) findSteps() []Phase {
	if r.Events() == 0 || !r.S.hasTime {
		return nil
	}
	marks := r.stepIntervals()
	var out []Phase
	for i := 0; i < len(marks); i++ {
		p := Phase{Name: marks[i].name, First: 0, Optimizer: marks[i].from, Last: marks[i].to}
		if n := len(out); n > 0 {
			p.First = out[n-1].Last
			if p.Optimizer < p.First { // several optimizers in one step, or marks of other threads
				out[n-1].Last = max(out[n-1].Last, p.Last)
				continue
			}
		}
		out = append(out, p)
	}
	return out
}

// interval is a named mark with its first and last event.
type interval struct {
	name     string
	from, to uint32
}

// stepIntervals returns the step marks as intervals of events, in order.
func (r *Replay) stepIntervals() []interval {
	chosen := r.stepMarks()
	if len(chosen) == 0 {
		return nil
	}
	// One pass finds the event at each of these times.
	var times []int64
	for _, n := range chosen {
		times = append(times, n[0].Micros, n[1].Micros)
	}
	sorted := slices.Clone(times)
	slices.Sort(sorted)
	at := make(map[int64]uint32, len(sorted))
	k := 0
	r.Levels(func(event int, _ Action, _ Level, micros int64) {
		for k < len(sorted) && micros >= sorted[k] {
			at[sorted[k]] = uint32(event)
			k++
		}
	})
	for ; k < len(sorted); k++ {
		at[sorted[k]] = uint32(r.Events())
	}
	var out []interval
	for i, n := range chosen {
		out = append(out, interval{n[0].Name, at[times[2*i]], at[times[2*i+1]]})
	}
	slices.SortStableFunc(out, func(a, b interval) int { return int(a.from) - int(b.from) })
	return out
}
