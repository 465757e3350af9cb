package view

import (
	"fmt"
	"slices"

	"github.com/gpuprof/gpuprof"
)

// Warnings are the distinct warnings of several runs, in order; one that
// some of the runs share says how many.
func Warnings(runs []*gpuprof.Run) []gpuprof.Warning {
	var out []gpuprof.Warning
	count := map[gpuprof.Warning]int{}
	for _, r := range runs {
		for _, w := range r.Warnings {
			if count[w]++; !slices.Contains(out, w) {
				out = append(out, w)
			}
		}
	}
	for i, w := range out {
		if n := count[w]; n > 1 {
			out[i].Code = fmt.Sprintf("%s (%d of %d runs)", w.Code, n, len(runs))
		}
	}
	return out
}
