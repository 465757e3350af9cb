package analyze

import (
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof/internal/lazyregexp"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

const (
	// unexplainedFactor: a delay from launch to start of more than this many median delays has a cause outside the
	// recording.
	unexplainedFactor = 10
	// leastBeforeNS is the shortest phase that is reported, and the shortest delay or wait that shows work from before
	// the recording.
	leastBeforeNS = 100_000 // ns
	// initCallNS is the least duration of a call that initializes CUDA; other calls take microseconds.
	initCallNS = 10_000_000 // ns
	// lateInitCallNS replaces initCallNS after the first launch, for library calls that load modules and choose
	// algorithms. It is longer because programs that allocate in their loop also make slow calls.
	lateInitCallNS = 100_000_000 // ns
	// A first launch counts as loading the code of its kernel if it takes at least leastLoadNS and at least loadFactor
	// times as long as the median launch.
	leastLoadNS, loadFactor = 1_000_000, 100
	// leastModelBytes is the least size, bytes, of the copies before the first kernel that count as loading a model.
	leastModelBytes = 64 << 20
	// mostInitCalls is the largest number of initializing calls of one name; a name with more calls is part of the
	// loop.
	mostInitCalls = 2
	// compileGapNS is the shortest pause before the first launch of a Triton kernel, or before the loading of a module,
	// that counts as compilation.
	compileGapNS = 20_000_000 // ns
)

// findPhases finds the time that findings must not cover: start-up, compilation, graph capture, and work launched
// before the recording.
func (x *Index) findPhases() {
	if x.Span.Len() == 0 || x.T.Cut != nil && len(x.T.Cut.Steps) > 0 { // the steps of a cut were found before the cut
		return
	}
	first := x.firstLaunch()
	x.addPhase(PhaseCompile, x.compileSpans())
	x.addPhase(PhaseCapture, x.captureSpans())
	if load := x.findModelLoad(); load >= 0 {
		first = load
	}
	x.addPhase(PhaseStartUp, x.startUpSpans(first))
	if x.T.Cut != nil { // a cut contains the launches of all its operations
		return
	}
	if x.before = x.findWorkBefore(); x.before > x.Span.Start {
		x.Recording.BeforeNS = x.before - x.Span.Start
		x.notSteady = x.notSteady.Or(model.Spans{{Start: x.Span.Start, End: x.before}})
	}
}

// addPhase records a phase, without the time that earlier phases cover.
func (x *Index) addPhase(name string, spans model.Spans) {
	spans = spans.Within(x.Span).Minus(x.notSteady)
	if spans.Total() < leastBeforeNS {
		return
	}
	x.Recording.Phases = append(x.Recording.Phases, Phase{Name: name, NS: spans.Total(), Spans: spans})
	x.notSteady = x.notSteady.Or(spans)
}

// firstLaunch returns the call that launches the first operation of any device, -1 none.
func (x *Index) firstLaunch() int32 {
	first := int32(-1)
	for i := range x.T.GPU {
		if l := x.T.GPU[i].Launch; l >= 0 && (first < 0 || x.T.Host[l].Start < x.T.Host[first].Start) {
			first = l
		}
	}
	return first
}

// findModelLoad returns the launch of the first kernel of a program with models if the copies before it move
// leastModelBytes or more to the devices: they load the model, as start-up does. It returns -1 otherwise.
func (x *Index) findModelLoad() int32 {
	if !x.Recording.Program.hasModels() {
		return -1
	}
	bytes := int64(0)
	for i := range x.T.GPU { // in the order of their starts
		switch g := &x.T.GPU[i]; {
		case g.Kind == model.Kernel && bytes >= leastModelBytes:
			return g.Launch
		case g.Kind == model.Kernel:
			return -1
		case g.Dir == model.H2D && g.Launch >= 0:
			bytes += g.Bytes
		}
	}
	return -1
}

// startUpSpans returns the time in which the program initializes CUDA. Start-up lasts to the first launch if the
// workers of a data loader start, or if an earlier call takes initCallNS or more. Only the creation of a context, the
// loading of modules and the first allocation take that long; synchronization and copies do not count. If the first launch
// takes that long, it belongs to start-up, unless it is a copy that takes most of its time. Start-up includes the time before Nsight Systems
// hooks into CUDA, and initializing calls after the first launch (lateInitSpans). first is the first launch; if it is -1 (not recorded), only the long calls themselves count.
func (x *Index) startUpSpans(first int32) model.Spans {
	until := x.Span.End
	if first >= 0 {
		until = x.T.Host[first].Start
	}
	var out []model.Span
	for _, l := range x.lanes {
		for i := l.Lo; i < l.Hi && x.T.Host[i].Start <= until; i++ {
			h := &x.T.Host[i]
			switch {
			case h.Kind == model.Overhead && strings.Contains(strings.ToLower(x.T.Name(h.Name)), "initialization"):
				start := h.Start
				if first >= 0 && strings.HasPrefix(x.T.Name(h.Name), "CUDA ") {
					start = x.Span.Start // the program has not called CUDA before
				}
				out = append(out, model.Span{Start: start, End: h.End})
			case h.Kind != model.API || h.Start == until && i != first || h.Dur() < initCallNS:
			case x.Info[h.Name].call == model.CallSync, x.Info[h.Name].call == model.CallCopy && i != first:
			case first < 0: // the first launch, which ends start-up, is not recorded
				out = append(out, model.Span{Start: h.Start, End: h.End})
			default:
				out = append(out, model.Span{Start: x.Span.Start, End: max(until, x.initEnd(i, first))})
			}
		}
	}
	if first >= 0 && x.firstBatchBefore(until) {
		out = append(out, model.Span{Start: x.Span.Start, End: until})
	}
	return model.UnionOf(append(out, x.lateInitSpans(until)...))
}

// initEnd returns the end of the initialization in a long call: the end of the call. If the call is the first launch and
// the copies that it starts take half of its time or more, it returns the start of the call.
func (x *Index) initEnd(call, first int32) int64 {
	h := &x.T.Host[call]
	if call != first {
		return h.End // it launches nothing
	}
	var ns int64
	for i := range x.T.GPU {
		if g := &x.T.GPU[i]; g.Launch == call && g.Kind == model.Memcpy {
			ns += g.Dur()
		}
	}
	if 2*ns < h.Dur() {
		return h.End
	}
	return h.Start
}

// firstBatchBefore reports whether the recording has exactly one fetch of a batch, from worker processes, that takes
// lateInitCallNS or more and ends before the time until. The worker processes then start during the fetch.
func (x *Index) firstBatchBefore(until int64) bool {
	fetches := 0
	for i := range x.T.Host {
		h := &x.T.Host[i]
		if h.Kind == model.Step {
			return false
		}
		if h.Kind == model.API || x.Info[h.Name].Flags&nameLoader == 0 || x.parent[i] >= 0 && x.Info[x.T.Host[x.parent[i]].Name].Flags&nameLoader != 0 {
			continue
		}
		if fetches++; h.End > until || h.Dur() < lateInitCallNS || !strings.Contains(x.T.Name(h.Name), "MultiProcessing") {
			return false
		}
	}
	return fetches == 1
}

// lateInitSpans returns the time of initialization after the time after, the first launch. It consists of calls of
// lateInitCallNS or more, launches that load code (listLoads) and builds of kernels (listBuilds), if the devices are
// idle for nine tenths of each. If these spans take more than half of the time from the start of the recording to the
// end of the last span, that time is returned as a whole.
func (x *Index) lateInitSpans(after int64) model.Spans {
	calls := map[model.NameID]model.Spans{}
	for i := range x.T.Host {
		h := &x.T.Host[i]
		if h.Kind != model.API || h.Start < after || h.Dur() < lateInitCallNS {
			continue
		}
		switch x.Info[h.Name].call {
		case model.CallSync, model.CallCopy, model.CallGraph:
		default:
			calls[h.Name] = append(calls[h.Name], model.Span{Start: h.Start, End: h.End})
		}
	}
	all := append(x.listLoads(after), x.listBuilds(after)...)
	for _, c := range calls {
		if len(c) <= mostInitCalls {
			all = append(all, c...)
		}
	}
	if len(all) == 0 {
		return nil
	}
	busy := make([]model.Span, 0, len(x.T.GPU))
	for i := range x.T.GPU {
		busy = append(busy, model.Span{Start: x.T.GPU[i].Start, End: x.T.GPU[i].End})
	}
	devices := model.UnionOf(busy)
	all = slices.DeleteFunc(model.UnionOf(all), func(c model.Span) bool { return devices.TotalIn(c)*10 > c.Len() })
	if n := len(all); n > 0 && all.Total() >= initCallNS {
		if start := (model.Span{Start: x.Span.Start, End: all[n-1].End}); 2*all.Total() > start.Len() {
			return model.Spans{start}
		}
	}
	return all
}

// listLoads returns the launches, from the time after on, that load the code of their kernel. ROCm loads the code of
// each kernel in its first launch, and so does CUDA with CUDA_MODULE_LOADING=LAZY. A first launch counts if it takes
// initCallNS or more, or at least leastLoadNS and loadFactor times as long as the median launch.
func (x *Index) listLoads(after int64) model.Spans {
	first := map[model.NameID]int32{}
	var lengths []int64
	every := model.Sample(len(x.T.GPU))
	for i := range x.T.GPU {
		op := &x.T.GPU[i]
		if op.Kind != model.Kernel || op.Launch < 0 {
			continue
		}
		if i%every == 0 {
			lengths = append(lengths, x.T.Host[op.Launch].Dur())
		}
		if l, seen := first[op.Name]; !seen || x.T.Host[op.Launch].Start < x.T.Host[l].Start {
			first[op.Name] = op.Launch
		}
	}
	var loads model.Spans
	least := min(initCallNS, max(leastLoadNS, loadFactor*Median(lengths)))
	for _, l := range first {
		if h := &x.T.Host[l]; h.Start >= after && h.Dur() >= least && x.Info[h.Name].call == model.CallLaunch {
			loads = append(loads, model.Span{Start: h.Start, End: h.End})
		}
	}
	return loads
}

// captureSpans returns the time in which the program captures and instantiates CUDA graphs.
func (x *Index) captureSpans() model.Spans {
	var out []model.Span
	const begins, ends, instantiates = 1, 2, 3
	does, any := make([]uint8, len(x.T.Names)), false
	for id, name := range x.T.Names {
		for k, mark := range []string{"StreamBeginCapture", "StreamEndCapture", "GraphInstantiate"} {
			if strings.Contains(name, mark) {
				does[id], any = uint8(k+1), true
			}
		}
	}
	if !any {
		return nil
	}
	begun, lane := int64(-1), uint32(0)
	for i := range x.T.Host {
		h := &x.T.Host[i]
		if h.Kind != model.API {
			continue
		}
		if h.Lane != lane {
			begun, lane = -1, h.Lane
		}
		switch does[h.Name] {
		case begins:
			begun = h.Start
		case ends:
			if begun >= 0 {
				out = append(out, model.Span{Start: begun, End: h.End})
			}
			begun = -1
		case instantiates:
			out = append(out, model.Span{Start: h.Start, End: h.End})
		}
	}
	return model.UnionOf(out)
}

// compileRange matches frames and ranges of the compilers torch.compile, Triton, XLA and nvFuser.
var compileRange = lazyregexp.New(`torch/_inductor/(compile_fx|async_compile|codecache|graph)\.py|torch/_dynamo/(convert_frame|eval_frame)\.py\(\d+\): _?(compile|convert|catch_errors)|` +
	`triton/(compiler/compiler|runtime/autotuner)\.py|CachingAutotuner\.benchmark|^compile_fx|^dynamo_timed|^(nvrtcCompileProgram|nvrtc: )|^XlaCompile|^backend_compile|BackendCompile$|` +
	`^(FusionKernelRuntime|CompiledKernel|KernelExecutor|ExecutorDispatch)::compile|^executor_utils::N(VRTC|vrtc)`)

// compiledCall matches the frames among the matches of compileRange that run compiled code instead of compiling it.
// They occur in each step.
var compiledCall = lazyregexp.New(`: (compile_wrapper|__call__|__init__|run|forward|wrapper|launch_metadata|_init_handles|new_callable|call_func_at_runtime_with_args)$`)

// compileSpans returns the time in which the program compiles: the frames and ranges of compilers, and the pauses
// before the last first launch of a Triton kernel.
func (x *Index) compileSpans() model.Spans {
	names := make([]bool, len(x.T.Names))
	any, triton := false, make([]bool, len(x.T.Names))
	for i, name := range x.T.Names {
		names[i] = compileRange.MatchString(name) && !compiledCall.MatchString(name)
		triton[i] = strings.HasPrefix(name, "triton_")
		any = any || names[i]
	}
	var out []model.Span
	for i := range x.T.Host {
		if h := &x.T.Host[i]; any && names[h.Name] && h.Kind != model.API {
			out = append(out, model.Span{Start: h.Start, End: h.End})
		}
	}
	last := int64(-1)
	seen := map[model.NameID]bool{}
	for i := range x.T.GPU {
		if g := &x.T.GPU[i]; triton[g.Name] && !seen[g.Name] {
			seen[g.Name] = true
			at := g.Start
			if g.Launch >= 0 { // the kernel was compiled before its launch, however late it starts
				at = x.T.Host[g.Launch].Start
			}
			last = max(last, at)
		}
	}
	if last < 0 {
		return model.UnionOf(out)
	}
	return model.UnionOf(append(out, x.pausesBefore(last)...))
}

// CompiledAfterFirstStep returns the time of compilation after the first step; nil without steps.
func (x *Index) CompiledAfterFirstStep() model.Spans {
	if len(x.Steps) == 0 {
		return nil
	}
	for _, p := range x.Recording.Phases {
		if p.Name == PhaseCompile {
			return p.Spans.And(model.Spans{{Start: x.Steps[0].Host.End, End: x.Span.End}})
		}
	}
	return nil
}

// recordedBefore returns the time of all calls, operators and device operations that begin at or before the time until.
// An event of zero length counts as 1 ns.
func (x *Index) recordedBefore(until int64) model.Spans {
	var v []model.Span
	for i := range x.T.Host {
		if h := &x.T.Host[i]; h.Start <= until && (h.Kind == model.API || h.Kind == model.Op) {
			v = append(v, model.Span{Start: h.Start, End: max(h.End, h.Start+1)})
		}
	}
	for i := range x.T.GPU {
		if g := &x.T.GPU[i]; g.Start <= until {
			v = append(v, model.Span{Start: g.Start, End: max(g.End, g.Start+1)})
		}
	}
	return model.UnionOf(v)
}

// dropPhaseSteps drops the steps that spend a tenth of their time or more in phases, if other steps remain.
func (x *Index) dropPhaseSteps() {
	phases := x.phaseSpans()
	steady := func(s *StepSpan) bool { return phases.TotalIn(s.Host)*10 < s.Host.Len() }
	if !slices.ContainsFunc(x.Steps, func(s StepSpan) bool { return !s.Dropped && steady(&s) }) {
		return
	}
	for i := range x.Steps {
		if s := &x.Steps[i]; !s.Dropped && !steady(s) {
			s.Dropped = true
			x.addWarning("phase-in-step", "step "+s.Name+" is left out: the program sets up, compiles or captures a graph in it", "record after the first iterations")
		}
	}
}

func (x *Index) phaseSpans() model.Spans {
	var out model.Spans
	for _, p := range x.Recording.Phases {
		out = out.Or(p.Spans)
	}
	return out
}
