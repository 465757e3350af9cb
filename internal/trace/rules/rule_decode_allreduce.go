package rules

import (
	"fmt"
	"strings"

	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// leastAllReduce is the least share of the time of decode steps that all-reduces must take for a finding.
const leastAllReduce = 0.1

// findDecodeAllReduce reports that all-reduces take a tenth of the decode steps or more. Tensor parallelism sums
// activations across ranks in every layer. The finding claims no time, because an all-reduce also waits for the slowest
// rank.
func (c *ruleContext) findDecodeAllReduce() []analyze.Found {
	for _, d := range c.devices {
		w := c.sumDecode(d)
		if w == nil || float64(w.reduceNS) < leastAllReduce*float64(w.window) {
			continue
		}
		f := c.newEngineFinding(claim{device: -1}, fmt.Sprintf("all-reduces of tensor parallelism take %.0f %% of decode: %s per step",
			percent(w.reduceNS, w.window), analyze.Plural(w.allReduces/w.steps, "call", "calls")))
		by := "kernels of the engine"
		if 2*w.ncclNS > w.reduceNS {
			by = "NCCL or RCCL"
			f.Title += ", by NCCL or RCCL, which take longer than the engines' own kernels for small sums"
		}
		f.Evidence["allreduce_percent"], f.Evidence["calls"], f.Evidence["by"] = percent(w.reduceNS, w.window), w.allReduces, by
		f.Caveats = append(f.Caveats, "no time claimed: an all-reduce also waits for the slowest rank, and the traces of all ranks show it")
		return []analyze.Found{f}
	}
	return nil
}

func isNCCL(kernel string) bool {
	name := strings.ToLower(kernel)
	return strings.Contains(name, "nccl") || strings.Contains(name, "rccl")
}

// isPipeline reports whether an operation sends activations between pipeline stages.
func (c *ruleContext) isPipeline(g int32) bool {
	return c.t.GPU[g].Kind == model.Kernel && c.x.Class(g) == model.Communication && c.x.CollectiveOf(g) == analyze.SendReceiveCalls
}
