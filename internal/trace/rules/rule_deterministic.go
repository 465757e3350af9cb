package rules

import (
	"fmt"

	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// findDeterministicSort reports sort kernels of operators that sort indices to add in a fixed order, as deterministic
// mode does. embedding_dense_backward does not count because it always sorts. The finding claims the time in which only
// these sorts run and their delays from launch to start. It is only suspected, because index_put_ with accumulate=True
// always sorts too.
func (c *ruleContext) findDeterministicSort() []analyze.Found {
	if !c.hasMark(markSort) || !c.hasMark(markSortUser) {
		return nil
	}
	pick := func(g int32) bool {
		op := &c.t.GPU[g]
		return op.Kind == model.Kernel && c.nameHasMark(op.Name, markSort) && c.findMarkedEvent(g, markSortUser) >= 0 && c.findMarkedEvent(g, markEmbedding) < 0
	}
	f, ok := c.findSuspects(pick, "sorts make sums over indices deterministic")
	if !ok {
		return nil
	}
	f.PyTorch = "torch.use_deterministic_algorithms(False), or sort the indices once, outside the loop, and sum segments"
	f.Caveats = append(f.Caveats, "suspected: index_put_ with accumulate=True sorts in any mode; compare a run without deterministic algorithms")
	return []analyze.Found{f}
}

// findDeterministicFill reports fill kernels of operators that only allocate memory: deterministic mode fills new
// memory. The finding claims the time in which only these fills run and their delays from launch to start.
func (c *ruleContext) findDeterministicFill() []analyze.Found {
	if !c.hasMark(markFill) || !c.hasMark(markEmpty) {
		return nil
	}
	pick := func(g int32) bool {
		op := &c.t.GPU[g]
		return op.Kind == model.Kernel && c.nameHasMark(op.Name, markFill) && c.findMarkedEvent(g, markEmpty) >= 0
	}
	f, ok := c.findSuspects(pick, "uninitialised memory is filled on every allocation")
	if !ok {
		return nil
	}
	f.PyTorch = "torch.utils.deterministic.fill_uninitialized_memory = False"
	f.Caveats = append(f.Caveats, "suspected: the fill is what torch.use_deterministic_algorithms(True) adds; a program that reads memory it never wrote relies on it")
	return []analyze.Found{f}
}

// findSuspects makes the finding for both rules of this file. It claims the time in which only kernels that pick
// accepts run, and their delays from launch to start; what starts the title. It returns false without any of these
// kernels.
func (c *ruleContext) findSuspects(pick func(g int32) bool, what string) (analyze.Found, bool) {
	kernels, ns := 0, int64(0)
	ops := map[string]int{}
	s := c.newSites("kernel")
	c.eachSteadyOp(pick, func(_ *ruleDevice, g int32, op *model.GPU) {
		kernels++
		ns += op.Dur()
		s.addGPU(g, op.Dur())
		if h := c.x.EnclosingOp(g); h >= 0 {
			ops[c.t.Name(c.t.Host[h].Name)]++
		}
	})
	if kernels == 0 {
		return analyze.Found{}, false
	}
	exposed := c.exclusiveByDevice(pick)
	cl := c.claimOps(pick, func(d *ruleDevice) model.Spans { return exposed[d.Device] })
	f := c.newFinding(cl, fmt.Sprintf("%s (%s, %s)", what, analyze.Plural(kernels, "kernel", "kernels"), c.formatPerStep(c.runningTime(pick))))
	f.Evidence["kernels"] = kernels
	f.Evidence["kernel_ns"] = ns
	f.Evidence["exposed_ns"] = longestNS(exposed)
	f.Evidence["operators"] = len(ops)
	f.Sites = s.topSites()
	f.Suspect = true
	return f, true
}
