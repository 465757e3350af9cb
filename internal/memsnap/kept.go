package memsnap

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/gpuprof/gpuprof"
)

// isKeptForBackward reports whether the backward pass frees an allocation of the forward pass.
func (c *ruleInput) isKeptForBackward(a *allocation) bool {
	from := c.r.S.originOf(a)
	return a.born != never && a.asked != never && c.r.Freed && c.a.traits[from.freedBy].autograd && !c.a.traits[from.stack].autograd
}

// peakSites adds up the matching allocations at the peak: the five largest lines, and the bytes of all.
func (c *ruleInput) peakSites(belongs func(a *allocation) bool) (sites []SiteBytes, bytes int64) {
	lines := map[string]*SiteBytes{}
	c.r.eachAlloc(func(a *allocation) {
		if !a.liveAt(c.Peak.Event) || !belongs(a) {
			return
		}
		bytes += int64(a.size)
		where := c.a.traitsOf(a).site
		if lines[where] == nil {
			lines[where] = &SiteBytes{Where: where, Category: c.categoryOf(a).String(), Step: c.r.stepOf(int(a.born))}
		}
		lines[where].Bytes += int64(a.size)
		lines[where].Blocks++
	})
	for _, s := range lines {
		sites = append(sites, *s)
	}
	slices.SortFunc(sites, func(x, y SiteBytes) int {
		return cmp.Or(cmp.Compare(y.Bytes, x.Bytes), cmp.Compare(x.Where, y.Where))
	})
	return sites[:min(len(sites), 5)], bytes
}

// softmaxChange returns the code change, by the caller of the softmax, that avoids keeping its results for the backward
// pass.
func softmaxChange(t *traits) string {
	switch {
	case t.sdpa:
		return "with torch.nn.attention.sdpa_kernel(SDPBackend.EFFICIENT_ATTENTION):  # 16 bits, no dense mask: its math form keeps the matrix"
	case t.vocabulary:
		return "compute the loss in chunks of the batch or of the vocabulary"
	case t.attention:
		return "F.scaled_dot_product_attention(q, k, v)  # its fused forms keep no matrix; is_causal=True where the mask is causal"
	}
	return "torch.utils.checkpoint.checkpoint(layer, x, use_reentrant=False)  # around the softmax and what reads it"
}

// findSoftmaxKept finds softmax results kept for the backward pass, for example by attention without a fused kernel. If
// several uses need different changes, it reports the use that holds most: no change removes the results of another
// use.
func findSoftmaxKept(c *ruleInput) (Finding, bool) {
	held := map[string]int64{} // bytes by change
	c.r.eachAlloc(func(a *allocation) {
		if t := c.a.traitsOf(a); t.softmax && a.liveAt(c.Peak.Event) && c.isKeptForBackward(a) {
			held[softmaxChange(t)] += int64(a.size)
		}
	})
	change := ""
	for _, k := range slices.Sorted(maps.Keys(held)) {
		if change == "" || held[k] > held[change] {
			change = k
		}
	}
	belongs := func(a *allocation) bool {
		t := c.a.traitsOf(a)
		return t.softmax && softmaxChange(t) == change && c.isKeptForBackward(a)
	}
	if !c.isRelevant(held[change]) {
		return Finding{}, false
	}
	claim := c.claimWithout(belongs)
	if !c.isRelevant(claim) {
		return Finding{}, false
	}
	sites, _ := c.peakSites(belongs)
	return Finding{Rule: gpuprof.RuleSoftmaxKept, Of: ofRequested, ClaimBytes: claim, Sites: sites, PyTorch: change,
		Title:    fmt.Sprintf("Results of softmax, %s at the peak of %s, are kept for the backward pass.", bytesText(held[change]), bytesText(c.Peak.Requested)),
		Evidence: map[string]any{"softmax_bytes_at_peak": held[change]}}, true
}

// findAttentionTemporary finds unfused attention without a backward pass, which holds several score matrices at once.
// It counts the allocations by the softmax's caller that have the size of the softmax result, or half of it (before a
// cast).
func findAttentionTemporary(c *ruleInput) (Finding, bool) {
	type matrix struct {
		function string
		size     uint64
	}
	softmax, product, named := map[matrix]bool{}, map[matrix]bool{}, map[string]bool{}
	passing := func(a *allocation) (*traits, bool) {
		t := c.a.traitsOf(a)
		return t, a.born != never && a.done != never && !t.sdpa && !t.vocabulary && !c.isKeptForBackward(a)
	}
	c.r.eachAlloc(func(a *allocation) {
		t, passes := passing(a)
		if m := (matrix{t.function, a.size}); passes && t.softmax {
			softmax[m], softmax[matrix{t.function, a.size / 2}] = true, true
			named[t.function] = named[t.function] || t.attention
		} else if passes && t.product {
			product[m] = true
		}
	})
	for m := range product {
		named[m.function] = named[m.function] || softmax[m] // the scores, whatever the function is called
	}
	belongs := func(a *allocation) bool {
		t, passes := passing(a)
		return passes && named[t.function] && softmax[matrix{t.function, a.size}]
	}
	sites, held := c.peakSites(belongs)
	if float64(held) < temporaryPart*float64(c.Peak.Requested) {
		return Finding{}, false
	}
	claim := c.claimWithout(belongs)
	if !c.isRelevant(claim) {
		return Finding{}, false
	}
	return Finding{Rule: gpuprof.RuleLargeTemporary, Of: ofRequested, ClaimBytes: claim, Sites: sites,
		Title:    fmt.Sprintf("The scores of attention and their softmax hold %s of temporaries at the peak of %s.", bytesText(held), bytesText(c.Peak.Requested)),
		Evidence: map[string]any{"softmax_bytes_at_peak": held},
		PyTorch:  "F.scaled_dot_product_attention(q, k, v)  # its fused forms keep no matrix; is_causal=True where the mask is causal"}, true
}

// findAutocastKept finds casts that live until an autocast block ends, or until a recording without a backward pass
// ends.
func findAutocastKept(c *ruleInput) (Finding, bool) {
	backwards := c.backwardStarts()
	belongs := func(a *allocation) bool {
		from := c.r.S.originOf(a)
		if a.born == never || !c.a.traits[from.stack].cast {
			return false
		}
		return a.asked != never && c.r.Freed && c.a.traits[from.freedBy].clearsCasts || a.asked == never && len(backwards) == 0
	}
	sites, held := c.peakSites(belongs)
	if !c.isRelevant(held) {
		return Finding{}, false
	}
	claim := c.claimBytes(func(a *allocation, _ Category) uint32 {
		if !belongs(a) {
			return never
		}
		if len(backwards) == 0 {
			return a.born
		}
		for _, at := range backwards { // the backward pass reads the casts
			if at > a.born {
				return at
			}
		}
		return never
	})
	if !c.isRelevant(claim) {
		return Finding{}, false
	}
	f := Finding{Rule: gpuprof.RuleAutocastKept, Of: ofRequested, ClaimBytes: claim, Sites: sites,
		Title:    fmt.Sprintf("Autocast keeps %s of casts of weights until its block ends.", bytesText(held)),
		Evidence: map[string]any{"cast_bytes_at_peak": held},
		PyTorch:  "loss.backward()  # after the with torch.autocast(...) block, not in it",
		Caveats:  []string{"with cache_enabled=False a weight that several layers share is cast for each"}}
	_, left := c.peakSites(func(a *allocation) bool { return belongs(a) && a.asked == never })
	if len(backwards) == 0 {
		f.PyTorch = "torch.autocast(\"cuda\", cache_enabled=False)  # or torch.inference_mode() around it, under which no cast is kept"
	}
	if 2*left > held {
		f.Title = fmt.Sprintf("Casts of autocast take %s and are kept until the recording ends, without a backward pass.", bytesText(held))
		f.PyTorch = "with torch.inference_mode():  # around a forward pass that no backward pass follows: no cast is kept"
		f.Caveats = []string{"a backward pass after the end of the recording would read casts of activations"}
	}
	return f, true
}

// backwardStarts returns the events at which backward passes begin to allocate, in order.
func (c *ruleInput) backwardStarts() (starts []uint32) {
	inside := false
	for i := range c.r.Events() {
		act, row := c.r.eventAt(i)
		if act != Alloc {
			continue
		}
		back := c.a.traitsOf(row).autograd
		if back && !inside {
			starts = append(starts, uint32(i))
		}
		inside = back
	}
	return starts
}

func (c *ruleInput) hasBackward() (has bool) {
	c.r.eachAlloc(func(a *allocation) { has = has || a.born != never && c.a.traitsOf(a).autograd })
	return has
}

// A forward pass that records an autograd graph keeps at least these amounts: graphResults, a share of its modules'
// results; graphPeak, a share of the peak; graphBlocks, a number of blocks.
const (
	// graphResultsSeen replaces graphResults if C++ frames of the frees show the graph. It is lower, since modules can
	// free as many temporaries as they keep results. Hooks that collect results without a graph keep 5 of 12.
	graphResults, graphResultsSeen = 0.6, 0.4
	// leastInGraph is the smallest share of kept blocks that the graph itself must free. The program has references to
	// the remaining blocks.
	leastInGraph = 0.5
	graphPeak    = 0.5
	graphBlocks  = 8
	// oneStack is the largest share of kept blocks from one line. A larger share means that the program collects
	// outputs of many passes.
	oneStack = 0.75
)

// findGradUnused finds a forward pass that keeps results for a backward pass that never runs. It skips programs that
// failed, since an out-of-memory error also prevents the backward pass.
func findGradUnused(c *ruleInput) (Finding, bool) {
	if !c.r.Stacks || c.failed || c.r.hasOptimizerSteps() || c.hasBackward() {
		return Finding{}, false
	}
	bursts := c.largeBursts()
	belongs := func(a *allocation) bool {
		if a.born == never || a.asked == never || !c.a.traitsOf(a).module {
			return false
		}
		k, found := slices.BinarySearchFunc(bursts, a.asked, func(b burst, at uint32) int { return cmp.Compare(b.first, at) })
		return found || k > 0 && a.asked <= bursts[k-1].last
	}
	sites, kept := c.peakSites(belongs)
	n := c.countKept(bursts, belongs)
	if n.blocks < graphBlocks*len(bursts) || n.blocks == 0 || float64(kept) < graphPeak*float64(c.Peak.Requested) || !n.showGraph() {
		return Finding{}, false
	}
	claim := c.claimWithout(belongs)
	return Finding{Rule: gpuprof.RuleGradUnused, Of: ofRequested, ClaimBytes: claim, Sites: sites,
		Title: fmt.Sprintf("A forward pass keeps %s in %d blocks until its output is dropped, as for a backward pass; the recording has none.",
			bytesText(kept), n.blocks/len(bursts)),
		Evidence: map[string]any{"kept_bytes_at_peak": kept, "forward_passes": len(bursts), "blocks_freed_in_one_go": n.blocks, "results_of_module_calls": n.results},
		PyTorch:  "with torch.inference_mode():  # around the forward pass; or torch.no_grad()",
		Caveats:  []string{"a result that the next layer reads takes memory in any case"}}, claim > 0
}

// keptCount counts the blocks freed in bursts, and the module results from before the last burst.
type keptCount struct {
	blocks, results int
	native, graph   int // blocks whose free has C++ frames, and frames of the graph
	oneStack        int // blocks of the most frequent stack
}

func (c *ruleInput) countKept(bursts []burst, belongs func(*allocation) bool) (n keptCount) {
	byStack := map[uint32]int{}
	var last uint32
	if len(bursts) > 0 {
		last = bursts[len(bursts)-1].last
	}
	c.r.eachAlloc(func(a *allocation) {
		if belongs(a) {
			n.blocks++
			stack := c.r.S.originOf(a).stack
			byStack[stack]++
			n.oneStack = max(n.oneStack, byStack[stack])
			if freed := c.freeTraits(a); freed != nil && freed.native {
				n.native++
				if freed.graph {
					n.graph++
				}
			}
		}
		if a.born != never && a.born < last && c.a.traitsOf(a).module {
			n.results++
		}
	})
	return n
}

// showGraph reports whether the blocks are results that a graph keeps: the graph frees them, or they are most of the
// results. Blocks from a single line are collected outputs instead.
func (n keptCount) showGraph() bool {
	least := graphResults
	if 2*n.native > n.blocks {
		if float64(n.graph) < leastInGraph*float64(n.blocks) {
			return false
		}
		least = graphResultsSeen
	}
	return float64(n.blocks) >= least*float64(n.results) && float64(n.oneStack) <= oneStack*float64(n.blocks)
}

// freeTraits returns the traits of the stack that frees an allocation, nil if the snapshot has no stacks of frees.
func (c *ruleInput) freeTraits(a *allocation) *traits {
	if !c.r.Freed || a.asked == never {
		return nil
	}
	return &c.a.traits[c.r.S.originOf(a).freedBy]
}

// burst is a series of frees without a request between them, as a range of events.
type burst struct {
	first, last uint32
	bytes       int64 // of module results
}

// largeBursts returns the bursts that free at least half as much as the largest, in order.
func (c *ruleInput) largeBursts() (large []burst) {
	var most int64
	c.eachBurst(func(b burst) { most = max(most, b.bytes) })
	c.eachBurst(func(b burst) {
		if b.bytes >= most/2 {
			large = append(large, b)
		}
	})
	return large
}

func (c *ruleInput) eachBurst(do func(burst)) {
	var b burst
	for i := range c.r.Events() {
		act, row := c.r.eventAt(i)
		switch {
		case act == Alloc || act == OOM:
			if b.bytes > 0 {
				do(b)
			}
			b = burst{}
		case act == FreeRequested && row.born != never && c.a.traitsOf(row).module:
			if b.bytes == 0 {
				b.first = uint32(i)
			}
			b.last, b.bytes = uint32(i), b.bytes+int64(row.size)
		}
	}
	if b.bytes > 0 {
		do(b)
	}
}
