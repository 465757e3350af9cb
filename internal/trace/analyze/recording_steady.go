package analyze

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// Unjudged reports whether the recording is nearly all start-up, compilation and the like, or shows only communication
// or failed launches, so that rules cannot judge the program.
func (x *Index) Unjudged() bool {
	if x.Recording.Kind == CommunicationOnly || x.Recording.Kind == StartUpOnly {
		return true
	}
	if x.launchesFailed() {
		return true
	}
	return !x.Stepped() && len(x.T.GPU) > 0 && x.PhasesFirst() && x.phaseSpans().Total()*unjudgedFactor > x.Span.Len()*(unjudgedFactor-1)
}

// launchesFailed reports whether launches returned an error and no kernel ran.
func (x *Index) launchesFailed() bool {
	if !slices.ContainsFunc(x.T.Warnings, func(w gpuprof.Warning) bool { return w.Code == failedLaunches || w.Code == failedKernel }) {
		return false
	}
	kernels, _, _ := x.countKernels()
	return kernels == 0
}

// PhasesFirst reports whether the report of a recording without steps begins with its phases: start-up, compilation and
// graph capture. This holds for programs with machine-learning models, which run for long, so that start-up is not
// their work. Other programs may run once and end, and creating a CUDA context takes them about the same time whatever
// they compute. Their report begins with the phases only if these are nearly the whole recording and kernels run for
// almost none of the rest.
func (x *Index) PhasesFirst() bool {
	if x.Recording.Program.hasModels() {
		return true
	}
	if x.phaseSpans().Total()*nativeUnjudgedFactor <= x.Span.Len()*(nativeUnjudgedFactor-1) {
		return false
	}
	var work int64
	for i := range x.T.GPU {
		if g := &x.T.GPU[i]; g.Kind == model.Kernel && x.Steady.Contains(g.Start) {
			work += g.Dur()
		}
	}
	return work < max(leastNativeWork, x.phaseSpans().Total()/mostStartUp) || work*restWork < x.Steady.Total()
}

const (
	// nativeUnjudgedFactor replaces unjudgedFactor for a program that may run once and end, such as one in C++.
	nativeUnjudgedFactor = 20
	// Rules judge a program that may run once if its kernels take at least leastNativeWork (ns), 1/restWork of the
	// steady part of the recording, and 1/mostStartUp of the time of the phases.
	leastNativeWork, restWork, mostStartUp = 1_000_000, 10, 200
	// mostBesideLoop: NotSteady ignores steps found by the order of launches if they take less than 1/mostBesideLoop of
	// the time of the phases, and describes the whole recording.
	mostBesideLoop = 20
)

// unjudgedFactor: rules judge a recording only if at least 1/unjudgedFactor of it is not start-up, compilation or graph
// capture.
const unjudgedFactor = 10

// isMostlyPhases reports whether the steps are ranges of the program, exactly one step is not dropped, and phases (such
// as start-up) are nearly the whole recording. An example is a test that runs each of its parts for the first time.
func (x *Index) isMostlyPhases() bool {
	return strings.HasPrefix(x.StepSource, "annotation ") && x.SteadySteps() == 1 && x.phaseSpans().Total()*unjudgedFactor > x.Span.Len()*(unjudgedFactor-1)
}

// isShortLoop reports whether the steps of a program without machine-learning models come from the order of launches
// and take almost no time compared with the phases. A benchmark of one kernel gives such steps.
func (x *Index) isShortLoop() bool {
	return strings.HasPrefix(x.StepSource, launchOrderSource) && !x.Recording.Program.hasModels() && x.Steady.Total()*mostBesideLoop < x.phaseSpans().Total()
}

// NotSteady returns a sentence that describes a recording which is mostly start-up, compilation or the like, and the
// remedy; "" for other recordings.
func (x *Index) NotSteady() (what, fix string) {
	r := &x.Recording
	if r.Kind == CommunicationOnly {
		return "the records of devices are of communication alone: what else the devices did is not in the recording, so nothing can be said of exposed communication or idle time", "record kernels and copies, too: without a filter on names or categories"
	}
	if len(x.T.GPU) == 0 {
		return "", ""
	}
	judged, recorded := model.Spans{x.Span}, gpuprof.FormatNS(x.Span.Len())+" recorded"
	stepped := x.Stepped() && !x.isMostlyPhases() && !x.isShortLoop()
	if stepped {
		judged, recorded = x.Steady, gpuprof.FormatNS(x.Steady.Total())+" step"
		if n := x.SteadySteps(); n > 1 {
			recorded = fmt.Sprintf("%s of %d steps", gpuprof.FormatNS(x.Steady.Total()), n)
		}
	}
	var most Phase
	for _, p := range r.Phases {
		if ns := p.Spans.TotalAnd(judged); ns > most.NS {
			most = Phase{Name: p.Name, NS: ns, Spans: p.Spans}
		}
	}
	if 2*x.phaseSpans().TotalAnd(judged) < judged.Total() || most.NS == 0 {
		return "", ""
	}
	what = gpuprof.FormatNS(most.NS) + " of the " + recorded + " are " + most.Name
	switch most.Name {
	case PhaseCompile:
		fix = "record after the first iterations, once everything is compiled"
		switch r.Program {
		case PyTorch:
			fix += "; keep compiled code between runs (TORCHINDUCTOR_CACHE_DIR, TRITON_CACHE_DIR)"
		case JAX:
			fix += "; keep compiled code between runs (JAX_COMPILATION_CACHE_DIR)"
		}
		return what, fix
	case PhaseCapture:
		return what, "record after graphs are captured, while they are launched"
	}
	if first := x.firstLaunch(); first >= 0 && x.firstBatchBefore(x.T.Host[first].Start) {
		return what + ", with the first batch of a data loader, whose workers start", "record several batches after the first; persistent_workers=True keeps the workers from epoch to epoch"
	}
	if stepped {
		return what + startUpParts, "record several steps after the first ones"
	}
	if before := x.beforeCalls(most.Spans); 2*before > most.NS {
		what += fmt.Sprintf(", %s of it before the first call of the runtime: imports, data, or the program's own work on the host", gpuprof.FormatNS(before))
	} else {
		what += startUpParts
	}
	return what, "record longer, so that the program's own work outweighs it; a program that runs once pays it once"
}

// startUpParts ends sentences about start-up with a list of what start-up consists of.
const startUpParts = " (creating the context, loading modules, first allocations, the profiler's own start)"

// beforeCalls returns how much of a phase is before the first call of a device's runtime, ns.
func (x *Index) beforeCalls(phase model.Spans) int64 {
	first := x.Span.End
	for _, l := range x.lanes {
		for i := l.Lo; i < l.Hi && x.T.Host[i].Start < first; i++ {
			if x.T.Host[i].Kind == model.API {
				first = x.T.Host[i].Start
			}
		}
	}
	return phase.TotalIn(model.Span{Start: x.Span.Start, End: first})
}
