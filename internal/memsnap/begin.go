package memsnap

import (
	"cmp"
	"slices"

	"github.com/gpuprof/gpuprof/internal/pool"
)

// held is a segment that is there before the first event.
type held struct {
	lo, hi uint64
	place  uint32
}

// segmentsBefore are the segments before the first event: those of the end, every event
// undone.
func (r *Replay) segmentsBefore() []held {
	at := map[uint64]held{}
	for i := range r.S.Segments {
		if g := &r.S.Segments[i]; g.Device == r.Device {
			at[g.Address] = held{g.Address, g.Address + g.Total, g.place}
		}
	}
	for i := r.Events() - 1; i >= 0; i-- {
		switch act, a := r.word(i); act {
		case SegmentAlloc:
			delete(at, a.addr)
		case SegmentFree:
			at[a.addr] = held{a.addr, a.addr + a.size, r.S.origin(a).place}
		}
	}
	out := make([]held, 0, len(at))
	for _, h := range at {
		out = append(out, h)
	}
	slices.SortFunc(out, func(a, b held) int { return cmp.Compare(a.lo, b.lo) })
	return out
}

// liveBefore are the allocations that were made before the first event, by address. What a
// block takes of its segment is known of those that live to the end, by their blocks there.
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
	r.rows(func(a *allocation) {
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

// beginning is what is held before the first event, of a recording that begins late.
type beginning struct {
	segments []beginSegment
	live     []*allocation // by address
	unknown  int           // large blocks whose ends nothing shows
	ok       bool          // the file does not contradict itself
}

// beginSegment is a segment with its parts; of are the allocations of those that are taken.
type beginSegment struct {
	held
	parts []pool.Part
	of    []*allocation
}

// beginning finds the beginning, once.
//
// A small block takes exactly its rounded size. A large one takes up to 1 MiB behind it as
// well, which is not cut off. Where more is free, the first allocation that falls into it
// while the block lives begins where the block ends.
func (r *Replay) beginning() *beginning {
	if r.start != nil {
		return r.start
	}
	b := &beginning{ok: true}
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
		s, unknown, ok := r.partsOf(g, b.live[from:k], size, later)
		if !ok {
			b.ok = false
			return b
		}
		b.unknown += unknown
		b.segments = append(b.segments, s)
	}
	return b
}

// partsOf are the parts of one segment in which allocations live.
func (r *Replay) partsOf(g held, live []*allocation, size map[*allocation]uint64, later []*allocation) (s beginSegment, unknown int, ok bool) {
	const least = 1 << 20 // what is left of a large block is larger
	s = beginSegment{held: g, of: live}
	at := g.lo
	for k, a := range live {
		if a.addr < at {
			return s, unknown, false
		}
		end := g.hi
		if k+1 < len(live) {
			end = min(end, live[k+1].addr)
		}
		takes := cmp.Or(size[a], r.S.Settings.rounded(a.size))
		if gap := end - a.addr - min(takes, end-a.addr); size[a] == 0 && g.hi-g.lo > smallSegment && gap > 0 {
			switch by, found := r.firstIn(later, a, a.addr+takes, end); {
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

// begin gives the model the segments of the beginning; made is told of each.
func (m *model) begin(b *beginning, made func(n int, g held)) {
	for _, s := range b.segments {
		stream, in := m.r.ranks.of(s.place)
		n, blocks := m.p.Adopt(s.lo, stream, in, s.parts)
		made(n, s.held)
		for i, block := range blocks {
			m.older[s.of[i]] = block
		}
	}
}

// smallSegment is the size of segments of small blocks, which no others have.
const smallSegment = 2 << 20

// allocsByAddress are the allocations that events make, by address and then in order.
func (r *Replay) allocsByAddress() (out []*allocation) {
	r.rows(func(a *allocation) {
		if a.born != never {
			out = append(out, a)
		}
	})
	slices.SortFunc(out, func(a, b *allocation) int { return cmp.Or(cmp.Compare(a.addr, b.addr), cmp.Compare(a.born, b.born)) })
	return out
}

// firstIn is the address of the first allocation from lo up to hi while another one lives.
func (r *Replay) firstIn(all []*allocation, while *allocation, lo, hi uint64) (addr uint64, found bool) {
	k, _ := slices.BinarySearchFunc(all, lo, func(a *allocation, lo uint64) int { return cmp.Compare(a.addr, lo) })
	first := while.done
	for ; k < len(all) && all[k].addr < hi; k++ {
		if a := all[k]; a.born < first {
			first, addr, found = a.born, a.addr, true
		}
	}
	return addr, found
}
