package memsnap

import "math/rand/v2"

// liveRows maps addresses of live allocations to rows. It is a hash table with open addressing, because two of three
// events look up an address. The factor of its hash function is random, so that no file can force collisions.
type liveRows struct {
	slots  []liveRow
	n      int
	factor uint64
}

// liveRow is one slot; after is the row plus one, 0 if free.
type liveRow struct {
	addr  uint64
	after uint32
}

const leastLive = 1 << 10 // initial number of slots, a power of two

func (l *liveRows) reset() {
	if len(l.slots) == leastLive {
		clear(l.slots)
	} else {
		l.slots = make([]liveRow, leastLive)
	}
	l.n, l.factor = 0, rand.Uint64()|1
}

func (l *liveRows) home(addr uint64) int {
	h := addr * l.factor
	return int((h^h>>32)*l.factor>>20) & (len(l.slots) - 1)
}

// find returns the slot of an address, or a free slot for it.
func (l *liveRows) find(addr uint64) (at int, found bool) {
	for at = l.home(addr); l.slots[at].after != 0; at = (at + 1) & (len(l.slots) - 1) {
		if l.slots[at].addr == addr {
			return at, true
		}
	}
	return at, false
}

func (l *liveRows) rowAt(at int) int { return int(l.slots[at].after - 1) }

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

// drop frees a slot and moves later entries of the same chain forward.
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
