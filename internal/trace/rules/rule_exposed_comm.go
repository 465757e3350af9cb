package rules

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// exposedComm: communication kernels while the device computes nothing. It
// claims that time, and advises by the collective that takes most of it.
func (c *ruleContext) exposedComm() []analyze.Found {
	kernels, ns := 0, int64(0)
	by := map[analyze.CollectiveKind]int64{}
	s := c.newSites("kernel")
	c.steadyOps(c.isComm, func(d *ruleDevice, g int32, op *model.GPU) {
		kernels++
		ns += op.Dur()
		by[c.x.CollectiveOf(g)] += op.Dur() - d.Compute.TotalIn(model.Span{Start: op.Start, End: op.End}) + 1
		s.add(analyze.ShortName(c.t.Name(op.Name)), op.Dur())
	})
	if kernels == 0 {
		return nil
	}
	exposed := c.exclusives(c.isComm)
	split := c.withoutWaits(exposed)
	alone := longest(exposed)
	if alone.Total() == 0 {
		return nil
	}
	most := slices.SortedFunc(maps.Keys(by), func(a, b analyze.CollectiveKind) int { return cmp.Or(cmp.Compare(by[b], by[a]), cmp.Compare(a, b)) })[0]
	cl := c.claimGPU(func(d *ruleDevice) model.Spans { return exposed[d.Device] })
	f := c.finding(cl, fmt.Sprintf("communication runs alone for %s (%.0f %% of %s), most of it %s", c.perStep(alone), c.share(alone), c.whole(), most))
	f.Evidence["kernels"] = kernels
	f.Evidence["comm_ns"] = ns
	f.Evidence["exposed_ns"] = alone.Total()
	f.Evidence["exposed_percent"] = c.share(alone)
	f.Evidence["collective"] = string(most)
	if c.t.World > 0 {
		f.Evidence["ranks"] = c.t.World
	}
	f.Sites = s.top()
	f.PyTorch = c.collectiveKnob(most)
	if split {
		f.Evidence["without_waits_for_ranks"] = true
	} else {
		f.Caveats = append(f.Caveats, "a communication kernel also waits for the slowest rank: the traces of all ranks show the one that the others wait for")
	}
	return []analyze.Found{f}
}

// isComm says whether an operation is a kernel that communicates.
func (c *ruleContext) isComm(g int32) bool {
	return c.t.GPU[g].Kind == model.Kernel && c.x.Class(g).Communicates()
}

// collectiveKnob is what to change about a kind of communication in this program.
func (c *ruleContext) collectiveKnob(k analyze.CollectiveKind) string {
	switch k {
	case analyze.AllToAllCalls:
		return "all-to-all (experts, sequence parallelism): run it in chunks beside the computation of the chunk before, balance what the ranks send, and keep it inside one machine where possible"
	case analyze.SendReceiveCalls:
		return "pipeline: more and smaller micro-batches, an interleaved schedule (1F1B), and stages of equal length; send before the computation that does not need it"
	case analyze.AllGatherCalls, analyze.ReduceScatterCalls:
		return "sharded parameters (FSDP): prefetch the next ones (forward_prefetch=True, backward_prefetch=BackwardPrefetch.BACKWARD_PRE), larger units, or shard inside one machine only (HYBRID_SHARD)"
	case analyze.BroadcastCalls:
		return "send once what does not change; DistributedDataParallel(..., broadcast_buffers=False)"
	case analyze.AllReduceCalls:
		if c.dataParallel() {
			return "DistributedDataParallel(..., bucket_cap_mb=..., gradient_as_bucket_view=True), gradient accumulation under model.no_sync(), and balanced work on all ranks"
		}
		return "tensor parallelism: fewer ranks share a layer, inside one machine; sequence parallelism (reduce-scatter and all-gather instead), or an all-reduce that overlaps the product (async tensor parallelism)"
	}
	return "start communication as early as its data is there, in pieces that overlap computation, and balance the work on all ranks"
}

// dataParallel says whether gradients are what is reduced: DDP is named, or the
// program trains and no layer asks for a sum on its way forward.
func (c *ruleContext) dataParallel() bool {
	for _, name := range c.t.Names {
		if strings.HasPrefix(name, "DistributedDataParallel") || strings.Contains(name, "torch::distributed::reducer") {
			return true
		}
	}
	if !c.training() {
		return false
	}
	var forward, backward int
	launched := func(g int32) bool { return c.isComm(g) && c.t.GPU[g].Launch >= 0 }
	c.steadyOps(launched, func(_ *ruleDevice, _ int32, op *model.GPU) {
		if c.x.InBackward(op.Launch) || c.x.InOptimizer(op.Launch) {
			backward++
		} else {
			forward++
		}
	})
	return backward >= forward
}
