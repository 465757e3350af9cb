package memsnap

import (
	"cmp"
	"slices"
)

// placePools assigns pools to the allocations of a file whose events have none, as PyTorch wrote them up to 2.11. The
// pool of an address is that of its segment at the end. Earlier allocations at the address are assigned to the
// default pool, since the file lacks theirs; the check of the model detects errors of this rule.
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

// placeRows assigns the allocations of one device to the segments of its private pools, which are ordered by address.
func (m *machine) placeRows(private []*Segment, t tracePart) {
	s := m.s
	of := func(addr uint64) int { // the index of the segment that contains an address, -1 for none
		k, found := slices.BinarySearchFunc(private, addr, func(g *Segment, addr uint64) int { return cmp.Compare(g.Address, addr) })
		if !found {
			k--
		}
		if k < 0 || addr-private[k].Address >= private[k].Total {
			return -1
		}
		return k
	}
	since := make([]uint32, len(private)) // the event that created it
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
