package rules

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

const (
	// leastDecodeSteps is the least number of decode steps for a median.
	leastDecodeSteps = 3
	// leastEager is the least share of decode steps that must run without a CUDA graph for a finding.
	leastEager = 0.1
	// leastEagerKernels is the least number of kernels in a decode step for which a CUDA graph matters.
	leastEagerKernels = 10
	// leastPause is the least share of the time from the first to the last step in which the device must idle between
	// steps for a finding.
	leastPause = 0.03
)

// newEngineFinding makes a finding about the serving engine, with a setting of that engine as advice if known.
func (c *ruleContext) newEngineFinding(cl claim, what string) analyze.Found {
	f := c.newFinding(cl, what)
	f.PyTorch, f.AnyProgram = cmp.Or(c.adviseEngine(c.rule.id), analyze.NoChange), true
	return f
}

// stepWork is the work that a serving step launches on one device.
type stepWork struct {
	kernels, inGraph int
	began, ended     int64 // start of the first and end of the last operation; 0 without operations
}

// sumServingWork returns the work of each step on a device, by index in Steps; nil if the program serves no requests.
func (c *ruleContext) sumServingWork(d *ruleDevice) []stepWork {
	if c.x.Recording.Serving == "" {
		return nil
	}
	out := make([]stepWork, len(c.x.Steps))
	for _, g := range d.Ops {
		op := &c.t.GPU[g]
		if op.Launch < 0 {
			continue
		}
		k := c.x.StepAt(c.t.Host[op.Launch].Start)
		if k < 0 {
			continue
		}
		w := &out[k]
		if w.ended == 0 {
			w.began = op.Start
		}
		w.began, w.ended = min(w.began, op.Start), max(w.ended, op.End)
		if op.Kind == model.Kernel {
			w.kernels++
			if c.isGraphOp(op) {
				w.inGraph++
			}
		}
	}
	return out
}

// findPrefillInDecode reports steps with requests in prefill between decode steps: running requests wait longer for
// their next token. The finding claims no time, because the tokens of prefill must be computed in some step.
func (c *ruleContext) findPrefillInDecode() []analyze.Found {
	var decode, mixed, alone []int64
	last := -1 // index of the last step that decodes
	for k := range c.x.Steps {
		if c.x.Steps[k].Decode > 0 {
			last = k
		}
	}
	running := false
	for k := range c.x.Steps {
		s := &c.x.Steps[k]
		between := running && k < last
		running = s.Decode > 0 || running && s.OnlyPrefill()
		if s.Dropped {
			continue
		}
		switch n := s.Window.Len(); {
		case s.OnlyDecode():
			decode = append(decode, n)
		case s.OnlyPrefill() && between:
			alone = append(alone, n)
		case s.Prefill > 0 && s.Decode > 0:
			mixed = append(mixed, n)
		}
	}
	usual := analyze.Median(decode)
	if len(decode) < leastDecodeSteps || usual == 0 || len(mixed)+len(alone) == 0 {
		return nil
	}
	var later int64
	for _, n := range mixed {
		later += max(0, n-usual)
	}
	for _, n := range alone {
		later += n
	}
	if float64(later) < analyze.LeastShare*float64(c.span) {
		return nil
	}
	all := slices.Concat(mixed, alone)
	n := len(all)
	f := c.newEngineFinding(claim{device: -1}, fmt.Sprintf("%s between decode steps take %s in the median, and a decode step takes %s: running requests get their tokens %s later in all",
		analyze.Plural(n, "step with prefill", "steps with prefill"), gpuprof.FormatNS(analyze.Median(all)), gpuprof.FormatNS(usual), gpuprof.FormatNS(later)))
	f.Evidence["decode_steps"], f.Evidence["mixed_steps"], f.Evidence["prefill_steps"] = len(decode), len(mixed), len(alone)
	f.Evidence["decode_median_ns"], f.Evidence["prefill_median_ns"] = usual, analyze.Median(all)
	f.Evidence["later_ns"], f.Evidence["later_percent"] = later, percent(later, c.span)
	f.Caveats = append(f.Caveats, "no time claimed: the tokens of prefill have to be computed in some step; smaller pieces of them make the wait of each step shorter, and the work of all no less")
	return []analyze.Found{f}
}

// findEagerDecode reports decode steps that launch most kernels outside of CUDA graphs. The finding claims the device's
// waits for launches between the first and the last operation of these steps, and the latency of these launches: a
// graph launches everything in one call.
func (c *ruleContext) findEagerDecode() []analyze.Found {
	inside := map[*ruleDevice][]model.Span{}
	eager, all, launched, replayed := 0, 0, 0, 0
	var kernels []int64
	for i, d := range c.devices {
		for k, w := range c.sumServingWork(d) {
			s := &c.x.Steps[k]
			if s.Dropped || !s.OnlyDecode() || w.kernels < leastEagerKernels {
				continue
			}
			graph := 2*w.inGraph > w.kernels
			if !graph {
				inside[d] = append(inside[d], model.Span{Start: w.began, End: w.ended})
			}
			if i > 0 {
				continue // count each step on the first device only
			}
			launched, replayed = launched+w.kernels, replayed+w.inGraph
			if all++; !graph {
				eager++
				kernels = append(kernels, int64(w.kernels-w.inGraph))
			}
		}
	}
	if eager == 0 || float64(eager) < leastEager*float64(all) {
		return nil
	}
	cl := c.claimLate(func(d *ruleDevice) model.Spans { return model.UnionOf(inside[d]) })
	if float64(cl.ns) < analyze.LeastShare*float64(c.span) {
		return nil
	}
	f := c.newEngineFinding(cl, fmt.Sprintf("%d of %s launch their kernels one at a time (%s in the median), and the device waits for launches",
		eager, analyze.Plural(all, "decode step", "decode steps"), analyze.Plural(int(analyze.Median(kernels)), "kernel", "kernels")))
	f.Evidence["eager_decode_steps"], f.Evidence["decode_steps"] = eager, all
	f.Evidence["graph_percent"] = percent(int64(replayed), int64(launched))
	f.Evidence["kernels_per_step"] = analyze.Median(kernels)
	return []analyze.Found{f}
}

// findSchedulerGap reports that the device idles between the steps of a serving engine. The finding claims no time,
// because a recording does not show how much of its scheduling the engine can overlap with device work.
func (c *ruleContext) findSchedulerGap() []analyze.Found {
	for _, d := range c.devices {
		if c.isIdleUnsure(d) {
			continue
		}
		work := c.sumServingWork(d)
		var gaps []int64
		var idle int64
		whole := model.Span{}
		for k := 1; k < len(work); k++ {
			before, next := &work[k-1], &work[k]
			if before.ended == 0 || next.ended == 0 || c.x.Steps[k-1].Dropped || c.x.Steps[k].Dropped {
				continue
			}
			if whole.Start == 0 {
				whole.Start = before.began
			}
			whole.End = next.ended
			gap := model.Span{Start: before.ended, End: max(before.ended, next.began)}
			free := gap.Len() - d.Busy.TotalIn(gap)
			gaps = append(gaps, free)
			idle += free
		}
		usual := analyze.Median(gaps)
		if len(gaps) < leastDecodeSteps || usual == 0 || float64(idle) < leastPause*float64(whole.Len()) {
			continue
		}
		f := c.newEngineFinding(claim{device: -1}, fmt.Sprintf("the device is idle for %s (median) between steps of the engine: %.0f %% of the span from the first step to the last one",
			gpuprof.FormatNS(usual), percent(idle, whole.Len())))
		f.Evidence["pauses"], f.Evidence["median_ns"], f.Evidence["idle_ns"] = len(gaps), usual, idle
		f.Evidence["idle_percent"] = percent(idle, whole.Len())
		f.Caveats = append(f.Caveats, "no time claimed: how much of its scheduling the engine can do while the device works, the recording does not show")
		return []analyze.Found{f}
	}
	return nil
}
