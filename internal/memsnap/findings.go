package memsnap

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/gpuprof/gpuprof"
)

// Finding is a change to the program or its settings, with the largest possible reduction of a peak. Claims overlap, so
// they do not add up.
type Finding struct {
	Rule     string           `json:"rule"`
	Severity gpuprof.Severity `json:"severity"`
	Title    string           `json:"title"`  // one sentence
	Device   int              `json:"device"` // index into the devices
	// ClaimBytes is the largest reduction of the peak Of ("requested" or "reserved"), bytes; 0 without a claim.
	ClaimBytes int64          `json:"claim_bytes"`
	Of         string         `json:"of"`
	Share      float64        `json:"claim_share"` // share of that peak
	Evidence   map[string]any `json:"evidence"`
	Sites      []SiteBytes    `json:"sites,omitempty"`
	Caveats    []string       `json:"caveats,omitempty"`
	PyTorch    string         `json:"pytorch"` // the line to change
}

// Peaks to which a claim may refer.
const (
	ofRequested = "requested"
	ofReserved  = "reserved"
)

func (a *Analysis) findAll() {
	failed := slices.ContainsFunc(a.Devices, func(d Device) bool { return len(d.OOMs) > 0 })
	for i := range a.Devices {
		d := &a.Devices[i]
		if d.Peak.Requested == 0 && len(d.OOMs) == 0 {
			continue
		}
		c := &ruleInput{Device: d, r: d.Replay, a: d.account, kinds: d.kinds, failed: failed}
		for _, rule := range findingRules() {
			if f, ok := rule(c); ok {
				f.Device = i
				a.Findings = append(a.Findings, f.weighSeverity(d))
			}
		}
	}
	slices.SortStableFunc(a.Findings, func(x, y Finding) int {
		// Errors come first, then growth per step, then the other findings. Within a device the order is by share of
		// the peak, since claims refer to two peaks, of requested and of reserved bytes; a lower requested peak also
		// lowers the other.
		if o := cmp.Or(cmp.Compare(urgencyOf(x), urgencyOf(y)), cmp.Compare(severityRank(x.Severity), severityRank(y.Severity))); o != 0 || x.Device != y.Device {
			return cmp.Or(o, cmp.Compare(y.ClaimBytes, x.ClaimBytes))
		}
		return cmp.Compare(y.Share, x.Share)
	})
}

// urgencyOf returns the first sort key of findings: errors that ended the program, then leaks that will end it, then
// others.
func urgencyOf(f Finding) int {
	switch f.Rule {
	case gpuprof.RuleOutOfMemory:
		return 0
	case gpuprof.RuleLeak:
		return 1
	}
	return 2
}

func severityRank(s gpuprof.Severity) int {
	return slices.Index([]gpuprof.Severity{gpuprof.High, gpuprof.Medium, gpuprof.Low, gpuprof.Note}, s)
}

// Smallest shares of a peak for high and medium severity; a claim below trifleBytes has neither.
const (
	highPart    = 0.10
	mediumPart  = 0.03
	trifleBytes = 64 << 20
)

// weighSeverity sets share and severity of a finding. Out-of-memory errors and leaks always have high severity: even a
// small leak grows until memory runs out.
func (f Finding) weighSeverity(d *Device) Finding {
	peak := d.Peak.Requested
	if f.Of == ofReserved {
		peak = d.PeakReserved
	}
	if peak > 0 {
		f.Share = float64(f.ClaimBytes) / float64(peak)
	}
	switch {
	case f.Rule == gpuprof.RuleOutOfMemory || f.Rule == gpuprof.RuleLeak || f.Share >= highPart && f.ClaimBytes >= trifleBytes:
		f.Severity = gpuprof.High
	case f.Share >= mediumPart && f.ClaimBytes >= trifleBytes:
		f.Severity = gpuprof.Medium
	case f.ClaimBytes > 0:
		f.Severity = gpuprof.Low
	default:
		f.Severity = gpuprof.Note
	}
	return f
}

// ruleInput holds the data of one device that the finding rules read.
type ruleInput struct {
	*Device
	r     *Replay
	a     *momentBuilder
	kinds []Category
	// failed reports an out-of-memory error on any device, which ends the work on all devices.
	failed bool
}

func findingRules() []func(*ruleInput) (Finding, bool) {
	return []func(*ruleInput) (Finding, bool){findOutOfMemory, findLeak, findGradientHeld, findGradUnused, findSoftmaxKept, findAutocastKept, findPeakActivation, findLargeTemporary, findOptimizerState, findOptimizerTemporary, findFragmentation, findRounding, findWorkspace, findPendingFree, findPrivatePool, findCachedUnused, findEmptyCache, findAllocRetry, findSettingInert}
}

func (c *ruleInput) categoryOf(a *allocation) Category {
	if a.born == never {
		return c.a.kinds.classify(a)
	}
	_, row := c.r.eventRow(int(a.born))
	return c.kinds[row]
}

// claimBytes returns the largest reduction of the requested peak, bytes, if each allocation were freed at the event
// that cut returns or earlier. Event 0 frees memory from before the recording.
func (c *ruleInput) claimBytes(cut func(a *allocation, kind Category) uint32) int64 {
	change := map[int]int64{} // by event, at ends that are no event of the allocation, such as ends of steps
	by := int64(0)
	c.r.eachAlloc(func(a *allocation) {
		if a.born == never && cut(a, c.categoryOf(a)) == 0 {
			by -= int64(a.size)
		}
	})
	peak := c.r.Start.Requested + by
	c.r.eachEvent(func(event int, act Action, a *allocation, l Level, _ int64) {
		if act <= FreeCompleted && act != Unknown {
			size := int64(a.size)
			switch to := cut(a, c.categoryOf(a)); {
			case to >= a.done:
			case act == Alloc:
				if !c.r.isFreedAt(a) && a.done != never {
					change[int(a.done)] += size
				}
				if to != a.asked {
					change[int(to)] -= size
				}
			case act == FreeRequested && to == a.asked:
				by -= size
			case act == FreeCompleted:
				by += size
			}
		}
		by += change[event]
		delete(change, event)
		peak = max(peak, l.Requested+by)
	})
	return max(0, c.Peak.Requested-peak)
}

// claimWithout returns the largest reduction of the requested peak, bytes, if the matching allocations were never made.
func (c *ruleInput) claimWithout(matches func(a *allocation) bool) int64 {
	return c.claimBytes(func(a *allocation, _ Category) uint32 {
		if matches(a) {
			return a.born
		}
		return never
	})
}

// categoryClaim is claimBytes for the allocations of one category. If the category holds too few bytes at the peak, it
// skips the replay and returns a claim of 0.
func (c *ruleInput) categoryClaim(kind Category, cut func(a *allocation) uint32) (claim, held int64, sites []SiteBytes) {
	sites, held = c.peakLines(kind)
	if !c.isRelevant(held) {
		return 0, held, sites
	}
	return c.claimBytes(func(a *allocation, of Category) uint32 {
		if of != kind {
			return never
		}
		return cut(a)
	}), held, sites
}

// isRelevant reports whether bytes of the peak are worth a finding.
func (c *ruleInput) isRelevant(bytes int64) bool {
	return bytes > 0 && float64(bytes) >= mediumPart*float64(c.Peak.Requested)
}

// endOfStep returns the last event of an event's step; never (the constant) without steps.
func (c *ruleInput) endOfStep(event uint32) uint32 {
	k := c.r.stepOf(int(event))
	if k == 0 || event >= c.r.phases[k-1].Last {
		return never
	}
	return c.r.phases[k-1].Last
}

// peakLines returns the lines that hold a category at the peak, and the category's bytes.
func (c *ruleInput) peakLines(kind Category) (sites []SiteBytes, bytes int64) {
	for _, p := range c.Peak.Categories {
		if p.Category == kind.String() {
			bytes = p.Bytes
		}
	}
	for _, s := range c.Peak.Sites {
		if s.Category == kind.String() && len(sites) < 5 {
			s.Stack = nil
			sites = append(sites, s)
		}
	}
	return sites, bytes
}

func bytesText(n int64) string { return gpuprof.FormatBytes(float64(n)) }

func findOutOfMemory(c *ruleInput) (Finding, bool) {
	if len(c.OOMs) == 0 {
		return Finding{}, false
	}
	o := &c.OOMs[0]
	free := o.Reserved - o.Rounded
	f := Finding{Rule: gpuprof.RuleOutOfMemory, Of: ofReserved, Evidence: map[string]any{
		"request_bytes": o.Request, "reserved_bytes": o.Reserved, "live_bytes": o.Rounded, "device_free_bytes": o.DeviceFree, "free_largest_bytes": o.FreeLargest, "errors": len(c.OOMs) + c.MoreOOMs, "cause": o.Cause,
	}}
	largest := ""
	if len(o.Categories) > 0 && o.Categories[0].Category != "other" {
		largest = " The largest part is " + o.Categories[0].Category + "."
	}
	switch o.Cause {
	case CauseLive:
		short := o.Rounded + o.Request - o.Reserved - o.DeviceFree
		f.ClaimBytes, f.Evidence["short_bytes"] = min(short, o.Rounded), short
		f.Title = fmt.Sprintf("A request of %s failed because too much is live: beside %s of tensors it is %s too large.%s", bytesText(o.Request), bytesText(o.Rounded), bytesText(short), largest)
		f.PyTorch = "torch.utils.checkpoint around the layers that hold most, or a smaller batch"
	case CauseFragmented:
		f.ClaimBytes = free
		f.Title = fmt.Sprintf("A request of %s failed though %s were reserved and free: the largest piece has %s.", bytesText(o.Request), bytesText(free), bytesText(o.FreeLargest))
		f.Caveats = []string{"free memory of another stream or of a private pool cannot serve a request"}
		set := &c.r.S.Settings
		if f.PyTorch = set.expandableLine(); set.isExpandable() {
			f.PyTorch = fmt.Sprintf("ask for it in pieces of at most %s, or take a smaller batch: the allocator cannot move what lies between the pieces", bytesText(o.FreeLargest))
		}
		if served := c.addServing(&f); set.isExpandable() && !served {
			f.ClaimBytes = 0 // smaller pieces do not lower the peak
		}
	default:
		f.Title = fmt.Sprintf("A request of %s failed though the device had %s free: a limit of the process, such as set_per_process_memory_fraction, was reached.", bytesText(o.Request), bytesText(o.DeviceFree))
		f.PyTorch = "torch.cuda.set_per_process_memory_fraction(1.0)"
	}
	for _, s := range o.Sites[:min(len(o.Sites), 5)] {
		s.Stack = nil
		f.Sites = append(f.Sites, s)
	}
	return f, true
}

func findLeak(c *ruleInput) (Finding, bool) {
	if len(c.Growth) == 0 {
		return Finding{}, false
	}
	g := c.Growth[0]
	claim := c.claimBytes(func(a *allocation, _ Category) uint32 {
		if a.born == never || c.a.traitsOf(a).site != g.Where {
			return never
		}
		return c.endOfStep(a.born)
	})
	return Finding{Rule: gpuprof.RuleLeak, Of: ofRequested, ClaimBytes: min(claim, g.Last-g.First+int64(g.PerStep)),
		Title:    fmt.Sprintf("%s holds %s more after each of %d steps.", g.Where, bytesText(int64(g.PerStep)), g.Steps),
		Evidence: map[string]any{"bytes_per_step": g.PerStep, "after_second_step_bytes": g.First, "after_last_step_bytes": g.Last, "steps": g.Steps, "lines_that_grow": len(c.Growth)},
		PyTorch:  "losses.append(loss.detach())  # or loss.item(), so that no graph is kept",
		Caveats:  []string{"a cache that fills on purpose looks the same"}}, true
}

func findGradientHeld(c *ruleInput) (Finding, bool) {
	claim, held, sites := c.categoryClaim(Gradient, func(a *allocation) uint32 {
		switch {
		case a.born != never:
			return c.endOfStep(a.born)
		case a.done != never: // a gradient of the step before the recording
			return 0
		}
		return never
	})
	if !c.isRelevant(claim) {
		return Finding{}, false
	}
	return Finding{Rule: gpuprof.RuleGradientHeld, Of: ofRequested, ClaimBytes: claim, Sites: sites,
		Title:    fmt.Sprintf("Gradients of the step before, %s, are held while the forward pass fills memory.", bytesText(held)),
		Evidence: map[string]any{"gradient_bytes_at_peak": held},
		PyTorch:  "optimizer.zero_grad(set_to_none=True)  # right after optimizer.step()"}, true
}

// activationPart is the least share of activations in the peak for a finding.
const activationPart = 0.3

func findPeakActivation(c *ruleInput) (Finding, bool) {
	sites, held := c.peakLines(Activation)
	if len(sites) == 0 || float64(held) < activationPart*float64(c.Peak.Requested) {
		return Finding{}, false
	}
	claim := c.claimWithout(func(a *allocation) bool {
		return c.categoryOf(a) == Activation && c.a.traitsOf(a).site == sites[0].Where
	})
	return Finding{Rule: gpuprof.RulePeakActivation, Of: ofRequested, ClaimBytes: claim, Sites: sites,
		Title:    fmt.Sprintf("Activations take %s of the peak of %s, most of them at %s.", bytesText(held), bytesText(c.Peak.Requested), sites[0].Where),
		Evidence: map[string]any{"activation_bytes_at_peak": held, "largest_line_bytes": sites[0].Bytes},
		PyTorch:  "torch.utils.checkpoint.checkpoint(layer, x, use_reentrant=False)",
		Caveats:  []string{"the claim is for the largest line alone; checkpointing computes the forward pass of the layer again"}}, true
}

// A large temporary takes at least temporaryPart of the peak and lives at most temporaryLife of a step.
const (
	temporaryPart = 0.1
	temporaryLife = 0.01
)

func findLargeTemporary(c *ruleInput) (Finding, bool) {
	if len(c.r.phases) == 0 {
		return findAttentionTemporary(c)
	}
	step := float64(c.r.phases[len(c.r.phases)-1].Last) / float64(len(c.r.phases))
	var largest *allocation
	c.r.eachAlloc(func(a *allocation) {
		short := c.categoryOf(a) != Workspace && a.born != never && a.done != never && float64(a.done-a.born) < temporaryLife*step
		if short && a.liveAt(c.Peak.Event) && float64(a.size) >= temporaryPart*float64(c.Peak.Requested) && (largest == nil || a.size > largest.size) {
			largest = a
		}
	})
	if largest == nil {
		return Finding{}, false
	}
	where, stack := c.a.traitsOf(largest).site, c.r.S.originOf(largest).stack
	claim := c.claimWithout(func(a *allocation) bool { // also the same temporary in other steps
		return c.r.S.originOf(a).stack == stack && a.size == largest.size
	})
	if claim == 0 {
		return Finding{}, false
	}
	return Finding{Rule: gpuprof.RuleLargeTemporary, Of: ofRequested, ClaimBytes: claim,
		Title:    fmt.Sprintf("One temporary of %s at %s makes the peak and is freed after %d events.", bytesText(int64(largest.size)), where, largest.done-largest.born),
		Evidence: map[string]any{"block_bytes": int64(largest.size), "events": int(largest.done - largest.born)},
		Sites:    []SiteBytes{{Where: where, Category: c.categoryOf(largest).String(), Bytes: int64(largest.size), Blocks: 1}},
		PyTorch:  "compute it in chunks (for the loss: over the vocabulary or the batch), or in place"}, true
}

func findCachedUnused(c *ruleInput) (Finding, bool) {
	if len(c.r.phases) < 2 {
		return Finding{}, false
	}
	idle := c.r.idleSince(int(c.r.phases[len(c.r.phases)-2].Last))
	if float64(idle) < highPart*float64(c.End.Reserved) {
		return Finding{}, false
	}
	return Finding{Rule: gpuprof.RuleCachedUnused, Of: ofReserved, ClaimBytes: min(idle, c.PeakReserved),
		Title:    fmt.Sprintf("%s are reserved in segments that the last step did not use.", bytesText(idle)),
		Evidence: map[string]any{"idle_bytes": idle, "reserved_bytes_at_end": c.End.Reserved},
		PyTorch:  "torch.cuda.empty_cache()  # once, after the phase that needed the memory, and in no step",
		Caveats:  []string{"it helps other processes and later larger requests; the peak of this process stays"}}, true
}

// idleSince returns the bytes of segments that hold no block from an event to the end of the recording.
func (r *Replay) idleSince(event int) (bytes int64) {
	used := make([]bool, len(r.spans))
	r.eachAlloc(func(a *allocation) {
		if a.done != never && int(a.done) <= event {
			return
		}
		k, found := slices.BinarySearchFunc(r.spans, a.addr, func(g span, at uint64) int { return cmp.Compare(g.lo, at) })
		if !found {
			k--
		}
		if k >= 0 && a.addr < r.spans[k].hi {
			used[k] = true
		}
	})
	for k, g := range r.spans {
		if !used[k] && !g.exp {
			bytes += int64(g.hi - g.lo)
		}
	}
	return bytes
}

func findEmptyCache(c *ruleInput) (Finding, bool) {
	calls, steps, last := 0, map[int]bool{}, -2
	var bytes int64
	for i := range c.r.Events() {
		act, row := c.r.eventAt(i)
		if act != SegmentFree && act != SegmentUnmap || !c.a.traitsOf(row).empty {
			continue
		}
		if last != i-1 {
			calls++
		}
		last = i
		bytes += int64(row.size)
		steps[c.r.stepOf(i)] = true
	}
	delete(steps, 0)
	if len(steps) < 2 {
		return Finding{}, false
	}
	f := Finding{Rule: gpuprof.RuleEmptyCache, Of: ofReserved,
		Title:    fmt.Sprintf("torch.cuda.empty_cache() returned memory in %d of %d steps, and the steps after had to ask the driver again.", len(steps), len(c.r.phases)),
		Evidence: map[string]any{"calls_that_freed": calls, "returned_bytes": bytes, "steps": len(steps)},
		PyTorch:  "remove torch.cuda.empty_cache() from the loop"}
	if i := slices.IndexFunc(c.WhatIf, func(w WhatIf) bool { return w.Setting == noEmptyCache }); i >= 0 {
		own, w := &c.WhatIf[0], &c.WhatIf[i]
		f.Title += fmt.Sprintf(" Without it %s are reserved at most, in place of %s.", w.reservedText(), own.reservedText())
		f.Evidence["predicted_reserved_bytes"], f.Evidence["driver_calls"], f.Evidence["predicted_driver_calls"] = w.PeakReserved, own.DriverAllocs+own.DriverFrees, w.DriverAllocs+w.DriverFrees
	}
	return f, true
}
