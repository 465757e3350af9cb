package rules

import (
	"fmt"

	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// deterministicSort: kernels that sort, under operators that sort their
// indices when asked to add in a fixed order. embedding_dense_backward sorts
// in any mode and does not count. It claims the sorts' time that nothing else
// overlaps, and what the device needs to begin each; suspected, since index_put_ with accumulate=True sorts in any mode.
func (c *ruleContext) deterministicSort() []analyze.Found {
	if !c.named(markSort) || !c.named(markSortUser) {
		return nil
	}
	pick := func(g int32) bool {
		op := &c.t.GPU[g]
		return op.Kind == model.Kernel && c.is(op.Name, markSort) && c.gpuUnder(g, markSortUser) >= 0 && c.gpuUnder(g, markEmbedding) < 0
	}
	f, ok := c.suspect(pick, "sorts make sums over indices deterministic")
	if !ok {
		return nil
	}
	f.PyTorch = "torch.use_deterministic_algorithms(False), or sort the indices once, outside the loop, and sum segments"
	f.Caveats = append(f.Caveats, "suspected: index_put_ with accumulate=True sorts in any mode; compare a run without deterministic algorithms")
	return []analyze.Found{f}
}

// deterministicFill: kernels that fill memory inside operators that only
// allocate: deterministic mode fills what is uninitialised. It claims their
// time that nothing else overlaps, and what the device needs to begin each.
func (c *ruleContext) deterministicFill() []analyze.Found {
	if !c.named(markFill) || !c.named(markEmpty) {
		return nil
	}
	pick := func(g int32) bool {
		op := &c.t.GPU[g]
		return op.Kind == model.Kernel && c.is(op.Name, markFill) && c.gpuUnder(g, markEmpty) >= 0
	}
	f, ok := c.suspect(pick, "uninitialised memory is filled on every allocation")
	if !ok {
		return nil
	}
	f.PyTorch = "torch.utils.deterministic.fill_uninitialized_memory = False"
	f.Caveats = append(f.Caveats, "suspected: the fill is what torch.use_deterministic_algorithms(True) adds; a program that reads memory it never wrote relies on it")
	return []analyze.Found{f}
}

// suspect is the common part of both: the kernels pick chooses, their
// exclusive time and the waits for them claimed, evidence and places.
func (c *ruleContext) suspect(pick func(g int32) bool, what string) (analyze.Found, bool) {
	kernels, ns := 0, int64(0)
	ops := map[string]int{}
	s := c.newSites("kernel")
	c.steadyOps(pick, func(_ *ruleDevice, g int32, op *model.GPU) {
		kernels++
		ns += op.Dur()
		s.gpu(g, op.Dur())
		if h := c.x.EnclosingOp(g); h >= 0 {
			ops[c.t.Name(c.t.Host[h].Name)]++
		}
	})
	if kernels == 0 {
		return analyze.Found{}, false
	}
	exposed := c.exclusives(pick)
	cl := c.claimOps(pick, func(d *ruleDevice) model.Spans { return exposed[d.Device] })
	f := c.finding(cl, fmt.Sprintf("%s (%s, %s)", what, analyze.Plural(kernels, "kernel", "kernels"), c.perStep(c.under(pick))))
	f.Evidence["kernels"] = kernels
	f.Evidence["kernel_ns"] = ns
	f.Evidence["exposed_ns"] = most(exposed)
	f.Evidence["operators"] = len(ops)
	f.Sites = s.top()
	f.Suspect = true
	return f, true
}
