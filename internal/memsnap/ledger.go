package memsnap

import (
	"cmp"
	"slices"
)

// addressPolicy is the driver's choice of addresses. It matters because PyTorch up to 2.11 sorts free blocks of equal
// size by address.
type addressPolicy uint8

const (
	ascending addressPolicy = iota // each address above all earlier ones
	descending
	lowest // the lowest free address
)

const (
	firstAddress = 1 << 46
	driverPage   = 2 << 20
)

// simulatedDriver is a driver with a memory limit (bytes) and an address policy, for replays of other settings.
type simulatedDriver struct {
	*model
	limit, used      int64 // limit 0 is unlimited
	sizes            map[int]int64
	policy           addressPolicy
	bases            map[int]uint64
	top              uint64 // last used address
	taken            []span // sorted ranges in use, for the policy lowest
	at, nextReleased int    // current event; index in released of the next pool to return
}

func newSimulatedDriver(limit int64, p addressPolicy) *simulatedDriver {
	return &simulatedDriver{limit: limit, sizes: map[int]int64{}, policy: p, bases: map[int]uint64{}, top: firstAddress}
}

// Map implements pool.Driver; it allocates pages of 2 MiB.
func (l *simulatedDriver) Map(segment int, bytes int64) error {
	if err := l.Grow(segment, 0, bytes); err != nil {
		return err
	}
	l.sizes[segment] = bytes
	l.bases[segment] = l.placeSegment(uint64(bytes+driverPage-1) / driverPage * driverPage)
	return nil
}

// placeSegment returns the address of a new segment.
func (l *simulatedDriver) placeSegment(bytes uint64) uint64 {
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

// adoptSegment adds a segment that exists before the first event.
func (l *simulatedDriver) adoptSegment(n int, g heldSegment) {
	l.sizes[n], l.bases[n] = int64(g.hi-g.lo), g.lo
	l.used += int64(g.hi - g.lo)
	l.taken = append(l.taken, span{lo: g.lo, hi: g.hi}) // calls come in address order
	l.top = max(l.top, g.hi)
}

// Base implements pool.Addresser.
func (l *simulatedDriver) Base(segment int) uint64 { return l.bases[segment] }

// Unmap implements pool.Driver.
func (l *simulatedDriver) Unmap(segment int) error {
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
func (l *simulatedDriver) Grow(_ int, _, bytes int64) error {
	if l.limit > 0 && l.used+bytes > l.limit {
		return errRefused
	}
	l.used += bytes
	return nil
}

// Shrink implements pool.Pager.
func (l *simulatedDriver) Shrink(_ int, _, bytes int64) error {
	l.used -= bytes
	return nil
}

// Released implements pool.Releaser. Each call returns another private pool whose memory the recording had returned by
// the current event.
func (l *simulatedDriver) Released() (in int, ok bool) {
	for l.nextReleased < len(l.released) {
		o := l.released[l.nextReleased]
		if l.nextReleased++; o.event <= l.at {
			return o.pool, true
		}
	}
	l.nextReleased = 0
	return 0, false
}
