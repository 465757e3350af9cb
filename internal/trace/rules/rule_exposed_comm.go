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
	waited, calls := model.Spans(nil), 0
	if !split {
		waited, calls = c.outlyingWaits()
		for d := range exposed {
			exposed[d] = exposed[d].Minus(waited)
		}
	}
	alone := longest(exposed)
	if alone.Total() == 0 {
		return nil
	}
	most := slices.SortedFunc(maps.Keys(by), func(a, b analyze.CollectiveKind) int { return cmp.Or(cmp.Compare(by[b], by[a]), cmp.Compare(a, b)) })[0]
	cl := c.claimGPU(func(d *ruleDevice) model.Spans { return exposed[d.Device] })
	f := c.finding(cl, fmt.Sprintf("communication runs alone for %s (%.0f %% of %s), most of it %s", c.perStep(alone), c.share(alone), c.whole(), most))
	if calls > 0 {
		f.Title += fmt.Sprintf("; beside that %s in %s are waiting for another rank", c.perStep(waited), analyze.Plural(calls, "collective", "collectives"))
		f.Evidence["waits_ns"], f.Evidence["waiting_collectives"] = waited.Total(), calls
	}
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

// A collective whose rate is that part of the median of its kind, and which takes longestTransfer at least, waits
// for a rank: bytes take about the same time over one link whenever they are sent.
const (
	outlying        = 10
	longestTransfer = 1_000_000 // ns
	leastAlike      = 4
	// Where sizes are not told, more than this: of one kind the largest may have so many times the bytes of the others.
	outlyingUntold = 50
)

// outlyingWaits is the time that collectives take above their bytes at the median rate of their kind, and how many
// calls they are. Where sizes are not told, all count alike.
func (c *ruleContext) outlyingWaits() (waits model.Spans, calls int) {
	told := c.t.ToldCollectives()
	elements := func(op *model.GPU) float64 {
		if m := told[op.Corr]; m != nil {
			return float64(m.In + m.Out)
		}
		return 1
	}
	times := float64(outlying)
	if len(told) == 0 {
		times = outlyingUntold
	}
	kinds := map[analyze.CollectiveKind][]int32{}
	c.steadyOps(c.isComm, func(_ *ruleDevice, g int32, op *model.GPU) {
		if elements(op) > 0 && op.Dur() > 0 {
			kinds[c.x.CollectiveOf(g)] = append(kinds[c.x.CollectiveOf(g)], g)
		}
	})
	for _, group := range kinds {
		var ns, each []int64 // of a call; of a million elements
		for _, g := range group {
			op := &c.t.GPU[g]
			ns = append(ns, op.Dur())
			each = append(each, int64(float64(op.Dur())/elements(op)*1e6))
		}
		usual, usualEach := analyze.Median(ns), analyze.Median(each)
		for _, g := range group {
			op := &c.t.GPU[g]
			transfer := max(usual, int64(float64(usualEach)*elements(op)/1e6))
			if len(group) >= leastAlike && op.Dur() >= longestTransfer && float64(op.Dur()) >= times*float64(transfer) {
				waits = append(waits, model.Span{Start: op.Start, End: op.End - transfer})
				calls++
			}
		}
	}
	return model.UnionOf(waits), calls
}

// isComm says whether an operation is a kernel that communicates.
func (c *ruleContext) isComm(g int32) bool {
	return c.t.GPU[g].Kind == model.Kernel && c.x.Class(g).Communicates()
}

// tensorParallel is the change for layers that ranks share in inference.
const tensorParallel = "tensor or expert parallelism: fewer ranks share a layer, inside one machine, and larger batches; collectives that overlap the product (async tensor parallelism)"

// collectiveKnob is what to change about a kind of communication in this program.
func (c *ruleContext) collectiveKnob(k analyze.CollectiveKind) string {
	switch k {
	case analyze.AllToAllCalls:
		return "all-to-all (experts, sequence parallelism): run it in chunks beside the computation of the chunk before, balance what the ranks send, and keep it inside one machine where possible"
	case analyze.SendReceiveCalls:
		return "pipeline: more and smaller micro-batches, an interleaved schedule (1F1B), and stages of equal length; send before the computation that does not need it"
	case analyze.AllGatherCalls, analyze.ReduceScatterCalls:
		if !c.training() {
			return tensorParallel
		}
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
