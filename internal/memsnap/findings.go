package memsnap

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/gpuprof/gpuprof"
)

// Finding is one thing to change, and how much lower a peak can be by it at most.
// Claims are alternatives and not a sum: the same bytes can be in several.
type Finding struct {
	Rule     string           `json:"rule"`
	Severity gpuprof.Severity `json:"severity"`
	Title    string           `json:"title"`  // one sentence
	Device   int              `json:"device"` // index into the devices
	// ClaimBytes is the most that the change saves of the peak that Of names:
	// "requested" or "reserved"; 0: nothing is claimed.
	ClaimBytes int64          `json:"claim_bytes"`
	Of         string         `json:"of"`
	Share      float64        `json:"claim_share"` // of that peak
	Evidence   map[string]any `json:"evidence"`
	Sites      []SiteBytes    `json:"sites,omitempty"`
	Caveats    []string       `json:"caveats,omitempty"`
	PyTorch    string         `json:"pytorch"` // the line to change
}

// What a claim is of.
const (
	ofRequested = "requested"
	ofReserved  = "reserved"
)

// find looks for every rule on every device.
func (a *Analysis) find() {
	for i := range a.Devices {
		d := &a.Devices[i]
		c := &caseOf{Device: d, r: d.Replay, a: d.account, kinds: d.kinds}
		for _, rule := range rules() {
			if f, ok := rule(c); ok {
				f.Device = i
				a.Findings = append(a.Findings, f.weighed(d))
			}
		}
	}
	slices.SortStableFunc(a.Findings, func(x, y Finding) int {
		// An out-of-memory error comes first, whatever could be saved beside it.
		return cmp.Or(cmp.Compare(notOOM(x), notOOM(y)), cmp.Compare(severityRank(x.Severity), severityRank(y.Severity)), cmp.Compare(y.ClaimBytes, x.ClaimBytes))
	})
}

func notOOM(f Finding) int {
	if f.Rule == gpuprof.RuleOutOfMemory {
		return 0
	}
	return 1
}

func severityRank(s gpuprof.Severity) int {
	return slices.Index([]gpuprof.Severity{gpuprof.High, gpuprof.Medium, gpuprof.Low, gpuprof.Note}, s)
}

// The parts of a peak from which on a claim is of high and of medium severity, and the bytes
// below which it is of neither.
const (
	highPart    = 0.10
	mediumPart  = 0.03
	trifleBytes = 64 << 20
)

// weighed is a finding with its share and severity. An out-of-memory error is always high.
func (f Finding) weighed(d *Device) Finding {
	peak := d.Peak.Requested
	if f.Of == ofReserved {
		peak = d.PeakReserved
	}
	if peak > 0 {
		f.Share = float64(f.ClaimBytes) / float64(peak)
	}
	switch {
	case f.Rule == gpuprof.RuleOutOfMemory || f.Share >= highPart && f.ClaimBytes >= trifleBytes:
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

// caseOf is what a rule looks at.
type caseOf struct {
	*Device
	r     *Replay
	a     *account
	kinds []Category
}

// rules are the rules in the order in which they are looked for.
func rules() []func(*caseOf) (Finding, bool) {
	return []func(*caseOf) (Finding, bool){outOfMemory, leak, gradientHeld, gradUnused, softmaxKept, autocastKept, peakActivation, largeTemporary, optimizerState, optimizerTemporary, fragmentation, rounding, workspace, pendingFree, privatePool, cachedUnused, emptyCache, allocRetry, settingInert}
}

// kind is the category of an allocation of the trace or from before it.
func (c *caseOf) kind(a *allocation) Category {
	if a.born == never {
		return BeforeRecording
	}
	w := *c.r.S.events.at(c.r.part.first + int(a.born))
	return c.kinds[w&allocMask]
}

// claim is how much lower the peak of requested bytes would be at most if memory lived
// until the events that cut gives, never later than it did.
func (c *caseOf) claim(cut func(a *allocation, kind Category) uint32) int64 {
	change := map[int]int64{} // at the few events that are no allocation's own, as ends of steps
	peak, by := c.r.Start.Requested, int64(0)
	c.r.each(func(event int, act Action, a *allocation, l Level, _ int64) {
		if act <= FreeCompleted && act != Unknown && a.born != never {
			size := int64(a.size)
			switch to := cut(a, c.kind(a)); {
			case to >= a.done:
			case act == Alloc:
				if !c.r.freedAt(a) && a.done != never {
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

// claimOf is claim for memory of one category, with what it holds at the peak. No claim is
// more than that, so where that is little a long recording is not replayed.
func (c *caseOf) claimOf(kind Category, cut func(a *allocation) uint32) (claim, held int64, sites []SiteBytes) {
	sites, held = c.atPeak(kind)
	if !c.matters(held) {
		return 0, held, sites
	}
	return c.claim(func(a *allocation, of Category) uint32 {
		if of != kind {
			return never
		}
		return cut(a)
	}), held, sites
}

// matters says that so many bytes of the peak are worth a finding.
func (c *caseOf) matters(bytes int64) bool {
	return bytes > 0 && float64(bytes) >= mediumPart*float64(c.Peak.Requested)
}

// endOfStep is the event with which the step of another event ends; never without steps.
func (c *caseOf) endOfStep(event uint32) uint32 {
	k := c.r.stepOf(int(event))
	if k == 0 || event >= c.r.phases[k-1].Last {
		return never
	}
	return c.r.phases[k-1].Last
}

// atPeak are the lines that hold a category at the peak, and their bytes.
func (c *caseOf) atPeak(kind Category) (sites []SiteBytes, bytes int64) {
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

func outOfMemory(c *caseOf) (Finding, bool) {
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
		if f.PyTorch = set.expandable(); set.isExpandable() {
			f.PyTorch = fmt.Sprintf("ask for it in pieces of at most %s, or take a smaller batch: the allocator cannot move what lies between the pieces", bytesText(o.FreeLargest))
		}
		if served := c.served(&f); set.isExpandable() && !served {
			f.ClaimBytes = 0 // smaller pieces lower no peak
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

func leak(c *caseOf) (Finding, bool) {
	if len(c.Growth) == 0 {
		return Finding{}, false
	}
	g := c.Growth[0]
	claim := c.claim(func(a *allocation, _ Category) uint32 {
		if a.born == never || c.a.of(a).site != g.Where {
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

func gradientHeld(c *caseOf) (Finding, bool) {
	claim, held, sites := c.claimOf(Gradient, func(a *allocation) uint32 { return c.endOfStep(a.born) })
	if !c.matters(claim) {
		return Finding{}, false
	}
	return Finding{Rule: gpuprof.RuleGradientHeld, Of: ofRequested, ClaimBytes: claim, Sites: sites,
		Title:    fmt.Sprintf("Gradients of the step before, %s, are held while the forward pass fills memory.", bytesText(held)),
		Evidence: map[string]any{"gradient_bytes_at_peak": held},
		PyTorch:  "optimizer.zero_grad(set_to_none=True)  # right after optimizer.step()"}, true
}

// activationPart is the part of the peak from which on activations are worth a finding.
const activationPart = 0.3

func peakActivation(c *caseOf) (Finding, bool) {
	sites, held := c.atPeak(Activation)
	if len(sites) == 0 || float64(held) < activationPart*float64(c.Peak.Requested) {
		return Finding{}, false
	}
	claim := c.claim(func(a *allocation, kind Category) uint32 {
		if kind != Activation || c.a.of(a).site != sites[0].Where {
			return never
		}
		return a.born
	})
	return Finding{Rule: gpuprof.RulePeakActivation, Of: ofRequested, ClaimBytes: claim, Sites: sites,
		Title:    fmt.Sprintf("Activations take %s of the peak of %s, most of them at %s.", bytesText(held), bytesText(c.Peak.Requested), sites[0].Where),
		Evidence: map[string]any{"activation_bytes_at_peak": held, "largest_line_bytes": sites[0].Bytes},
		PyTorch:  "torch.utils.checkpoint.checkpoint(layer, x, use_reentrant=False)",
		Caveats:  []string{"the claim is for the largest line alone; checkpointing computes the forward pass of the layer again"}}, true
}

// A large temporary has at least this part of the peak and at most this part of a step.
const (
	temporaryPart = 0.1
	temporaryLife = 0.01
)

func largeTemporary(c *caseOf) (Finding, bool) {
	if len(c.r.phases) == 0 {
		return Finding{}, false
	}
	step := float64(c.r.phases[len(c.r.phases)-1].Last) / float64(len(c.r.phases))
	var largest *allocation
	c.r.rows(func(a *allocation) {
		short := c.kind(a) != Workspace && a.born != never && a.done != never && float64(a.done-a.born) < temporaryLife*step
		if short && a.liveAt(c.Peak.Event) && float64(a.size) >= temporaryPart*float64(c.Peak.Requested) && (largest == nil || a.size > largest.size) {
			largest = a
		}
	})
	if largest == nil {
		return Finding{}, false
	}
	where, stack := c.a.of(largest).site, c.r.S.origin(largest).stack
	claim := c.claim(func(a *allocation, _ Category) uint32 {
		if c.r.S.origin(a).stack == stack && a.size == largest.size {
			return a.born // the same one of other steps
		}
		return never
	})
	if claim == 0 {
		return Finding{}, false
	}
	return Finding{Rule: gpuprof.RuleLargeTemporary, Of: ofRequested, ClaimBytes: claim,
		Title:    fmt.Sprintf("One temporary of %s at %s makes the peak and is freed after %d events.", bytesText(int64(largest.size)), where, largest.done-largest.born),
		Evidence: map[string]any{"block_bytes": int64(largest.size), "events": int(largest.done - largest.born)},
		Sites:    []SiteBytes{{Where: where, Category: c.kind(largest).String(), Bytes: int64(largest.size), Blocks: 1}},
		PyTorch:  "compute it in chunks (for the loss: over the vocabulary or the batch), or in place"}, true
}

func cachedUnused(c *caseOf) (Finding, bool) {
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

// idleSince are the bytes of whole segments at the end that no block was in since an event.
func (r *Replay) idleSince(event int) (bytes int64) {
	used := make([]bool, len(r.spans))
	r.rows(func(a *allocation) {
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

func emptyCache(c *caseOf) (Finding, bool) {
	calls, steps, last := 0, map[int]bool{}, -2
	var bytes int64
	for i := range c.r.Events() {
		act, row := c.r.word(i)
		if act != SegmentFree && act != SegmentUnmap || !c.a.of(row).empty {
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
		f.Title += fmt.Sprintf(" Without it %s are reserved at most, in place of %s.", w.reserved(), own.reserved())
		f.Evidence["predicted_reserved_bytes"], f.Evidence["driver_calls"], f.Evidence["predicted_driver_calls"] = w.PeakReserved, own.DriverAllocs+own.DriverFrees, w.DriverAllocs+w.DriverFrees
	}
	return f, true
}
