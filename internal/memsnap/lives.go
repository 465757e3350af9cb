package memsnap

import (
	"cmp"
	"slices"
)

// Life is the lifetime of an allocation in events.
type Life struct {
	// Born is the event of the allocation, -1 if before the recording. Done is the first event after which the memory
	// is free, or the number of events if never.
	Born, Done int
	Bytes      int64
	Category   Category
	stack      uint32
}

// Lives returns the largest allocations of a device, up to the number most, in the order of their events, and the
// number and bytes of the others. An analysis read from JSON has none.
func (d *Device) Lives(most int) (out []Life, others int, bytes int64) {
	if d.account == nil {
		return nil, 0, 0
	}
	a := d.account
	a.r.eachAlloc(func(row *allocation) {
		l := Life{Born: -1, Done: a.r.Events(), Bytes: int64(row.size), Category: a.kinds.classify(row), stack: a.r.S.originOf(row).stack}
		if row.born != never {
			l.Born = int(row.born)
		}
		if row.done != never {
			l.Done = min(int(row.done), a.r.Events())
		}
		if l.Done > l.Born && l.Bytes > 0 {
			out = append(out, l)
		}
		if len(out) >= 4*most+1024 { // a long recording has millions of allocations
			n, b := keepLargest(&out, most)
			others, bytes = others+n, bytes+b
		}
	})
	n, b := keepLargest(&out, most)
	slices.SortStableFunc(out, func(x, y Life) int { return cmp.Compare(x.Born, y.Born) })
	return out, others + n, bytes + b
}

// keepLargest removes all but the largest allocations, and returns number and bytes of the removed ones.
func keepLargest(v *[]Life, most int) (n int, bytes int64) {
	if len(*v) <= most {
		return 0, 0
	}
	slices.SortStableFunc(*v, func(x, y Life) int { return cmp.Compare(y.Bytes, x.Bytes) })
	for _, l := range (*v)[most:] {
		n, bytes = n+1, bytes+l.Bytes
	}
	*v = (*v)[:most]
	return n, bytes
}

// StackOf returns the frames of an allocation, innermost first; empty if not recorded.
func (d *Device) StackOf(l Life) []string { return d.account.stackText(l.stack) }
