package memsnap

import (
	"cmp"
	"maps"
	"slices"

	"github.com/gpuprof/gpuprof/internal/pool"
)

// heldSegment is a segment that exists before the first event.
type heldSegment struct {
	lo, hi uint64 // addresses
	place  uint32 // number of its stream and pool
}

// segmentsBefore returns the segments before the first event: the final segments with all events undone.
func (r *Replay) segmentsBefore() []heldSegment {
	at := map[uint64]heldSegment{}
	for i := range r.S.Segments {
		if g := &r.S.Segments[i]; g.Device == r.Device {
			at[g.Address] = heldSegment{g.Address, g.Address + g.Total, g.place}
		}
	}
	for i := r.Events() - 1; i >= 0; i-- {
		switch act, a := r.eventAt(i); act {
		case SegmentAlloc:
			delete(at, a.addr)
		case SegmentFree:
			at[a.addr] = heldSegment{a.addr, a.addr + a.size, r.S.originOf(a).place}
		}
	}
	return slices.SortedFunc(maps.Values(at), func(a, b heldSegment) int { return cmp.Compare(a.lo, b.lo) })
}

// liveBefore returns the allocations from before the first event, by address, and the block size of each that is never
// freed.
func (r *Replay) liveBefore() (live []*allocation, size map[*allocation]uint64) {
	size = map[*allocation]uint64{}
	atEnd := map[uint64]uint64{}
	for i := range r.S.Segments {
		if g := &r.S.Segments[i]; g.Device == r.Device {
			for _, b := range r.S.Blocks(g) {
				if b.State != Inactive {
					atEnd[b.Address] = b.Size
				}
			}
		}
	}
	r.eachAlloc(func(a *allocation) {
		if a.born != never {
			return
		}
		live = append(live, a)
		if a.done == never {
			size[a] = atEnd[a.addr]
		}
	})
	slices.SortFunc(live, func(a, b *allocation) int { return cmp.Compare(a.addr, b.addr) })
	return live, size
}

// initialState is the state before the first event of a recording that starts after the first allocation.
type initialState struct {
	segments []initialSegment
	live     []*allocation // by address
	unknown  int           // large blocks with unknown ends
	ok       bool          // the file is consistent
}

// initialSegment is a segment before the first event. parts are its free and taken parts in order; of[i] is the
// allocation of the i-th taken part.
type initialSegment struct {
	heldSegment
	parts []pool.Part
	of    []*allocation
}

// findBeginning computes the initial state, once. A small block has its rounded size. A large block may include a
// remainder of up to 1 MiB that was not split off. If more is free behind a large block, it ends at the address of the
// first allocation that is placed there during its lifetime.
func (r *Replay) findBeginning() *initialState {
	if r.start != nil {
		return r.start
	}
	b := &initialState{ok: true}
	r.start = b
	var size map[*allocation]uint64
	b.live, size = r.liveBefore()
	later := r.allocsByAddress()
	k := 0
	for _, g := range r.segmentsBefore() {
		for k < len(b.live) && b.live[k].addr < g.lo {
			k++
		}
		from := k
		for k < len(b.live) && b.live[k].addr < g.hi {
			k++
		}
		s, unknown, ok := r.segmentParts(g, b.live[from:k], size, later)
		if !ok {
			b.ok = false
			return b
		}
		b.unknown += unknown
		b.segments = append(b.segments, s)
	}
	return b
}

// segmentParts splits a segment into free and taken parts.
func (r *Replay) segmentParts(g heldSegment, live []*allocation, size map[*allocation]uint64, later []*allocation) (s initialSegment, unknown int, ok bool) {
	const least = 1 << 20 // smallest remainder that is split off from a large block
	s = initialSegment{heldSegment: g, of: live}
	at := g.lo
	for k, a := range live {
		if a.addr < at {
			return s, unknown, false
		}
		end := g.hi
		if k+1 < len(live) {
			end = min(end, live[k+1].addr)
		}
		takes := cmp.Or(size[a], r.S.Settings.roundSize(a.size))
		if gap := end - a.addr - min(takes, end-a.addr); size[a] == 0 && g.hi-g.lo > smallSegment && gap > 0 {
			switch by, found := r.firstAllocIn(later, a, a.addr+takes, end); {
			case gap <= least:
				takes += gap
			case found && by-a.addr-takes <= least:
				takes = by - a.addr
			case !found:
				unknown++
			}
		}
		takes = min(takes, end-a.addr)
		if a.addr > at {
			s.parts = append(s.parts, pool.Part{Size: int64(a.addr - at)})
		}
		s.parts = append(s.parts, pool.Part{Size: int64(takes), Requested: int64(a.size), Taken: true})
		at = a.addr + takes
	}
	if at < g.hi {
		s.parts = append(s.parts, pool.Part{Size: int64(g.hi - at)})
	}
	return s, unknown, true
}

// adoptBeginning adds the segments of the initial state to the model, and calls made with the number of each.
func (m *model) adoptBeginning(b *initialState, made func(n int, g heldSegment)) {
	for _, s := range b.segments {
		stream, in := m.r.ranks.ranksOf(s.place)
		n, blocks := m.p.Adopt(s.lo, stream, in, s.parts)
		made(n, s.heldSegment)
		for i, block := range blocks {
			m.older[s.of[i]] = block
		}
	}
}

// smallSegment is the size of segments for small blocks, and of no other segments.
const smallSegment = 2 << 20

func (r *Replay) allocsByAddress() (out []*allocation) {
	r.eachAlloc(func(a *allocation) {
		if a.born != never {
			out = append(out, a)
		}
	})
	slices.SortFunc(out, func(a, b *allocation) int { return cmp.Or(cmp.Compare(a.addr, b.addr), cmp.Compare(a.born, b.born)) })
	return out
}

// firstAllocIn returns the address of the first allocation in [lo, hi) during the lifetime of while. all is sorted by
// address.
func (r *Replay) firstAllocIn(all []*allocation, while *allocation, lo, hi uint64) (addr uint64, found bool) {
	k, _ := slices.BinarySearchFunc(all, lo, func(a *allocation, lo uint64) int { return cmp.Compare(a.addr, lo) })
	first := while.done
	for ; k < len(all) && all[k].addr < hi; k++ {
		if a := all[k]; a.born < first {
			first, addr, found = a.born, a.addr, true
		}
	}
	return addr, found
}
