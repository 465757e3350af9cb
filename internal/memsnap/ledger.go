package memsnap

import (
	"cmp"
	"slices"
)

// policy is how a driver hands out addresses, which matters to PyTorch up to 2.11: it
// chooses among free blocks of equal size by them.
type policy uint8

const (
	ascending policy = iota // each above all before it
	descending
	lowest // the lowest place that is free
)

// The first address, and the size of the pages that a driver hands out.
const (
	firstAddress = 1 << 46
	driverPage   = 2 << 20
)

// ledger is a driver that has so much memory.
type ledger struct {
	*model
	limit, used int64 // limit 0: any
	sizes       map[int]int64
	policy      policy
	bases       map[int]uint64
	top         uint64 // the last address that was handed out
	taken       []span // for lowest, in order
	at, told    int    // the event that is replayed, and the pools that Released has named
}

func newLedger(limit int64, p policy) *ledger {
	return &ledger{limit: limit, sizes: map[int]int64{}, policy: p, bases: map[int]uint64{}, top: firstAddress}
}

// Map implements pool.Driver. The driver hands out pages of 2 MiB.
func (l *ledger) Map(segment int, bytes int64) error {
	if err := l.Grow(segment, 0, bytes); err != nil {
		return err
	}
	l.sizes[segment] = bytes
	l.bases[segment] = l.place(uint64(bytes+driverPage-1) / driverPage * driverPage)
	return nil
}

// place is the address of a new segment.
func (l *ledger) place(bytes uint64) uint64 {
	switch l.policy {
	case ascending:
		l.top += bytes
		return l.top - bytes
	case descending:
		l.top -= bytes
		return l.top
	}
	lo, k := uint64(firstAddress), 0
	if len(l.taken) > 0 {
		lo = min(lo, l.taken[0].lo)
	}
	for ; k < len(l.taken) && lo+bytes > l.taken[k].lo; k++ {
		lo = l.taken[k].hi
	}
	l.work += int64(len(l.taken))
	l.taken = slices.Insert(l.taken, k, span{lo: lo, hi: lo + bytes})
	return lo
}

// adopt is told of a segment that is there before the first event.
func (l *ledger) adopt(n int, g held) {
	l.sizes[n], l.bases[n] = int64(g.hi-g.lo), g.lo
	l.used += int64(g.hi - g.lo)
	l.taken = append(l.taken, span{lo: g.lo, hi: g.hi}) // they come in the order of addresses
	l.top = max(l.top, g.hi)
}

// Base implements pool.Addresser.
func (l *ledger) Base(segment int) uint64 { return l.bases[segment] }

// Unmap implements pool.Driver.
func (l *ledger) Unmap(segment int) error {
	if l.policy == lowest {
		k, _ := slices.BinarySearchFunc(l.taken, l.bases[segment], func(s span, lo uint64) int { return cmp.Compare(s.lo, lo) })
		l.taken = slices.Delete(l.taken, k, k+1)
		l.work += int64(len(l.taken) - k)
	}
	bytes := l.sizes[segment]
	delete(l.sizes, segment)
	delete(l.bases, segment)
	return l.Shrink(segment, 0, bytes)
}

// Grow implements pool.Pager.
func (l *ledger) Grow(_ int, _, bytes int64) error {
	if l.limit > 0 && l.used+bytes > l.limit {
		return errRefused
	}
	l.used += bytes
	return nil
}

// Shrink implements pool.Pager.
func (l *ledger) Shrink(_ int, _, bytes int64) error {
	l.used -= bytes
	return nil
}

// Released implements pool.Releaser: the private pools that the recording returned memory
// of up to the event.
func (l *ledger) Released() (in int, ok bool) {
	for l.told < len(l.released) {
		o := l.released[l.told]
		if l.told++; o.event <= l.at {
			return o.pool, true
		}
	}
	l.told = 0
	return 0, false
}
