package memsnap

import "math/rand/v2"

// liveRows finds the row of the allocation that lives at an address: a table of open
// places, as two of three events of a file look an address up. The factor is drawn, so
// that no file can be made whose addresses all fall on one place.
type liveRows struct {
	slots  []liveRow
	n      int
	factor uint64
}

// liveRow is one place of the table; after is its row and 1, 0 in a free place.
type liveRow struct {
	addr  uint64
	after uint32
}

const leastLive = 1 << 10 // places of a table, a power of two

// reset makes the table empty.
func (l *liveRows) reset() {
	if len(l.slots) == leastLive {
		clear(l.slots)
	} else {
		l.slots = make([]liveRow, leastLive)
	}
	l.n, l.factor = 0, rand.Uint64()|1
}

// home is the place that an address comes to where that is free.
func (l *liveRows) home(addr uint64) int {
	h := addr * l.factor
	return int((h^h>>32)*l.factor>>20) & (len(l.slots) - 1)
}

// find is the place of an address, or the free place where it belongs.
func (l *liveRows) find(addr uint64) (at int, found bool) {
	for at = l.home(addr); l.slots[at].after != 0; at = (at + 1) & (len(l.slots) - 1) {
		if l.slots[at].addr == addr {
			return at, true
		}
	}
	return at, false
}

// row is that of an address.
func (l *liveRows) row(at int) int { return int(l.slots[at].after - 1) }

// set puts an address in.
func (l *liveRows) set(addr uint64, row int) {
	at, found := l.find(addr)
	l.slots[at] = liveRow{addr, uint32(row) + 1}
	if found {
		return
	}
	if l.n++; 4*l.n > 3*len(l.slots) {
		old := l.slots
		l.slots = make([]liveRow, 2*len(old))
		for _, s := range old {
			if s.after != 0 {
				to, _ := l.find(s.addr)
				l.slots[to] = s
			}
		}
	}
}

// drop takes out the address at a place, and moves those behind it that belong further
// forward.
func (l *liveRows) drop(at int) {
	mask := len(l.slots) - 1
	l.n--
	for next := (at + 1) & mask; l.slots[next].after != 0; next = (next + 1) & mask {
		if home := l.home(l.slots[next].addr); (next-home)&mask >= (next-at)&mask {
			l.slots[at] = l.slots[next]
			at = next
		}
	}
	l.slots[at] = liveRow{}
}
