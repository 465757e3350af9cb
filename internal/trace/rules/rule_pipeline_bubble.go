package rules

import (
	"fmt"

	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// leastBubble is the least share of the step in which a pipeline stage must only communicate for a finding.
const leastBubble = 0.03

// findPipelineBubble reports that a pipeline stage computes nothing while it sends or receives activations or
// gradients. The finding claims this time, which more micro-batches would fill.
func (c *ruleContext) findPipelineBubble() []analyze.Found {
	exposed := c.exclusiveByDevice(c.isPipeline)
	alone := longestSpans(exposed)
	if float64(alone.Total()) < leastBubble*float64(c.span) {
		return nil
	}
	kernels := 0
	c.eachSteadyOp(c.isPipeline, func(*ruleDevice, int32, *model.GPU) { kernels++ })
	cl := c.claimGPU(func(d *ruleDevice) model.Spans { return exposed[d.Device] })
	f := c.newFinding(cl, fmt.Sprintf("a stage of the pipeline computes nothing while it sends or receives, %.0f %% of %s",
		c.percentOfStep(alone), c.nameWhole()))
	f.PyTorch = adviseParallelism(c.x, c.rule.id)
	f.Evidence["collective"] = string(analyze.SendReceiveCalls)
	f.Evidence["kernels"], f.Evidence["exposed_ns"], f.Evidence["exposed_percent"] = kernels, alone.Total(), c.percentOfStep(alone)
	f.Caveats = append(f.Caveats, "twice the micro-batches halve the bubble; the transfer itself remains")
	return []analyze.Found{f}
}
