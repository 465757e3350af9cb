package e3nn

import (
	"math/rand/v2"
	"slices"
)

// pickRows returns all rows, or sampledRows random ones, the first, the last and the longest.
func pickRows(rng *rand.Rand, rowptr []int32, whole bool) []int {
	n := len(rowptr) - 1
	if whole || n <= sampledRows {
		all := make([]int, n)
		for i := range all {
			all[i] = i
		}
		return all
	}
	longest := 0
	for r := range n {
		if rowptr[r+1]-rowptr[r] > rowptr[longest+1]-rowptr[longest] {
			longest = r
		}
	}
	rows := rng.Perm(n)[:sampledRows]
	rows = append(rows, 0, n-1, longest)
	slices.Sort(rows)
	return slices.Compact(rows)
}
