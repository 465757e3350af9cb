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

// findExposedComm reports communication while the device computes nothing. The finding claims this time, without waits
// for other ranks if they are known. The advice is for the kind of collective that takes most of it.
func (c *ruleContext) findExposedComm() []analyze.Found {
	kernels, ns := 0, int64(0)
	by := map[analyze.CollectiveKind]int64{}
	s := c.newSites("kernel")
	c.eachSteadyOp(c.isComm, func(d *ruleDevice, g int32, op *model.GPU) {
		kernels++
		ns += op.Dur()
		by[c.x.CollectiveOf(g)] += op.Dur() - d.Compute.TotalIn(model.Span{Start: op.Start, End: op.End}) + 1
		s.add(analyze.ShortName(c.t.Name(op.Name)), op.Dur())
	})
	if kernels == 0 {
		return nil
	}
	exposed := c.exclusiveByDevice(c.isComm)
	split := c.subtractWaits(exposed)
	waited, calls := model.Spans(nil), 0
	if !split {
		waited, calls = c.findOutlyingWaits()
		for d := range exposed {
			exposed[d] = exposed[d].Minus(waited)
		}
	}
	alone := longestSpans(exposed)
	if alone.Total() == 0 {
		return nil
	}
	most := slices.SortedFunc(maps.Keys(by), func(a, b analyze.CollectiveKind) int { return cmp.Or(cmp.Compare(by[b], by[a]), cmp.Compare(a, b)) })[0]
	cl := c.claimGPU(func(d *ruleDevice) model.Spans { return exposed[d.Device] })
	f := c.newFinding(cl, fmt.Sprintf("communication runs alone for %s (%.0f %% of %s), most of it %s", c.formatPerStep(alone), c.percentOfStep(alone), c.nameWhole(), most))
	if calls > 0 {
		f.Title += fmt.Sprintf("; beside that %s in %s are waiting for another rank", c.formatPerStep(waited), analyze.Plural(calls, "collective", "collectives"))
		f.Evidence["waits_ns"], f.Evidence["waiting_collectives"] = waited.Total(), calls
	}
	f.Evidence["kernels"] = kernels
	f.Evidence["comm_ns"] = ns
	f.Evidence["exposed_ns"] = alone.Total()
	f.Evidence["exposed_percent"] = c.percentOfStep(alone)
	f.Evidence["collective"] = string(most)
	if c.t.World > 0 {
		f.Evidence["ranks"] = c.t.World
	}
	f.Sites = s.topSites()
	f.PyTorch = c.adviseCollective(most)
	if split {
		f.Evidence["without_waits_for_ranks"] = true
	} else {
		f.Caveats = append(f.Caveats, "a communication kernel also waits for the slowest rank: the traces of all ranks show the one that the others wait for")
	}
	return []analyze.Found{f}
}

// A collective counts as waiting for another rank if it takes at least outlying times as long as its bytes need at the
// median rate of its kind, and longestTransfer or more: equal bytes take about equal time over one link. A kind must
// have leastAlike collectives for a median.
const (
	outlying        = 10
	longestTransfer = 1_000_000 // ns
	leastAlike      = 4
	// outlyingUnsized replaces outlying in a recording without the sizes of collectives, because the sizes of one kind
	// may differ by this factor.
	outlyingUnsized = 50
)

// findOutlyingWaits returns the waits for other ranks within collectives, and the number of collectives that wait. The
// wait is the time beyond the transfer of the bytes at the median rate of the kind. Without recorded sizes, all
// collectives of a kind count as equally large.
func (c *ruleContext) findOutlyingWaits() (waits model.Spans, calls int) {
	details := c.t.CollectivesByCorr()
	elements := func(op *model.GPU) float64 {
		if m := details[op.Corr]; m != nil {
			return float64(m.In + m.Out)
		}
		return 1
	}
	times := float64(outlying)
	if len(details) == 0 {
		times = outlyingUnsized
	}
	kinds := map[analyze.CollectiveKind][]int32{}
	c.eachSteadyOp(c.isComm, func(_ *ruleDevice, g int32, op *model.GPU) {
		if elements(op) > 0 && op.Dur() > 0 {
			kinds[c.x.CollectiveOf(g)] = append(kinds[c.x.CollectiveOf(g)], g)
		}
	})
	for _, group := range kinds {
		var ns, each []int64 // ns per call; ns per million elements
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

func (c *ruleContext) isComm(g int32) bool {
	return c.t.GPU[g].Kind == model.Kernel && c.x.Class(g).Communicates()
}

const tensorParallel = "tensor or expert parallelism: fewer ranks share a layer, inside one machine, and larger batches; collectives that overlap the product (async tensor parallelism)"

func (c *ruleContext) adviseCollective(k analyze.CollectiveKind) string {
	switch k {
	case analyze.AllToAllCalls:
		return "all-to-all (experts, sequence parallelism): run it in chunks beside the computation of the chunk before, balance what the ranks send, and keep it inside one machine where possible"
	case analyze.SendReceiveCalls:
		return "pipeline: more and smaller micro-batches, an interleaved schedule (1F1B), and stages of equal length; send before the computation that does not need it"
	case analyze.AllGatherCalls, analyze.ReduceScatterCalls:
		if !c.isTraining() {
			return tensorParallel
		}
		return "sharded parameters (FSDP): prefetch the next ones (forward_prefetch=True, backward_prefetch=BackwardPrefetch.BACKWARD_PRE), larger units, or shard inside one machine only (HYBRID_SHARD)"
	case analyze.BroadcastCalls:
		return "send once what does not change; DistributedDataParallel(..., broadcast_buffers=False)"
	case analyze.AllReduceCalls:
		if c.isDataParallel() {
			return "DistributedDataParallel(..., bucket_cap_mb=..., gradient_as_bucket_view=True), gradient accumulation under model.no_sync(), and balanced work on all ranks"
		}
		return "tensor parallelism: fewer ranks share a layer, inside one machine; sequence parallelism (reduce-scatter and all-gather instead), or an all-reduce that overlaps the product (async tensor parallelism)"
	}
	return "start communication as early as its data is there, in pieces that overlap computation, and balance the work on all ranks"
}

// isDataParallel reports whether all-reduces carry gradients. They do if an event has a name of
// DistributedDataParallel, or if a training program launches at least half of its collectives in the backward pass or
// the optimizer.
func (c *ruleContext) isDataParallel() bool {
	for _, name := range c.t.Names {
		if strings.HasPrefix(name, "DistributedDataParallel") || strings.Contains(name, "torch::distributed::reducer") {
			return true
		}
	}
	if !c.isTraining() {
		return false
	}
	var forward, backward int
	launched := func(g int32) bool { return c.isComm(g) && c.t.GPU[g].Launch >= 0 }
	c.eachSteadyOp(launched, func(_ *ruleDevice, _ int32, op *model.GPU) {
		if c.x.InBackward(op.Launch) || c.x.InOptimizer(op.Launch) {
			backward++
		} else {
			forward++
		}
	})
	return backward >= forward
}
