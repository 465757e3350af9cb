package perfetto

import (
	"cmp"
	"slices"
)

// maxRows is more than anybody scrolls through.
const maxRows = 64

// slice is something with a place in time, ns.
type slice interface{ span() (start, end int64) }

// rows sorts slices by time and deals them out to as few rows as it finds in
// which every two of them are apart or one inside the other: the viewer draws
// what merely overlaps wrongly. Most need one row; what does not fit into
// maxRows is left out and counted.
func rows[T slice](v []T) (out [][]T, left int) {
	v = slices.Clone(v)
	slices.SortStableFunc(v, func(a, b T) int {
		s1, e1 := a.span()
		s2, e2 := b.span()
		return cmp.Or(cmp.Compare(s1, s2), cmp.Compare(e2, e1))
	})
	var open [][]int64 // ends of what is open in each row, outermost first
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
