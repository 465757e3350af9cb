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
			at[a.addr] = held{a.addr, a.addr + a.size, a.place}
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

// begin gives the model the segments that are there before the first event, with what is
// held in them; made is told of each. Unknown are large blocks that are followed by free
// memory and whose ends no later allocation shows; ok is false where the file contradicts
// itself.
//
// A small block takes exactly its rounded size. A large one takes up to 1 MiB behind it as
// well, which is not cut off. Where more is free, the first allocation that falls into it
// while the block lives begins where the block ends.
func (m *model) begin(made func(n int, g held)) (unknown int, ok bool) {
	if m.r.Complete {
		return 0, true
	}
	const least = 1 << 20 // what is left of a large block is larger
	live, size := m.r.liveBefore()
	later := m.r.allocsByAddress()
	k := 0
	for _, g := range m.r.segmentsBefore() {
		for k < len(live) && live[k].addr < g.lo {
			k++
		}
		var parts []pool.Part
		var of []*allocation
		at := g.lo
		for ; k < len(live) && live[k].addr < g.hi; k++ {
			a := live[k]
			if a.addr < at {
				return unknown, false
			}
			end := g.hi
			if k+1 < len(live) {
				end = min(end, live[k+1].addr)
			}
			takes := cmp.Or(size[a], m.r.S.Settings.rounded(a.size))
			if gap := end - a.addr - min(takes, end-a.addr); size[a] == 0 && g.hi-g.lo > smallSegment && gap > 0 {
				switch by, found := m.r.firstIn(later, a, a.addr+takes, end); {
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
				parts = append(parts, pool.Part{Size: int64(a.addr - at)})
			}
			parts = append(parts, pool.Part{Size: int64(takes), Requested: int64(a.size), Taken: true})
			of = append(of, a)
			at = a.addr + takes
		}
		if at < g.hi {
			parts = append(parts, pool.Part{Size: int64(g.hi - at)})
		}
		stream, in := m.r.ranks.of(g.place)
		n, blocks := m.p.Adopt(g.lo, stream, in, parts)
		made(n, g)
		for i, b := range blocks {
			m.older[of[i]] = b
		}
	}
	return unknown, true
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
