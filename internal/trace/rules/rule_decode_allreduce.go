package rules

import (
	"fmt"
	"strings"

	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// leastAllReduce is the share of the decode steps in all-reduces from which on they are a finding.
const leastAllReduce = 0.1

// findDecodeAllReduce: tensor parallelism sums activations across ranks in every layer, and such all-reduces take a
// tenth of decode or more. It claims nothing: they also wait for the slowest rank.
func (c *ruleContext) findDecodeAllReduce() []analyze.Found {
	for _, d := range c.devices {
		w := c.sumDecode(d)
		if w == nil {
			continue
		}
		var ns, nccl int64
		calls := 0
		for _, g := range d.Ops {
			op := &c.t.GPU[g]
			if !c.isComm(g) || op.Launch < 0 || c.x.CollectiveOf(g) != analyze.AllReduceCalls {
				continue
			}
			if k := c.x.StepAt(c.t.Host[op.Launch].Start); k < 0 || c.x.Steps[k].Dropped || !c.x.Steps[k].OnlyDecode() {
				continue
			}
			calls++
			ns += op.Dur()
			if isNCCL(c.t.Name(op.Name)) {
				nccl += op.Dur()
			}
		}
		if float64(ns) < leastAllReduce*float64(w.window) {
			continue
		}
		f := c.newEngineFinding(claim{device: -1}, fmt.Sprintf("all-reduces of tensor parallelism take %.0f %% of decode: %s per step",
			percent(ns, w.window), analyze.Plural(calls/w.steps, "call", "calls")))
		by := "kernels of the engine"
		if 2*nccl > ns {
			by = "NCCL or RCCL"
			f.Title += ", by NCCL or RCCL, which take longer than the engines' own kernels for small sums"
		}
		f.Evidence["allreduce_percent"], f.Evidence["calls"], f.Evidence["by"] = percent(ns, w.window), calls, by
		f.Caveats = append(f.Caveats, "no time claimed: an all-reduce also waits for the slowest rank, and the traces of all ranks show it")
		return []analyze.Found{f}
	}
	return nil
}

func isNCCL(kernel string) bool {
	name := strings.ToLower(kernel)
	return strings.Contains(name, "nccl") || strings.Contains(name, "rccl")
}

// isPipeline reports whether an operation passes activations between the stages of a pipeline.
func (c *ruleContext) isPipeline(g int32) bool {
	return c.t.GPU[g].Kind == model.Kernel && c.x.Class(g) == model.Communication && c.x.CollectiveOf(g) == analyze.SendReceiveCalls
}
