package rules

import (
	"github.com/gpuprof/gpuprof/internal/trace/analyze"
)

// training says whether the program trains. Advice about a backward pass or an optimizer is for
// no other program.
func (c *ruleContext) training() bool { return c.x.Recording.Kind == analyze.Training }

// streamsOf is the operations of a device by stream, each in order, as far as
// they belong to the steps that count.
func (c *ruleContext) streamsOf(d *ruleDevice) [][]int32 {
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
		if d.mine[i] {
			place(g, &last, &k)
			counts[k]++
		}
	}
	out := make([][]int32, len(counts))
	for i, n := range counts {
		out[i] = make([]int32, 0, n)
	}
	for i, g := range d.Ops {
		if d.mine[i] {
			place(g, &last, &k)
			out[k] = append(out[k], g)
		}
	}
	return out
}

// chosen says whether an operation is marked in a list by operation.
func chosen(marks []bool) func(int32) bool {
	return func(g int32) bool { return marks[g] }
}
