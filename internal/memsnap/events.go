package memsnap

import (
	"errors"
	"unsafe"
)

// addEvent stores an event of the current trace. A free refers to the table row of its allocation, if the trace has
// that allocation.
func (m *machine) addEvent(d *members) (value, error) {
	if err := m.openTrace(); err != nil {
		return value{}, err
	}
	s := m.s
	t := &s.traces[len(s.traces)-1]
	act := m.action[d.idOf(kAction, vText)]
	at := uint32(t.last - t.first)
	row, err := m.allocRow(act, d, at)
	if err != nil {
		return value{}, err
	}
	if row-t.allocs >= mostIDs || at == never-1 {
		return value{}, errors.New("it has too many events of one device")
	}
	t.lastAlloc = s.allocs.n
	if s.events.push(uint32(act)<<actionShift | uint32(row-t.allocs)) {
		if err := m.countMemory(8 * chunk); err != nil {
			return value{}, err
		}
	}
	if err := m.addTime(d); err != nil {
		return value{}, err
	}
	t.last = s.events.n
	return value{vEvent, 1}, nil
}

func (m *machine) addTime(d *members) (err error) {
	s := m.s
	now := m.last
	if d.hasAll(kTime) {
		now = int64(d.numberOf(kTime))
		s.hasTime = true
	}
	if by := now - m.last; by >= 0 && by < int64(escape) {
		s.deltas.push(uint32(by))
	} else {
		s.times[s.events.n-1] = now
		s.deltas.push(escape)
		err = m.countMemory(48)
	}
	m.last = now
	return err
}

// allocRow returns the table row of the allocation that an event concerns.
func (m *machine) allocRow(act Action, d *members, at uint32) (int, error) {
	s := m.s
	addr, stack := d.numberOf(kAddr), d.idOf(kFrames, vStack)
	s.pooled = s.pooled || d.hasAll(kPool)
	t := &s.traces[len(s.traces)-1]
	if act == FreeRequested || act == FreeCompleted {
		if slot, ok := m.live.find(addr); ok {
			row := t.allocs + m.live.rowAt(slot)
			a := s.allocs.get(row)
			if act == FreeRequested {
				o := s.origins[a.from]
				o.freedBy = stack
				a.asked, a.from = at, m.internOrigin(o, &m.freed[a.from])
			} else {
				a.done = at
				m.live.drop(slot)
			}
			return row, nil
		}
	}
	o := origin{stack: stack, place: m.internPlace(m.placeIn(d))}
	a := allocation{addr: addr, size: d.numberOf(kSize), born: at, asked: never, done: never}
	if d.hasAll(kFree) && !d.hasAll(kAddr) {
		a.addr = d.numberOf(kFree)
	}
	switch act {
	case FreeRequested: // allocated before the recording
		a.born, a.asked, o.freedBy = never, at, stack
	case FreeCompleted:
		a.born, a.done = never, at
	}
	for int(stack) >= len(m.made) {
		m.made = append(m.made, 0)
	}
	a.from = m.internOrigin(o, &m.made[stack])
	i := s.allocs.n
	if s.allocs.push(a) {
		if err := m.countMemory(chunk * (int(unsafe.Sizeof(a)) + 24)); err != nil { // and its entry in live
			return 0, err
		}
	}
	if act == Alloc || act == FreeRequested {
		m.live.set(addr, i-t.allocs)
	}
	return i, nil
}

// internOrigin returns the number of an origin. *last caches the number of the previous lookup for the same stack or
// origin, which mostly matches.
func (m *machine) internOrigin(o origin, last *uint32) uint32 {
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
	if !ok { // last is set first, because it may be an element of freed
		m.freed = append(m.freed, id)
		m.room -= 96 // the next countMemory checks the limit
	}
	return id
}

// openTrace finds the list to which the current event belongs. It starts the list's trace at the first event, since
// events are read before their list ends. The event's dictionary is still on the stack, above its list or above earlier
// events.
func (m *machine) openTrace() error {
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

// addRoot handles the root dictionary, which assigns event lists to devices.
func (m *machine) addRoot(d *members) (value, error) {
	m.s.numbered = d.hasAll(kHosts)
	if err := m.setSegments(d.of[kSegments]); err != nil {
		return value{}, err
	}
	s := m.s
	own := s.traces
	s.traces = nil
	if !d.hasAll(kTraces) {
		return value{k: vRoot}, nil
	}
	var lists []value
	switch v := d.of[kTraces]; v.k {
	case vList:
		lists = m.open[v.v].items
	case vTrace:
		return value{}, errors.New("its events are in no list of devices")
	case vStack: // a single device or none, without events
		return value{k: vRoot}, nil
	}
	for _, v := range lists {
		switch v.k {
		case vTrace:
			s.traces = append(s.traces, own[v.v-1])
		case vStack:
			s.traces = append(s.traces, tracePart{})
		default:
			return value{}, errors.New("device_traces holds an element that is no list of events")
		}
	}
	for _, t := range own { // events of pinned memory
		s.hosts += t.last - t.first
	}
	for _, t := range s.traces {
		s.hosts -= t.last - t.first
	}
	return value{k: vRoot}, nil
}

// setSegments stores the complete list of segments, whose blocks are already read.
func (m *machine) setSegments(v value) error {
	v, err := m.settleValue(v)
	if err != nil {
		return err
	}
	switch {
	case v.k == vStack && v.v == 0:
		m.s.Segments = nil
	case v.k == vList && len(m.open[v.v].items) == 1 && m.open[v.v].items[0].k == vSegment:
		o := &m.open[v.v] // other lists are of pinned memory
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
