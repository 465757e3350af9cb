package analyze

import (
	"cmp"
	"math"
	"slices"
	"sort"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// StepSpan is one step of the program.
type StepSpan struct {
	Name string
	Host model.Span // as recorded on the host
	// Full extends Host to the end of the last device operation launched in the step.
	Full model.Span
	// Window is the time by which the step is measured. It starts when the step has started on the host and the Full
	// spans of all earlier steps have ended, and it ends with Full. Windows are disjoint, so their lengths add up.
	Window model.Span
	Lane   uint32
	// Prefill and Decode count the requests in each phase by the name of a serving step; -1 unknown, 0 not serving.
	Prefill, Decode int
	// Tokens counts the tokens that a decode step computes, Context the tokens whose keys and values it reads; 0
	// unknown. They come from the step name or the operands of attention.
	Tokens, Context int64
	Dropped         bool // left out of means and findings: warm-up, an Empty step, or a step with start-up
	// Empty marks a last range of the profiler that has almost no work, because the recording ended in it.
	Empty bool
	// work counts the device operations launched in the step; without a device, the operators in the step.
	work int
	// device is the end time of the last device operation launched in the step, 0 none.
	device int64
}

// profilerStep is the step source for ranges of PyTorch's profiler.
const profilerStep = "ProfilerStep"

const (
	// minRepeats is the least number of repeats from which a range can mark steps.
	minRepeats = 3
	// roundingNS is the longest overlap of consecutive ranges of one name: profilers round starts and lengths.
	roundingNS = 1000 // ns
	// seamlessRatio: joinSteps leaves ranges unchanged if their median period is at least this many median gaps.
	seamlessRatio = 50
	// longGapFactor: a gap belongs to no step if it exceeds a median period and this many median gaps.
	longGapFactor = 4
)

// findSteps tries these sources of steps in turn: ranges of PyTorch's profiler; step names of inference engines
// (SGLang, vLLM and others); the repeating range with the most time; the time from one optimizer step to the next; the
// time from one token to the next; repeats in the order of launches.
func (x *Index) findSteps() {
	launches := x.launchesByLane()
	x.Main = busiestLane(x.lanes, launches)
	part := x.T.Cut
	switch {
	case part != nil:
		if x.restoreCutSteps(); len(x.Steps) == 0 {
			return
		}
	case x.findProfilerSteps(launches) && x.acceptSteps():
	case x.findEngineSteps(launches):
	case x.findAnnotatedSteps(launches):
	case x.findOptimizerSteps(launches) && x.acceptSteps():
	case x.findSamplingSteps(launches) && x.acceptSteps():
	case isGenericFormat(x.T.Format) && x.findLaunchSteps() && x.acceptSteps():
	default:
		x.StepSource = model.WholeTrace
		if x.Span.Len() > 0 {
			x.Called = model.Spans{x.judgedSpan()}.Minus(x.phaseSpans())
		}
		x.Steady = x.Called.Minus(x.notSteady)
		if x.hasOnlySamples() {
			return
		}
		fix := "call profiler.step() once per iteration, or name iterations with record_function or NVTX"
		if x.Recording.Program != PyTorch {
			fix = "put an NVTX range around each iteration (nvtxRangePush, nvtx.annotate), or record longer"
		}
		x.addWarning("no-steps", "no steps were found: the first iterations, slower than the rest, are part of every figure", fix)
		return
	}
	x.Main = x.Steps[0].Lane
	if part != nil {
		x.extendSteps()
	} else {
		x.dropWarmUp()
		x.trimLast()
		x.dropPhaseSteps()
	}
	kept := func(s *StepSpan) bool { return !s.Dropped }
	x.Called = x.unionOfSteps(kept)
	if x.Steady = x.setWindows(kept, math.MinInt64); len(x.Steady) == 0 {
		x.Steady = x.setWindows(kept, x.Steps[0].Host.End)
	}
}

// judgedSpan returns the time that rules judge in a recording without steps. It is the whole recording, except for a
// TPU's recording without launches: then it is the time from the first operation of the devices to the last. Without
// launches nothing shows whether the program ran outside that time or waited for a request.
func (x *Index) judgedSpan() model.Span {
	if len(x.T.GPU) == 0 || x.T.Format != model.XLA || x.firstLaunch() >= 0 {
		return x.Span
	}
	work := model.Span{Start: x.T.GPU[0].Start, End: x.T.GPU[0].End} // operations are in the order of their starts
	for i := range x.T.GPU {
		work.End = max(work.End, x.T.GPU[i].End)
	}
	if rest := x.Span.Len() - work.Len(); rest*leastRest > x.Span.Len() {
		x.addWarning("device-work-only", gpuprof.FormatNS(rest)+" before the first and after the last operation of the devices are left out: without launches, nothing shows whether the program ran then", "record while requests or steps follow each other")
	}
	return work
}

// leastRest: judgedSpan warns if it leaves out more than 1/leastRest of the recording.
const leastRest = 20

// isGenericFormat reports whether the recorder of a format sees only launches and ranges. Other formats come from the
// profiler of a framework, which could mark steps, so that a trace without marks has no steps.
func isGenericFormat(f model.Format) bool {
	return f == model.CUDA || f == model.Nsys || f == model.Rocpd
}

// dropWarmUp drops the first steps, by default one, and an empty last step.
func (x *Index) dropWarmUp() {
	x.markEmpty()
	if n := len(x.Steps); n > 2 || n == 2 && !x.Steps[1].Empty {
		for i := range max(1, min(x.T.Program.Skip, n-minRepeats)) {
			x.Steps[i].Dropped = true
		}
	} else {
		x.addWarning("one-step", "the trace has one step: it cannot be told from a warm-up, and no step was left out", "record at least three steps")
	}
}

// setWindows sets the window of every step and returns the windows of the steps that ok accepts. A step has an empty
// window if it launches nothing while the device still runs earlier work. If all windows are empty, the caller calls
// setWindows again with first, the time at which the first window ends. Otherwise first is math.MinInt64.
func (x *Index) setWindows(ok func(*StepSpan) bool, first int64) model.Spans {
	var out []model.Span
	done := max(x.cutAfter(), x.before)
	for i := range x.Steps {
		s := &x.Steps[i]
		start := max(s.Host.Start, done)
		done = max(done, s.Full.End)
		if i == 0 && first > math.MinInt64 {
			done = first
		}
		if s.Window = (model.Span{Start: start, End: max(start, done)}); ok(s) && s.Window.Len() > 0 {
			out = append(out, s.Window)
		}
	}
	return model.UnionOf(out)
}

// unionOfSteps returns the time of the steps that ok accepts. Each lasts from its start on the host to the end of its
// device work, but at most to the start of the next step. The last step ends with its host range, so that later host
// activity such as the final synchronization does not count.
func (x *Index) unionOfSteps(ok func(*StepSpan) bool) model.Spans {
	var out []model.Span
	for i := range x.Steps {
		if s := &x.Steps[i]; ok(s) {
			end := s.Host.End
			if i+1 < len(x.Steps) {
				end = min(s.Full.End, x.Steps[i+1].Host.Start)
			}
			out = append(out, model.Span{Start: s.Host.Start, End: end})
		}
	}
	return model.UnionOf(out)
}

// AllStepTime returns the time of all steps, including dropped steps, but not the time between steps. Without steps, it
// returns x.Steady.
func (x *Index) AllStepTime() model.Spans {
	if x.StepSource == model.WholeTrace {
		return x.Steady
	}
	return x.unionOfSteps(func(*StepSpan) bool { return true })
}

func (x *Index) addWarning(code, text, fix string) {
	x.Warnings = append(x.Warnings, gpuprof.Warning{Code: code, Text: text, Fix: fix})
}

func (x *Index) launchesByLane() map[uint32]int {
	n := map[uint32]int{}
	lane, count := uint32(math.MaxUint32), 0
	for i := range x.T.GPU {
		l := x.T.GPU[i].Launch
		if l < 0 {
			continue
		}
		if h := x.T.Host[l].Lane; h != lane {
			n[lane] += count
			lane, count = h, 0
		}
		count++
	}
	n[lane] += count
	return n
}

func busiestLane(lanes []LaneRange, launches map[uint32]int) uint32 {
	best, most := uint32(0), -1
	for _, l := range lanes {
		if launches[l.lane] > most {
			best, most = l.lane, launches[l.lane]
		}
	}
	return best
}

// findProfilerSteps takes the ranges of PyTorch's profiler (ProfilerStep#N) as steps.
func (x *Index) findProfilerSteps(launches map[uint32]int) bool {
	groups := map[uint32][]int32{}
	for i := range x.T.Host {
		if h := &x.T.Host[i]; h.Kind == model.Step {
			groups[h.Lane] = append(groups[h.Lane], int32(i))
		}
	}
	events := x.busiestEvents(groups, launches)
	if events == nil {
		return false
	}
	x.StepSource = profilerStep
	x.appendSteps(events)
	return true
}

// busiestEvents returns the elements of byLane for the lane (thread) with the most launches; nil if byLane is empty.
func (x *Index) busiestEvents(byLane map[uint32][]int32, launches map[uint32]int) (events []int32) {
	most := -1
	for _, l := range x.lanes { // in lane order, so that ties are decided the same way each time
		if len(byLane[l.lane]) > 0 && launches[l.lane] > most {
			events, most = byLane[l.lane], launches[l.lane]
		}
	}
	return events
}

// appendSteps adds a step for each of the host events, except events that start inside the previous step.
func (x *Index) appendSteps(events []int32) {
	for _, i := range events {
		h := &x.T.Host[i]
		if n := len(x.Steps); n > 0 && h.Start < x.Steps[n-1].Host.End-overhangNS {
			continue
		}
		x.Steps = append(x.Steps, StepSpan{Name: x.T.Name(h.Name), Host: model.Span{Start: h.Start, End: h.End}, Lane: h.Lane})
	}
}

type rangeGroup struct {
	lane   uint32
	name   string // numbers masked
	events []int32
	total  int64
}

// findAnnotatedSteps takes the repeating range with the most time as steps, if it launches enough of the devices' work.
func (x *Index) findAnnotatedSteps(launches map[uint32]int) bool {
	all := x.groupRanges(x.isProgramRange)
	groups := slices.DeleteFunc(slices.Clone(all), func(g *rangeGroup) bool { return len(g.events) < minRepeats })
	slices.SortStableFunc(groups, func(a, b *rangeGroup) int {
		return cmp.Or(cmp.Compare(b.total, a.total), cmp.Compare(launches[b.lane], launches[a.lane]))
	})
	for _, g := range groups[:min(len(groups), mostSources)] {
		best := x.busierLaneGroup(g, launches)
		if outer := x.findRangesOfLayers(best, all); outer != nil {
			best = outer
		} else if layerName.MatchString(best.name) || arePartsOfModel(best, all) || x.areInLayers(best) || x.areMarks(best) {
			continue
		}
		if !x.findTurnSteps(best) {
			x.StepSource = x.describeRange(best)
			x.appendSteps(best.events)
			x.joinSteps()
		}
		if x.acceptSteps() {
			return true
		}
	}
	return false
}

// mostSources is the number of range names that are tried as steps.
const mostSources = 4

// acceptSteps keeps the steps if they cover enough of the devices' work; otherwise it removes them.
func (x *Index) acceptSteps() bool {
	x.extendSteps()
	least := leastCover
	if x.StepSource == profilerStep {
		least = leastMarked
	}
	if len(x.T.GPU) == 0 {
		return true
	}
	if x.Recording.StepsCover = x.stepsCover(); x.Recording.StepsCover >= least {
		return true
	}
	x.Recording.StepsCover = 0
	x.Recording.Refused = append(x.Recording.Refused, x.StepSource)
	x.Steps, x.StepSource, x.StepLaunches = nil, "", 0
	return false
}

// joinSteps extends every step to the start of the next one, because the program also works between ranges: it fetches
// a batch, or trains the other half of a GAN. It drops the last step, whose length is unknown. A gap many times as
// long as the other gaps (an evaluation, a checkpoint) is in no step.
func (x *Index) joinSteps() {
	n := len(x.Steps) - 1
	var gaps, periods []int64
	for i := range n {
		at := x.Steps[i].Host
		next := x.Steps[i+1].Host.Start
		gaps, periods = append(gaps, next-at.End), append(periods, next-at.Start)
	}
	gap, period := Median(slices.Clone(gaps)), Median(periods)
	if n < 1 || gap*seamlessRatio <= period {
		return
	}
	x.StepSource += ", from the start of one to the start of the next"
	for i := range n {
		if gaps[i] <= max(longGapFactor*gap, period) {
			x.Steps[i].Host.End = x.Steps[i+1].Host.Start
		}
	}
	x.Steps = x.Steps[:n]
}

// busierLaneGroup returns a group of ranges with the name of best: the group on the lane (thread) with the most
// launches that has at least minRepeats ranges.
func (x *Index) busierLaneGroup(best *rangeGroup, launches map[uint32]int) *rangeGroup {
	out := best
	for _, g := range x.groupRanges(func(h *model.Host) bool {
		return h.Kind == model.Annotation && model.MaskNumbers(x.T.Name(h.Name)) == best.name
	}) {
		if len(g.events) >= minRepeats && launches[g.lane] > launches[out.lane] {
			out = g
		}
	}
	return out
}

// groupRanges groups the host events that ok accepts by thread and name (numbers masked). It leaves out events inside
// another event of the same name. Groups are in the order of their first events.
func (x *Index) groupRanges(ok func(*model.Host) bool) []*rangeGroup {
	type key struct {
		lane uint32
		name string
	}
	names := map[model.NameID]string{}
	groups := map[key]*rangeGroup{}
	var out []*rangeGroup
	for i := range x.T.Host {
		h := &x.T.Host[i]
		if !ok(h) {
			continue
		}
		name, seen := names[h.Name]
		if !seen {
			name = model.MaskNumbers(x.T.Name(h.Name))
			names[h.Name] = name
		}
		k := key{h.Lane, name}
		g := groups[k]
		if g == nil {
			g = &rangeGroup{lane: h.Lane, name: name}
			groups[k] = g
			out = append(out, g)
		}
		if n := len(g.events); n > 0 && h.Start < x.T.Host[g.events[n-1]].End && (h.Start < x.T.Host[g.events[n-1]].End-roundingNS || h.End <= x.T.Host[g.events[n-1]].End) {
			continue
		}
		g.events = append(g.events, int32(i))
		g.total += h.Dur()
	}
	return out
}

// extendSteps extends every step to the end of the last device operation launched in it by the same process.
func (x *Index) extendSteps() {
	if len(x.Steps) == 0 {
		return
	}
	process := x.T.ProcessOf(x.Steps[0].Lane)
	for i := range x.Steps {
		x.Steps[i].Full, x.Steps[i].device, x.Steps[i].work = x.Steps[i].Host, 0, 0
	}
	for i := range x.T.GPU {
		g := &x.T.GPU[i]
		if g.Launch < 0 {
			continue
		}
		l := &x.T.Host[g.Launch]
		if k := x.StepAt(l.Start); k >= 0 && x.T.ProcessOf(l.Lane) == process {
			x.Steps[k].Full.End = max(x.Steps[k].Full.End, g.End)
			x.Steps[k].device = max(x.Steps[k].device, g.End)
			x.Steps[k].work++
		}
	}
}

// StepAt returns the index of the step whose time on the host contains at, -1 none.
func (x *Index) StepAt(at int64) int {
	i := sort.Search(len(x.Steps), func(i int) bool { return x.Steps[i].Host.Start > at })
	if i--; i < 0 || x.Steps[i].Host.End <= at {
		return -1
	}
	return i
}
