package rules

import (
	"github.com/gpuprof/gpuprof/internal/trace/analyze"
)

// isTraining reports whether the program trains a model. Advice about the backward pass and the optimizer is for
// training only.
func (c *ruleContext) isTraining() bool { return c.x.Recording.Kind == analyze.Training }

// splitStreams returns the operations of a device in the steps that are not dropped, one list per stream, in order of
// start.
func (c *ruleContext) splitStreams(d *ruleDevice) [][]int32 {
	at := map[int64]int{}
	var counts []int
	place := func(g int32, last *int64, k *int) {
		if s := c.t.GPU[g].Stream; s != *last || *k < 0 {
			n, known := at[s]
			if !known {
				n = len(counts)
				at[s] = n
				counts = append(counts, 0)
			}
			*last, *k = s, n
		}
	}
	last, k := int64(0), -1
	for i, g := range d.Ops {
		if d.counted[i] {
			place(g, &last, &k)
			counts[k]++
		}
	}
	out := make([][]int32, len(counts))
	for i, n := range counts {
		out[i] = make([]int32, 0, n)
	}
	for i, g := range d.Ops {
		if d.counted[i] {
			place(g, &last, &k)
			out[k] = append(out[k], g)
		}
	}
	return out
}

func pickMarked(marks []bool) func(int32) bool {
	return func(g int32) bool { return marks[g] }
}
