package rules

import (
	"strings"

	"github.com/gpuprof/gpuprof/internal/trace/analyze"
)

// training says whether the program trains: it has a backward pass or an
// optimizer. Advice about either is for no other program.
func (c *ruleContext) training() bool { return c.trains }

// findTraining looks for a backward pass or an optimizer in the names of
// operators, ranges and kernels.
func (c *ruleContext) findTraining() {
	for id, name := range c.t.Names {
		in := &c.x.Info[id]
		kernel := in.Kernel != analyze.NoClass && (in.Kernel == analyze.OptimizerClass || strings.Contains(name, "_backward") || strings.Contains(name, "wgrad") || strings.Contains(name, "_bwd"))
		if in.Flags&(analyze.NameBackward|analyze.NameOptimizer) != 0 || kernel {
			c.trains = true
			return
		}
	}
}

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
