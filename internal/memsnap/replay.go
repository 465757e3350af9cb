package memsnap

import (
	"cmp"
	"slices"
)

// Replay is what one device did, from the first event to the state at the end.
type Replay struct {
	S      *Snapshot
	Device int
	// Start is the state before the first event, and Complete says that nothing was held
	// then: the recording began before the first allocation.
	Start    Level
	Complete bool
	// Moved counts what the events and the segments contradict each other in: another
	// thread came between the two.
	Moved int
	// Stacks says that allocations have stacks, Freed that frees have stacks of their own.
	Stacks, Freed bool

	part   tracePart
	ranks  *ranks
	start  *beginning   // of a recording that begins late, once it was asked for
	before []allocation // live before the first event and to the end
	spans  []span       // of the segments at the end
	phases []Phase
	passes int // over the events
}

// Level are the bytes of one moment.
type Level struct{ Requested, Reserved int64 }

// Phase is one step of the program: the events from First up to Last, and the part of
// them in which the optimizer ran.
type Phase struct {
	Name                   string
	First, Optimizer, Last uint32
}

// span is reserved memory.
type span struct {
	lo, hi uint64
	exp    bool
}

// NewReplay prepares the events of a device.
func NewReplay(s *Snapshot, device int) *Replay {
	r := &Replay{S: s, Device: device, part: s.part(device), ranks: ranked(s.places)}
	r.match()
	r.begin()
	r.phases = r.steps()
	return r
}

// Events is how many the device has.
func (r *Replay) Events() int { return r.part.last - r.part.first }

// Steps are the steps of the program.
func (r *Replay) Steps() []Phase { return r.phases }

// word is the action of an event and its row.
func (r *Replay) word(i int) (Action, *allocation) {
	w := *r.S.events.at(r.part.first + i)
	return Action(w >> actionShift), r.S.allocs.at(r.part.allocs + int(w&allocMask))
}

// row is the action of an event and the number of its row in the trace.
func (r *Replay) row(i int) (Action, int) {
	w := *r.S.events.at(r.part.first + i)
	return Action(w >> actionShift), int(w & allocMask)
}

// rows visits every allocation: those that the events name, then those from before.
// isAlloc is false for segments and other events.
func (r *Replay) rows(visit func(a *allocation)) {
	for i := r.part.allocs; i < r.part.lastAlloc; i++ {
		if a := r.S.allocs.at(i); r.isAlloc(a) {
			visit(a)
		}
	}
	for i := range r.before {
		visit(&r.before[i])
	}
}

// isAlloc says that a row is memory of the program and not a segment or a mark.
func (r *Replay) isAlloc(a *allocation) bool {
	if a.born == never {
		return true
	}
	w := *r.S.events.at(r.part.first + int(a.born))
	return Action(w>>actionShift) == Alloc
}

// match finds the blocks at the end among the events; what no event allocated was there
// before.
func (r *Replay) match() {
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
		a := r.S.allocs.at(i)
		if a.done != never || !r.isAlloc(a) {
			continue
		}
		b := held[a.addr]
		switch {
		case b == nil || b.Requested != a.size:
			r.Moved++
			a.done = a.asked // nothing says until when it lived
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

// begin finds the state before the first event: that of the end, every event undone.
func (r *Replay) begin() {
	r.rows(func(a *allocation) {
		if a.done == never {
			r.Start.Requested += int64(a.size)
		}
		r.Stacks = r.Stacks || r.S.origin(a).stack != 0
	})
	for _, g := range r.spans {
		r.Start.Reserved += int64(g.hi - g.lo)
	}
	for i := r.Events() - 1; i >= 0; i-- {
		act, a := r.word(i)
		r.Start.add(act, a, -1)
		if act == FreeRequested && a.born != never && !r.Freed {
			from := r.S.origin(a)
			r.Freed = from.freedBy != from.stack
		}
	}
	// What was in doubt was counted neither at the end nor at its free.
	r.rows(func(a *allocation) {
		if a.born != never && a.done != never && !r.freedAt(a) {
			r.Start.Requested += int64(a.size)
		}
	})
	r.Complete = r.Start == Level{}
}

// freedAt says that the end of a life is an event of it, and not in doubt.
func (r *Replay) freedAt(a *allocation) bool {
	if int(a.done) >= r.Events() {
		return false
	}
	act, of := r.word(int(a.done))
	return act == FreeCompleted && of == a
}

// add changes a level by an event, or undoes it where by is -1.
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

// Levels visits the level after each event, and its action and time in microseconds.
func (r *Replay) Levels(visit func(event int, act Action, l Level, micros int64)) {
	r.each(func(event int, act Action, _ *allocation, l Level, micros int64) { visit(event, act, l, micros) })
}

// each is Levels with what the event is about.
func (r *Replay) each(visit func(event int, act Action, a *allocation, l Level, micros int64)) {
	r.passes++
	l, now := r.Start, int64(0)
	for i := range r.Events() {
		at := r.part.first + i
		if d := *r.S.deltas.at(at); d == escape {
			now = r.S.times[at]
		} else {
			now += int64(d)
		}
		act, a := r.word(i)
		l.add(act, a, 1)
		visit(i, act, a, l, now)
	}
}

// End is the level of the snapshot itself.
func (r *Replay) End() Level {
	l := Level{}
	r.rows(func(a *allocation) {
		if a.done == never {
			l.Requested += int64(a.size)
		}
	})
	for _, g := range r.spans {
		l.Reserved += int64(g.hi - g.lo)
	}
	return l
}

// liveAt says that memory is held after an event; of what was there before the events
// born is never, and of what stays done.
func (a *allocation) liveAt(event int) bool {
	return (a.born == never || int(a.born) <= event) && (a.done == never || int(a.done) > event)
}

// spansAt are the reserved ranges after an event: those of the end, later events undone.
// Segments come and go as a whole; of expandable ones pages do, which are summed up.
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
		switch act, a := r.word(i); act {
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
	out = append(out, covered(edges)...)
	slices.SortFunc(out, func(a, b span) int { return cmp.Compare(a.lo, b.lo) })
	return out
}

// edge is where ranges begin, or end where by is below 0.
type edge struct {
	at uint64
	by int
}

// covered are the pages that more ranges begin before than end.
func covered(edges []edge) (out []span) {
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

// steps finds the steps of the program by the marks of the file: each ends with an
// Optimizer.step; else each is a ProfilerStep; else the mark that repeats most.
func (r *Replay) steps() []Phase {
	if r.Events() == 0 || !r.S.hasTime {
		return nil
	}
	marks := r.marks()
	var out []Phase
	for i := 0; i < len(marks); i++ {
		p := Phase{Name: marks[i].name, First: 0, Optimizer: marks[i].from, Last: marks[i].to}
		if n := len(out); n > 0 {
			p.First = out[n-1].Last
			if p.Optimizer < p.First { // several optimizers of one step, or marks of other threads
				out[n-1].Last = max(out[n-1].Last, p.Last)
				continue
			}
		}
		out = append(out, p)
	}
	return out
}

// interval is a mark from its start to its end, as events.
type interval struct {
	name     string
	from, to uint32
}

// marks are the intervals that steps are made of, in order.
func (r *Replay) marks() []interval {
	chosen := r.stepMarks()
	if len(chosen) == 0 {
		return nil
	}
	// Times become events in one pass over both.
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
