package memsnap

import (
	"cmp"
	"slices"
)

// recordedDriver is the driver for checking the model: it answers each call as in the recording, and sets differs if
// the model's calls differ from the recorded ones.
type recordedDriver struct {
	*model
	at      int // next event
	asked   int // event of the last call of Released, plus one
	base    map[int]uint64
	differs bool
}

// matchNext returns the address of the next event; ok is false if that event is not the call act with this size.
func (t *recordedDriver) matchNext(act Action, bytes int64) (addr uint64, ok bool) {
	if t.at >= t.r.Events() {
		return 0, false
	}
	have, row := t.r.eventAt(t.at)
	return row.addr, have == act && row.size == uint64(bytes)
}

// Map implements pool.Driver.
func (t *recordedDriver) Map(segment int, bytes int64) error {
	addr, ok := t.matchNext(SegmentAlloc, bytes)
	if !ok {
		return errRefused
	}
	t.base[segment] = addr
	t.at++
	return nil
}

// Base implements pool.Addresser.
func (t *recordedDriver) Base(segment int) uint64 { return t.base[segment] }

// Unmap implements pool.Driver.
func (t *recordedDriver) Unmap(segment int) error {
	act, row := t.r.eventAt(min(t.at, t.r.Events()-1))
	if t.at >= t.r.Events() || act != SegmentFree || row.addr != t.base[segment] {
		t.differs = true
		return errRefused
	}
	t.at++
	return nil
}

// Grow implements pool.Pager.
func (t *recordedDriver) Grow(segment int, offset, bytes int64) error {
	addr, ok := t.matchNext(SegmentMap, bytes)
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
func (t *recordedDriver) Shrink(segment int, offset, bytes int64) error {
	addr, ok := t.matchNext(SegmentUnmap, bytes)
	if !ok || addr != t.base[segment]+uint64(offset) {
		t.differs = true
		return errRefused
	}
	t.at++
	return nil
}

// Released implements pool.Releaser. It returns the private pool whose memory the recording returns next.
func (t *recordedDriver) Released() (in int, ok bool) {
	if t.at >= t.r.Events() || t.asked == t.at+1 {
		return 0, false
	}
	t.asked = t.at + 1
	act, row := t.r.eventAt(t.at)
	if _, in = t.r.ranks.ranksOf(t.r.S.originOf(row).place); act != SegmentFree && act != SegmentUnmap || in == 0 {
		return 0, false
	}
	t.addRelease(in)
	return in, true
}

// addRelease records that a private pool returns memory from the next event on.
func (t *recordedDriver) addRelease(in int) {
	if !slices.ContainsFunc(t.released, func(o release) bool { return o.pool == in }) {
		t.released = append(t.released, release{in, t.at})
	}
}

// replayNext replays the next events: a free, a request, or an emptied cache.
func (t *recordedDriver) replayNext(traits []traits) {
	act, row := t.r.eventAt(t.at)
	switch {
	case act == FreeCompleted:
		t.giveBlock(t.at)
		t.at++
	case act != Alloc && act != OOM && !act.isSegmentCall():
		t.at++
	default:
		to, grew := t.driverCalls()
		stack := t.r.S.originOf(row).stack
		if to < t.r.Events() {
			request, want := t.r.eventAt(to)
			// Segments returned to serve a request have the stack of that request.
			emptied := (act == SegmentFree || act == SegmentUnmap) && (traits[stack].empty || stack != t.r.S.originOf(want).stack || request == Alloc && !grew)
			if (request == Alloc || request == OOM) && !emptied {
				t.replayRequest(to)
				return
			}
		}
		began := t.at
		t.asked = 0
		var err error
		// A private pool returns memory after its last graph or MemPool is destroyed.
		if _, in := t.r.ranks.ranksOf(t.r.S.originOf(row).place); in != 0 && !traits[stack].empty {
			t.addRelease(in)
			t.returns[t.at] = in
			err = t.p.Return(in)
		} else {
			t.trims[t.at] = true
			err = t.p.Trim()
		}
		t.differs = err != nil || t.at == began || t.differs
	}
}

// driverCalls skips the driver calls from the next event on. It returns the event after them, and whether any allocated
// memory.
func (t *recordedDriver) driverCalls() (to int, grew bool) {
	for to = t.at; to < t.r.Events(); to++ {
		a, _ := t.r.eventAt(to)
		if !a.isSegmentCall() {
			break
		}
		grew = grew || a == SegmentAlloc || a == SegmentMap
	}
	return to, grew
}

// replayRequest repeats the request of event to, which must cause the recorded driver calls.
func (t *recordedDriver) replayRequest(to int) {
	act, want := t.r.eventAt(to)
	t.asked = 0
	b, err := t.takeBlock(want)
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
		t.holdBlock(to, b)
	}
}

// ranks numbers a file's streams in PyTorch's sort order, and its pools in the order of first use (0: default pool).
// Both slices are indexed by place.
type ranks struct {
	stream, pool []int
	pools        int
}

func (k *ranks) ranksOf(place uint32) (stream, in int) { return k.stream[place], k.pool[place] }

func newRanks(places []place) *ranks {
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
