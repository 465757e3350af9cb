package rules

import (
	"fmt"
	"sort"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

const (
	boundStarved = 20        // least share of a window, %, in which the device waits for a launch
	shortKernel  = 20_000    // ns: shorter kernels are short; PyTorch needs less to launch an operator
	boundParts   = 4         // a step that is not launch-bound as a whole is tested in this many parts
	boundKernels = 8         // least number of kernels in a part, for a median
	boundWhole   = 16        // a trace without steps is tested in this many parts
	launchGap    = 10        // a gap longer than this many median launch intervals is other host work
	leastGap     = 100_000   // ns; shorter gaps never count as other host work
	slowLaunch   = 500_000   // ns: with a longer median interval the host does other work; profiled PyTorch needs a tenth
	unknownLimit = int64(50) // at most 1/unknownLimit (2 %) of the time may be waits for unrecorded launches
)

// window is a time span of one device with the statistics of its kernels: their durations, the durations of their
// launch calls, and the intervals between launches, ns.
type window struct {
	model.Span
	kernels, calls, intervals []int64
	short                     int         // number of kernels below shortKernel
	gaps                      model.Spans // waits for the host that are longer than launching takes
}

// findLaunchBound reports windows in which the host takes longer to start kernels than the device to run them. In such
// windows the device waits for launches for at least a fifth of the time, half of the kernels are under 20 us, and the
// median launch interval (with framework time) is at least the median kernel time. The finding claims the unclaimed
// waits for launches and the latency of these launches. Kernels of graphs do not count, because one call starts many.
// Gaps of many intervals do not count, because the host does other work.
func (c *ruleContext) findLaunchBound() []analyze.Found {
	bound := map[int]model.Spans{}
	var windows int
	var total window
	for _, d := range c.devices {
		if d.Unknown.TotalAnd(d.steady)*unknownLimit > d.steady.Total() {
			var lost model.Spans
			for _, w := range c.findBoundWindows(d) {
				lost = lost.Or(model.Spans{w.Span})
			}
			c.withholdStarved(d, lost)
			continue
		}
		for _, w := range c.findBoundWindows(d) {
			windows++
			bound[d.Device] = append(bound[d.Device], model.Spans{w.Span}.Minus(w.gaps)...)
			total.kernels = append(total.kernels, w.kernels...)
			total.calls = append(total.calls, w.calls...)
			total.intervals = append(total.intervals, w.intervals...)
			total.short += w.short
		}
		bound[d.Device] = model.UnionOf(bound[d.Device])
	}
	if windows == 0 {
		return nil
	}
	cl := c.claimLate(func(d *ruleDevice) model.Spans { return bound[d.Device] })
	if c.quality.linksBroken { // claimLate has withheld the claim
		return nil
	}
	kernels, short := len(total.kernels), total.short
	kernel, call, interval := analyze.Median(total.kernels), analyze.Median(total.calls), analyze.Median(total.intervals)
	f := c.newFinding(cl, fmt.Sprintf("the device waits for the host to start its kernels (median kernel %s, a launch every %s)", gpuprof.FormatNS(kernel), gpuprof.FormatNS(interval)))
	f.Evidence["windows"] = windows
	f.Evidence["window_ns"] = longestNS(bound)
	f.Evidence["kernels"] = kernels
	f.Evidence["kernels_step"] = float64(kernels) / float64(c.steps)
	f.Evidence["short_kernels_percent"] = percent(int64(short), int64(kernels))
	f.Evidence["median_kernel_ns"] = kernel
	f.Evidence["median_launch_ns"] = call
	f.Evidence["median_interval_ns"] = interval
	f.Sites = c.listLaunchSites(bound)
	f.PyTorch = `torch.compile(model, mode="reduce-overhead"), or torch.cuda.graphs.make_graphed_callables; larger batches`
	if c.isTraining() {
		f.PyTorch += "; foreach=True or fused=True in the optimizer"
	}
	f.Caveats = append(f.Caveats, "fewer launches remove the cost of starting kernels, not that of other work on the host between the steps"+c.getGraphCaveat())
	return []analyze.Found{f}
}

// getGraphCaveat returns the condition under which CUDA graphs can replace launches, for programs whose advice names
// graphs.
func (c *ruleContext) getGraphCaveat() string {
	switch c.x.Recording.Program {
	case analyze.OpenACC, analyze.OpenMP, analyze.Triton:
		return ""
	}
	return "; in a graph shapes must not change from step to step"
}

// findBoundWindows returns the launch-bound windows of a device: whole steps, or quarters of steps that are not
// launch-bound as a whole. Without steps, it tests the whole recording and then its parts.
func (c *ruleContext) findBoundWindows(d *ruleDevice) []window {
	parts := boundParts
	var whole []model.Span
	if c.hasSteps() {
		for i := range c.x.Steps {
			if st := &c.x.Steps[i]; !st.Dropped {
				whole = append(whole, d.steady.Within(st.Window).Hull())
			}
		}
	} else {
		whole, parts = []model.Span{d.steady.Hull()}, boundWhole
	}
	var out []window
	for _, s := range whole {
		if s.Len() <= 0 {
			continue
		}
		if w := c.testWindow(d, s, 2); w != nil {
			out = append(out, *w)
			continue
		}
		for i := range parts {
			n := int64(parts)
			part := model.Span{Start: s.Start + s.Len()*int64(i)/n, End: s.Start + s.Len()*int64(i+1)/n}
			if w := c.testWindow(d, part, boundKernels); w != nil {
				out = append(out, *w)
			}
		}
	}
	return out
}

// testWindow returns the window with the span s if it is launch-bound and has at least least kernels, else nil.
func (c *ruleContext) testWindow(d *ruleDevice, s model.Span, least int) *window {
	starved := d.Starved.Within(s)
	if !c.quality.linksBroken { // otherwise nothing is claimed, and trace-quality reports the time
		starved = starved.Minus(d.uncertainIdle)
	}
	if starved.Total()*100 < s.Len()*boundStarved {
		return nil
	}
	w := &window{Span: s}
	lo, last := firstOp(c.t, d.Ops, s.Start), (*model.Host)(nil)
	for _, g := range d.Ops[lo:] {
		op := &c.t.GPU[g]
		if op.Start >= s.End {
			break
		}
		if op.Kind != model.Kernel || c.isGraphOp(op) || op.Launch < 0 {
			continue
		}
		call := &c.t.Host[op.Launch]
		w.kernels = append(w.kernels, op.Dur())
		w.calls = append(w.calls, call.Dur())
		if last != nil && last.Lane == call.Lane && call.Start > last.Start {
			w.intervals = append(w.intervals, call.Start-last.Start)
		}
		last = call
		if op.Dur() < shortKernel {
			w.short++
		}
	}
	interval := analyze.Median(w.intervals)
	if len(w.kernels) < least || w.short*2 < len(w.kernels) || interval < analyze.Median(w.kernels) || interval > slowLaunch {
		return nil
	}
	var launching int64
	for _, gap := range starved {
		if gap.Len() > max(launchGap*interval, leastGap) {
			w.gaps = append(w.gaps, gap)
		} else {
			launching += gap.Len()
		}
	}
	if launching*100 < s.Len()*boundStarved {
		return nil
	}
	return w
}

// firstOp returns the index of the first operation that begins at or after a time.
func firstOp(t *model.Trace, ops []int32, at int64) int {
	return sort.Search(len(ops), func(i int) bool { return t.GPU[ops[i]].Start >= at })
}

// listLaunchSites returns the operators that start most kernels in the windows, with the time of their launch calls.
func (c *ruleContext) listLaunchSites(bound map[int]model.Spans) []gpuprof.Site {
	s := c.newSites("launch")
	for _, d := range c.devices {
		for _, g := range d.Ops {
			op := &c.t.GPU[g]
			if op.Kind == model.Kernel && !c.isGraphOp(op) && op.Launch >= 0 && bound[d.Device].Contains(op.Start) {
				s.addGPU(g, c.t.Host[op.Launch].Dur())
			}
		}
	}
	return s.topSites()
}
