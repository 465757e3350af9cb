package memsnap

import (
	"cmp"
	"slices"
)

// placePools assigns pools to the allocations of files whose events have no pools (PyTorch up to 2.11). It takes the
// pool of the segment that is at the address at the end, or the default pool if the allocation is older than that
// segment. Check shows whether the assignment was wrong.
func (m *machine) placePools() {
	s := m.s
	var private []*Segment
	for i := range s.Segments {
		if g := &s.Segments[i]; g.Pool != [2]uint64{} {
			private = append(private, g)
		}
	}
	slices.SortFunc(private, func(a, b *Segment) int {
		return cmp.Or(cmp.Compare(a.Device, b.Device), cmp.Compare(a.Address, b.Address))
	})
	for len(private) > 0 {
		n := 0
		for n < len(private) && private[n].Device == private[0].Device {
			n++
		}
		m.placeRows(private[:n], s.tracePartOf(private[0].Device))
		private = private[n:]
	}
}

// placeRows assigns the allocations of a device to its private segments, which are sorted by address.
func (m *machine) placeRows(private []*Segment, t tracePart) {
	s := m.s
	of := func(addr uint64) int { // index of the segment that contains the address, -1 none
		k, found := slices.BinarySearchFunc(private, addr, func(g *Segment, addr uint64) int { return cmp.Compare(g.Address, addr) })
		if !found {
			k--
		}
		if k < 0 || addr-private[k].Address >= private[k].Total {
			return -1
		}
		return k
	}
	since := make([]uint32, len(private)) // event that created the segment
	for k := t.allocs; k < t.lastAlloc; k++ {
		a := s.allocs.get(k)
		if a.born == never || Action(*s.events.get(t.first + int(a.born))>>actionShift) != SegmentAlloc {
			continue
		}
		if g := of(a.addr); g >= 0 && private[g].Address == a.addr {
			since[g] = a.born
		}
	}
	last := uint32(0)
	for k := t.allocs; k < t.lastAlloc; k++ {
		a := s.allocs.get(k)
		g := of(a.addr)
		if g < 0 || a.born == never && since[g] > 0 || a.born != never && a.born < since[g] {
			continue
		}
		o := s.origins[a.from]
		o.place = m.internPlace(place{stream: s.places[o.place].stream, pool: private[g].Pool})
		a.from = m.internOrigin(o, &last)
	}
}
