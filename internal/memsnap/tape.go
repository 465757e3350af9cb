package memsnap

import (
	"cmp"
	"slices"
)

// tape is a driver that does what the recording says, and notes what is asked otherwise.
type tape struct {
	*model
	at      int // the next event
	asked   int // the event at which Released was last asked for
	base    map[int]uint64
	differs bool
}

// next is the next event if it is of a segment, with that size.
func (t *tape) next(act Action, bytes int64) (addr uint64, ok bool) {
	if t.at >= t.r.Events() {
		return 0, false
	}
	have, row := t.r.word(t.at)
	return row.addr, have == act && row.size == uint64(bytes)
}

// Map implements pool.Driver.
func (t *tape) Map(segment int, bytes int64) error {
	addr, ok := t.next(SegmentAlloc, bytes)
	if !ok {
		return errRefused
	}
	t.base[segment] = addr
	t.at++
	return nil
}

// Base implements pool.Addresser.
func (t *tape) Base(segment int) uint64 { return t.base[segment] }

// Unmap implements pool.Driver.
func (t *tape) Unmap(segment int) error {
	act, row := t.r.word(min(t.at, t.r.Events()-1))
	if t.at >= t.r.Events() || act != SegmentFree || row.addr != t.base[segment] {
		t.differs = true
		return errRefused
	}
	t.at++
	return nil
}

// Grow implements pool.Pager.
func (t *tape) Grow(segment int, offset, bytes int64) error {
	addr, ok := t.next(SegmentMap, bytes)
	if !ok {
		return errRefused
	}
	base, known := t.base[segment]
	if !known {
		base = addr - uint64(offset)
		t.base[segment] = base
	}
	t.differs = t.differs || addr != base+uint64(offset)
	t.at++
	return nil
}

// Shrink implements pool.Pager.
func (t *tape) Shrink(segment int, offset, bytes int64) error {
	addr, ok := t.next(SegmentUnmap, bytes)
	if !ok || addr != t.base[segment]+uint64(offset) {
		t.differs = true
		return errRefused
	}
	t.at++
	return nil
}

// Released implements pool.Releaser: the recording returns memory of a private pool next.
func (t *tape) Released() (in int, ok bool) {
	if t.at >= t.r.Events() || t.asked == t.at+1 {
		return 0, false
	}
	t.asked = t.at + 1
	act, row := t.r.word(t.at)
	if _, in = t.r.ranks.of(t.r.S.origin(row).place); act != SegmentFree && act != SegmentUnmap || in == 0 {
		return 0, false
	}
	t.release(in)
	return in, true
}

// release notes that a private pool returns memory from the next event on.
func (t *tape) release(in int) {
	if !slices.ContainsFunc(t.released, func(o release) bool { return o.pool == in }) {
		t.released = append(t.released, release{in, t.at})
	}
}

// one does what the next events are about: a free, a request, or an emptied cache.
func (t *tape) one(traits []traits) {
	act, row := t.r.word(t.at)
	switch {
	case act == FreeCompleted:
		t.give(t.at)
		t.at++
	case act != Alloc && act != OOM && !act.ofSegments():
		t.at++
	default:
		to, grew := t.calls()
		stack := t.r.S.origin(row).stack
		if to < t.r.Events() {
			request, want := t.r.word(to)
			// Memory that a request returns before it carries the request's stack.
			emptied := (act == SegmentFree || act == SegmentUnmap) && (traits[stack].empty || stack != t.r.S.origin(want).stack || request == Alloc && !grew)
			if (request == Alloc || request == OOM) && !emptied {
				t.request(to)
				return
			}
		}
		began := t.at
		t.asked = 0
		var err error
		if _, in := t.r.ranks.of(t.r.S.origin(row).place); in != 0 && !traits[stack].empty { // its last graph or MemPool is gone
			t.release(in)
			t.returns[t.at] = in
			err = t.p.Return(in)
		} else {
			t.trims[t.at] = true
			err = t.p.Trim()
		}
		t.differs = err != nil || t.at == began || t.differs
	}
}

// calls are the calls of the driver from the next event on: the event after them, and
// whether one of them made memory.
func (t *tape) calls() (to int, grew bool) {
	for to = t.at; to < t.r.Events(); to++ {
		a, _ := t.r.word(to)
		if !a.ofSegments() {
			break
		}
		grew = grew || a == SegmentAlloc || a == SegmentMap
	}
	return to, grew
}

// request makes the request of an event, to which the calls of the driver must lead.
func (t *tape) request(to int) {
	act, want := t.r.word(to)
	t.asked = 0
	b, err := t.take(want)
	if t.at != to {
		t.differs = true
		return
	}
	t.at++
	switch {
	case err != nil:
		t.differs = t.differs || act != OOM
	case act != Alloc || t.base[b.Segment]+uint64(b.Offset) != want.addr:
		t.differs = true
	default:
		t.hold(to, b)
	}
}

// ranks are the streams of a file in the order in which PyTorch sorts them, and its pools
// in the order of their first use, 0 for that of programs without others.
type ranks struct {
	stream, pool []int
	pools        int
}

func (k *ranks) of(place uint32) (stream, in int) { return k.stream[place], k.pool[place] }

// ranked are the ranks of places.
func ranked(places []place) *ranks {
	k := &ranks{stream: make([]int, len(places)), pool: make([]int, len(places))}
	pools := map[[2]uint64]int{{}: 0}
	var streams []uint64
	for i, p := range places {
		streams = append(streams, p.stream)
		if _, ok := pools[p.pool]; !ok {
			pools[p.pool] = len(pools)
		}
		k.pool[i] = pools[p.pool]
	}
	k.pools = len(pools)
	slices.SortFunc(streams, cmp.Compare)
	streams = slices.Compact(streams)
	for i, p := range places {
		k.stream[i], _ = slices.BinarySearch(streams, p.stream)
	}
	return k
}
