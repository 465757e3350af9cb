package op

import "slices"

// BySource sorts edges by source, stably: the edges of node n are perm[colptr[n]:colptr[n+1]]. src [edges] has values
// 0..nodes-1; colptr is [nodes+1], perm [edges].
func BySource(src []int32, nodes int) (colptr, perm []int32) {
	colptr, perm = make([]int32, nodes+1), make([]int32, len(src))
	for e, s := range src {
		colptr[s+1]++
		perm[e] = int32(e)
	}
	for n := range nodes {
		colptr[n+1] += colptr[n]
	}
	slices.SortStableFunc(perm, func(a, b int32) int { return int(src[a]) - int(src[b]) })
	return colptr, perm
}
