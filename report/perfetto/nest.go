package perfetto

import (
	"cmp"
	"slices"
)

// maxRows limits the rows for overlapping slices.
const maxRows = 64

// slice has a start and an end, ns.
type slice interface{ span() (start, end int64) }

// nestRows sorts slices by time and distributes them over few rows. Slices of a row are disjoint or nested, because the
// viewer draws partly overlapping slices wrongly. left counts the slices beyond maxRows rows.
func nestRows[T slice](v []T) (out [][]T, left int) {
	v = slices.Clone(v)
	slices.SortStableFunc(v, func(a, b T) int {
		s1, e1 := a.span()
		s2, e2 := b.span()
		return cmp.Or(cmp.Compare(s1, s2), cmp.Compare(e2, e1))
	})
	var open [][]int64 // ends of the open slices of each row, outermost first
next:
	for _, x := range v {
		start, end := x.span()
		for i := range out {
			o := open[i]
			for len(o) > 0 && o[len(o)-1] <= start {
				o = o[:len(o)-1]
			}
			open[i] = o
			if len(o) == 0 || end <= o[len(o)-1] {
				out[i], open[i] = append(out[i], x), append(o, end)
				continue next
			}
		}
		if len(out) == maxRows {
			left++
			continue
		}
		out, open = append(out, []T{x}), append(open, []int64{end})
	}
	return out, left
}
