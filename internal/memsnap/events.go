package memsnap

import (
	"errors"
	"unsafe"
)

// event stores one event of the trace that is read. A free is stored with its
// allocation: where that came earlier, in the same row.
func (m *machine) event(d *members) (value, error) {
	if err := m.inTrace(); err != nil {
		return value{}, err
	}
	s := m.s
	t := &s.traces[len(s.traces)-1]
	act := m.action[d.id(kAction, vText)]
	at := uint32(t.last - t.first)
	row, err := m.row(act, d, at)
	if err != nil {
		return value{}, err
	}
	if row-t.allocs >= mostIDs || at == never-1 {
		return value{}, errors.New("it has too many events of one device")
	}
	t.lastAlloc = s.allocs.n
	if s.events.push(uint32(act)<<actionShift | uint32(row-t.allocs)) {
		if err := m.take(8 * chunk); err != nil {
			return value{}, err
		}
	}
	if err := m.time(d); err != nil {
		return value{}, err
	}
	t.last = s.events.n
	return value{vEvent, 1}, nil
}

// time stores when the event was, as the difference to the one before it.
func (m *machine) time(d *members) (err error) {
	s := m.s
	now := m.last
	if d.all(kTime) {
		now = int64(d.number(kTime))
		s.hasTime = true
	}
	if by := now - m.last; by >= 0 && by < int64(escape) {
		s.deltas.push(uint32(by))
	} else {
		s.times[s.events.n-1] = now
		s.deltas.push(escape)
		err = m.take(48)
	}
	m.last = now
	return err
}

// row is the allocation that an event is about.
func (m *machine) row(act Action, d *members, at uint32) (int, error) {
	s := m.s
	addr, stack := d.number(kAddr), d.id(kFrames, vStack)
	s.pooled = s.pooled || d.all(kPool)
	t := &s.traces[len(s.traces)-1]
	if act == FreeRequested || act == FreeCompleted {
		if slot, ok := m.live.find(addr); ok {
			row := t.allocs + m.live.row(slot)
			a := s.allocs.at(row)
			if act == FreeRequested {
				o := s.origins[a.from]
				o.freedBy = stack
				a.asked, a.from = at, m.originOf(o, &m.freed[a.from])
			} else {
				a.done = at
				m.live.drop(slot)
			}
			return row, nil
		}
	}
	o := origin{stack: stack, place: m.placeOf(m.placeIn(d))}
	a := allocation{addr: addr, size: d.number(kSize), born: at, asked: never, done: never}
	if d.all(kFree) && !d.all(kAddr) {
		a.addr = d.number(kFree)
	}
	switch act {
	case FreeRequested: // it was there before the recording began
		a.born, a.asked, o.freedBy = never, at, stack
	case FreeCompleted:
		a.born, a.done = never, at
	}
	for int(stack) >= len(m.made) {
		m.made = append(m.made, 0)
	}
	a.from = m.originOf(o, &m.made[stack])
	i := s.allocs.n
	if s.allocs.push(a) {
		if err := m.take(chunk * (int(unsafe.Sizeof(a)) + 24)); err != nil { // and its place among the live ones
			return 0, err
		}
	}
	if act == Alloc || act == FreeRequested {
		m.live.set(addr, i-t.allocs)
	}
	return i, nil
}

// originOf interns an origin. last is where the one is kept that was found last in the same
// circumstances, which most often is this one.
func (m *machine) originOf(o origin, last *uint32) uint32 {
	s := m.s
	if id := *last; int(id) < len(s.origins) && s.origins[id] == o {
		return id
	}
	id, ok := m.origins[o]
	if !ok {
		id = uint32(len(s.origins))
		m.origins[o], s.origins = id, append(s.origins, o)
	}
	*last = id
	if !ok { // not before last was set, which can stand in freed
		m.freed = append(m.freed, id)
		m.room -= 96 // the next take looks
	}
	return id
}

// inTrace finds the list that an event is going to be in, and begins its trace with the
// first: events come before their list is complete. When an event is completed, its
// dictionary still stands on the stack, above its list or other events of that.
func (m *machine) inTrace() error {
	n := len(m.marks)
	list := -1
	own := m.own
	switch {
	case own >= 1 && m.stack[own-1].k == vOpen && own-1 >= m.bottom():
		list = int(m.stack[own-1].v)
	case n > 0 && m.marks[n-1] >= 1:
		list = int(m.stack[m.marks[n-1]-1].v)
		if m.stack[m.marks[n-1]-1].k != vOpen {
			list = -1
		}
	}
	if list < 0 || m.open[list].dict {
		return errors.New("an event is in no list")
	}
	o := &m.open[list]
	s := m.s
	if o.trace == 0 {
		if len(s.traces) >= mostDevices {
			return errors.New("it has more lists of events than machines have devices")
		}
		s.traces = append(s.traces, tracePart{first: s.events.n, last: s.events.n, allocs: s.allocs.n, lastAlloc: s.allocs.n})
		o.trace = len(s.traces)
		m.live.reset()
		m.last = 0
	}
	if o.trace != len(s.traces) {
		return errors.New("events of two lists are mixed")
	}
	return nil
}

// snapshot is the root: it says which list of events is of which device.
func (m *machine) snapshot(d *members) (value, error) {
	m.s.numbered = d.all(kHosts)
	if err := m.segments(d.of[kSegments]); err != nil {
		return value{}, err
	}
	s := m.s
	own := s.traces
	s.traces = nil
	if !d.all(kTraces) {
		return value{k: vRoot}, nil
	}
	var lists []value
	switch v := d.of[kTraces]; v.k {
	case vList:
		lists = m.open[v.v].items
	case vTrace:
		return value{}, errors.New("its events are in no list of devices")
	case vStack: // one device, or none, without events
		return value{k: vRoot}, nil
	}
	for _, v := range lists {
		switch v.k {
		case vTrace:
			s.traces = append(s.traces, own[v.v-1])
		case vStack:
			s.traces = append(s.traces, tracePart{})
		default:
			return value{}, errors.New("device_traces holds what is no list of events")
		}
	}
	for _, t := range own { // of pinned memory
		s.hosts += t.last - t.first
	}
	for _, t := range s.traces {
		s.hosts -= t.last - t.first
	}
	return value{k: vRoot}, nil
}

// segments takes the list of segments, which is complete with the blocks.
func (m *machine) segments(v value) error {
	v, err := m.settled(v)
	if err != nil {
		return err
	}
	switch {
	case v.k == vStack && v.v == 0:
		m.s.Segments = nil
	case v.k == vList && len(m.open[v.v].items) == 1 && m.open[v.v].items[0].k == vSegment:
		o := &m.open[v.v] // the others are of pinned memory
		if o.first < 0 || o.first+o.count > len(m.s.Segments) {
			return errors.New("its segments are mixed with others")
		}
		m.s.Segments = m.s.Segments[o.first : o.first+o.count]
	default:
		return errors.New("its segments are no list of segments")
	}
	m.root = true
	return nil
}
