package memsnap

import (
	"fmt"
	"slices"

	"github.com/gpuprof/gpuprof"
)

// leastRetries is the smallest number of retries (requests that succeed only after cached memory went back to the
// driver) that makes a finding. One is usual, when a program first reaches the device's limit.
const leastRetries = 2

// findAllocRetry finds requests for which the allocator first returned cached memory to the driver; each of them waits
// for the device.
func findAllocRetry(c *ruleInput) (Finding, bool) {
	retries, steps := 0, map[int]bool{}
	var returned, burst int64
	var first *allocation // first segment returned for the current request
	grew := false
	for i := range c.r.Events() {
		act, row := c.r.eventAt(i)
		switch {
		case act == SegmentFree || act == SegmentUnmap:
			if first == nil || grew { // a request returns memory before it gets new memory
				first, burst, grew = row, 0, false
			}
			burst += int64(row.size)
			continue
		case act.isSegmentCall():
			grew = true
			continue
		case act == Alloc && first != nil && grew && c.r.S.originOf(first).stack == c.r.S.originOf(row).stack && !c.a.traitsOf(first).empty:
			retries++
			returned += burst
			steps[c.r.stepOf(i)] = true
		}
		first, grew = nil, false
	}
	if retries < leastRetries {
		return Finding{}, false
	}
	f := Finding{Rule: gpuprof.RuleAllocRetry, Of: ofReserved,
		Title:    fmt.Sprintf("%d requests found no memory until cached segments, %s in all, were returned to the driver, for which each waited for the device.", retries, bytesText(returned)),
		Evidence: map[string]any{"retries": retries, "returned_bytes": returned},
		Caveats:  []string{"time is claimed by no snapshot; gpuprof run without --memory shows it"}}
	delete(steps, 0)
	if len(steps) > 0 {
		f.Evidence["steps"] = len(steps)
	}
	set := &c.r.S.Settings
	switch best := c.bestSetting(); {
	case best != nil:
		f.PyTorch = best.confLine(set)
	case set.isExpandable():
		f.PyTorch = "a smaller batch, or torch.utils.checkpoint around the layers that hold most"
	default:
		f.PyTorch = set.expandableLine()
	}
	return f, true
}

// leastSlack is the smallest share of live memory lost to rounding that makes a finding.
const leastSlack = 0.05

// findRounding finds the bytes that the allocator adds to requests by rounding.
func findRounding(c *ruleInput) (Finding, bool) {
	set := c.r.S.Settings
	plain := Settings{}
	var asked, taken, least int64
	c.r.eachAlloc(func(a *allocation) {
		if a.liveAt(c.Peak.Event) {
			asked += int64(a.size)
			taken += int64(set.roundSize(a.size))
			least += int64(plain.roundSize(a.size))
		}
	})
	f := Finding{Rule: gpuprof.RuleRounding, Of: ofReserved, Evidence: map[string]any{"requested_bytes": asked, "rounded_bytes": taken, "rounded_to_512_bytes": least}}
	switch {
	case float64(taken-least) >= leastSlack*float64(taken):
		f.ClaimBytes = min(taken-least, c.PeakReserved)
		f.Title = fmt.Sprintf("roundup_power2_divisions adds %s to the %s of live tensors at the peak.", bytesText(taken-least), bytesText(asked))
		f.PyTorch = allocConf + set.removeSetting(roundName) + "  # without " + roundName
		f.Caveats = []string{"fewer sizes let blocks serve again; without the setting more segments can be needed"}
		if i := slices.IndexFunc(c.WhatIf, func(w WhatIf) bool { return w.Setting == withoutPrefix+roundName }); i >= 0 {
			f.ClaimBytes = c.WhatIf[0].PeakReserved - c.WhatIf[i].LeastReserved
			f.Evidence["predicted_reserved_bytes"] = c.WhatIf[i].PeakReserved
			f.Caveats = nil
		}
		return f, f.ClaimBytes > 0
	case float64(least-asked) >= leastSlack*float64(taken):
		f.ClaimBytes = min(least-asked, c.PeakReserved)
		f.Title = fmt.Sprintf("%d live tensors at the peak take %s, and asked for %s: the allocator's blocks are multiples of 512 bytes.", c.peakBlocks(), bytesText(taken), bytesText(asked))
		f.PyTorch = "torch.cat of many small tensors into one, with views of it  # for states: optimizers with foreach=True keep their own"
		return f, true
	}
	return Finding{}, false
}

func (c *ruleInput) peakBlocks() (n int) {
	for _, p := range c.Peak.Categories {
		n += p.Blocks
	}
	return n
}

func findWorkspace(c *ruleInput) (Finding, bool) {
	claim, held, sites := c.categoryClaim(Workspace, func(a *allocation) uint32 { return a.born })
	if !c.isRelevant(claim) {
		return Finding{}, false
	}
	return Finding{Rule: gpuprof.RuleWorkspace, Of: ofRequested, ClaimBytes: claim, Sites: sites,
		Title:    fmt.Sprintf("Workspaces of libraries hold %s at the peak of %s.", bytesText(held), bytesText(c.Peak.Requested)),
		Evidence: map[string]any{"workspace_bytes_at_peak": held},
		PyTorch:  "CUBLAS_WORKSPACE_CONFIG=:4096:2  # 8 MiB for each handle and stream, in place of the default",
		Caveats:  []string{"with a smaller workspace a library can choose slower kernels: measure the step too"}}, true
}

// findPendingFree finds freed memory that work on another stream still uses.
func findPendingFree(c *ruleInput) (Finding, bool) {
	sites, pending := c.peakSites(func(a *allocation) bool { return a.asked != never && int(a.asked) <= c.Peak.Event })
	// The claim is at most the pending bytes. Small amounts need no replay.
	if !c.isRelevant(pending) {
		return Finding{}, false
	}
	claim := c.claimBytes(func(a *allocation, _ Category) uint32 { return a.asked })
	if !c.isRelevant(claim) {
		return Finding{}, false
	}
	return Finding{Rule: gpuprof.RulePendingFree, Of: ofRequested, ClaimBytes: claim, Sites: sites,
		Title:    fmt.Sprintf("%s at the peak were freed and wait for work of another stream (record_stream).", bytesText(pending)),
		Evidence: map[string]any{"pending_bytes_at_peak": pending},
		PyTorch:  "torch.cuda.current_stream().wait_stream(side)  # before the tensor is freed, in place of tensor.record_stream(side)",
		Caveats:  []string{"the stream that waits can take longer"}}, true
}

// findPrivatePool finds the free memory in private pools (of CUDA graphs) that would be saved if they shared one pool.
func findPrivatePool(c *ruleInput) (Finding, bool) {
	type held struct{ total, live int64 }
	pools := map[[2]uint64]*held{}
	for i := range c.r.S.Segments {
		g := &c.r.S.Segments[i]
		if g.Device != c.r.Device || g.Pool == [2]uint64{} {
			continue
		}
		if pools[g.Pool] == nil {
			pools[g.Pool] = &held{}
		}
		pools[g.Pool].total += int64(g.Total)
		for _, b := range c.r.S.Blocks(g) {
			if b.State != Inactive {
				pools[g.Pool].live += int64(b.Size)
			}
		}
	}
	var total, free, largest int64
	for _, h := range pools {
		total, free, largest = total+h.total, free+h.total-h.live, max(largest, h.total)
	}
	claim := min(free, total-largest)
	if float64(claim) < mediumPart*float64(c.End.Reserved) || claim <= 0 {
		return Finding{}, false
	}
	return Finding{Rule: gpuprof.RulePrivatePool, Of: ofReserved, ClaimBytes: min(claim, c.PeakReserved),
		Title:    fmt.Sprintf("%d private pools, as of CUDA graphs, reserve %s, of which %s are free and serve no other pool.", len(pools), bytesText(total), bytesText(free)),
		Evidence: map[string]any{"pools": len(pools), "pool_reserved_bytes": total, "pool_free_bytes": free, "largest_pool_bytes": largest},
		PyTorch:  "torch.cuda.graph(second, pool=first.pool())  # graphs that are replayed in the order of their capture",
		Caveats:  []string{"counted at the end of the recording; graphs that run at once cannot share a pool"}}, true
}
