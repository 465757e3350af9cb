package record

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof"
)

// explainHook adds a warning with a remedy for each part that the hook could not record.
func explainHook(o *Options, r *Result) {
	h := r.Hook
	for _, e := range h.Errors {
		r.warn("hook-failed", "the hook failed ("+e+"), and the program was not touched", "")
	}
	switch {
	case h.Nested:
		r.warn("inner-run", "another gpuprof run inside the program recorded in place of this one", "its folder holds the traces")
	case h.Loaded == 0 && len(h.Processes) == 0:
		explainNoPython(o, r)
		return
	case len(h.Processes) == 0 && r.ExitCode != 0:
		r.warn("no-torch", "the program ended with an error, and no import of torch was seen before, so there is no "+o.outputName(), "read the program's own error output")
		return
	case len(h.Processes) == 0 && len(r.unhooked) > 0:
		explainUnhooked(o, r)
		return
	case len(h.Processes) == 0 && o.Memory:
		r.warn("no-torch", describeNoTorch(h)+", so there is no snapshot", "leave out --memory: snapshots are of PyTorch's allocator")
		return
	case len(h.Processes) == 0:
		r.warn("no-torch", describeNoTorch(h)+", so there is no trace, only wall time, memory and processor time: it ended before its main thread was sampled", adviseOtherRecorder(o, r))
		return
	case h.Processes[0].Kind == kindPlain:
		r.warn("no-torch", describeNoTorch(h)+", so there are samples of its main thread, and no operators", adviseOtherRecorder(o, r))
	}
	for i := range h.Processes {
		explainProcess(o, r, &h.Processes[i])
	}
	if len(r.Traces) == 0 && !h.Nested {
		explainNoTrace(o, r)
	}
	if n := len(r.Traces); n > 1 && hasNoRanks(h) {
		r.warn("several-processes", fmt.Sprintf("%d processes were recorded that are no ranks of one job, and are analysed together", n), "for one by itself: gpuprof analyze "+r.Traces[0])
	}
}

// adviseOtherRecorder states how to record the GPU work of a program without torch; "" without an NVIDIA driver.
func adviseOtherRecorder(o *Options, r *Result) string {
	switch {
	case o.DriverCUDA == 0:
		return ""
	case !CanCUDA():
		return "install Nsight Systems (nsys) and give --nsys to record a JAX or CUDA program"
	}
	return "record a JAX or CUDA program through CUPTI: gpuprof run --cuda -- " + strings.Join(r.Command, " ")
}

// describeNoTorch states that no import of torch was seen, and how many processes loaded the hook.
func describeNoTorch(h *Hook) string {
	if h.Loaded == 1 {
		return "no import of torch was seen in the Python process of the program"
	}
	return fmt.Sprintf("no import of torch was seen in the %d Python processes of the program that loaded gpuprof's hook", h.Loaded)
}

// explainUnhooked warns of Python processes that ran without the hook, and so were not recorded.
func explainUnhooked(o *Options, r *Result) {
	ids := slices.Sorted(maps.Keys(r.unhooked))
	who := fmt.Sprintf("process %d (%s)", ids[0], r.unhooked[ids[0]])
	if more := len(ids) - 1; more > 0 {
		who += fmt.Sprintf(" and %d more", more)
	}
	r.warn("no-hook", fmt.Sprintf("%s ran with another PYTHONPATH and was not recorded, so there is no %s", who, o.outputName()),
		"keep gpuprof's folder in the PYTHONPATH of the processes that the program starts: append your own folder (PYTHONPATH=$PYTHONPATH:DIR)")
}

func (o *Options) outputName() string {
	if o.Memory {
		return "snapshot"
	}
	return "trace"
}

func hasNoRanks(h *Hook) bool {
	return !slices.ContainsFunc(h.Processes, func(p Process) bool { return p.Rank >= 0 })
}

func explainNoPython(o *Options, r *Result) {
	if len(r.unhooked) > 0 {
		explainUnhooked(o, r)
		return
	}
	if looksPython(o.Args) {
		r.warn("no-hook", "the program's Python did not load gpuprof's hook, so there is no "+o.outputName(), "run it without -E, -I and -S, and keep PYTHONPATH in the environment of the processes that it starts")
		return
	}
	fix := "give --cuda to record its CUDA calls and kernels through CUPTI"
	switch {
	case !CanCUDA() && !hasNsys():
		fix = "install Nsight Systems (nsys) to record its CUDA calls and kernels"
	case o.Memory:
		fix = "leave out --memory: snapshots are of PyTorch's allocator"
	case hasNsys():
		fix = "leave out --no-nsys to record it with Nsight Systems"
	}
	r.warn("no-python", "this is no Python program, so there is only wall time, memory and processor time", fix)
}

func explainProcess(o *Options, r *Result, p *Process) {
	who := fmt.Sprintf("process %d", p.PID)
	if p.Rank >= 0 {
		who = fmt.Sprintf("rank %d", p.Rank)
	}
	explainErrors(o, r, p, who)
	if p.File != "" && !p.Whole && len(p.Errors) == 0 {
		r.warn("trace-cut", fmt.Sprintf("the %s of %s breaks off after %d bytes", o.outputName(), who, p.Bytes), "is there space left in "+o.Dir+"?")
	}
	if p.File == "" && p.Began && p.Recorded == 0 && p.Aside == "" && len(p.Errors) == 0 {
		r.warn("ended-early", who+" was ended while it was recorded, before its "+o.outputName()+" could be written", "")
	}
	explainAside(o, r, p, who)
	if !o.Memory { // a snapshot has every step up to its end
		explainSteps(o, r, p, who)
	}
}

// explainSteps warns of fewer steps than requested, and of recorded steps that may not be the ones the user means.
func explainSteps(o *Options, r *Result, p *Process, who string) {
	explainBounded(o, r, p, who)
	if p.File != "" && !p.Complete && !p.Bounded && p.Kind != "window" && p.Recorded < o.Steps {
		r.warn("few-steps", fmt.Sprintf("%s ended after %d of %d steps to record", who, p.Recorded, o.Steps), lowerSkip(o, "leaves room for more"))
	}
	if p.Optimizers > 1 && p.Optimizer != "" && p.File != "" && p.Kind == "optimizer" {
		r.warn("several-optimizers", fmt.Sprintf("%s steps %d optimizers, and each recorded step ends with number %d of them to have stepped (%s)", who, p.Optimizers, p.Place, p.Optimizer), "")
	}
	if n := p.OtherThreads; n > 0 && p.File != "" && p.Kind != "window" {
		r.warn("other-threads", fmt.Sprintf("the recorded steps are those of one thread of %s, and other threads trained too (%d)", who, n), "train in one thread for step times without the work of others")
	}
	if p.Kind == "window" && p.File != "" {
		text, fix := who+" shows no step (optimizer step, module call or data loader)", ""
		if p.Steps > 1 {
			text = fmt.Sprintf("%s ended after %d steps, before their recording began", who, p.Steps)
			fix = lowerSkip(o, "records them")
		}
		r.warn("no-steps", fmt.Sprintf("%s, so %s of time was recorded", text, o.Window), fix)
	}
}

// explainBounded warns of a recording that a time or memory limit ended early.
func explainBounded(o *Options, r *Result, p *Process, who string) {
	memory := gpuprof.FormatBytes(float64(p.Grown))
	switch {
	case !p.Bounded || p.File == "":
	case p.Recorded == 0 && p.Grown > 0:
		r.warn("long-steps", fmt.Sprintf("the memory of %s grew by %s in the first step that was recorded, so the trace ends within it", who, memory), "")
	case p.Grown > 0:
		r.warn("long-steps", fmt.Sprintf("the recording of %s ended after %d of %d steps, since the memory of the process had grown by %s", who, p.Recorded, o.Steps, memory), "")
	case p.Recorded == 0:
		r.warn("long-steps", fmt.Sprintf("the first step that was recorded of %s took longer than %s, so the trace ends within it", who, stepFactor*o.longestRecording()), "")
	default:
		r.warn("long-steps", fmt.Sprintf("the recording of %s ended after %d of %d steps, since more would have taken it beyond %s", who, p.Recorded, o.Steps, o.longestRecording()), "")
	}
}

// explainAside warns why the hook did not record a process.
func explainAside(o *Options, r *Result, p *Process, who string) {
	switch p.Aside {
	case "own-profiler":
		r.warn("own-profiler", who+" profiles itself, so gpuprof stood back", "give the trace it writes to gpuprof analyze, or switch its profiler off")
	case "forked":
		r.warn("forked", who+" was forked while its parent was recorded, so it was not recorded itself", "gpuprof records processes that are forked before or after the recorded steps")
	case "nsys":
		r.warn("under-nsys", who+" runs under Nsight Systems, so gpuprof stood back", "")
	case "no-device":
		if len(r.Traces) == 0 {
			r.warn("no-device", who+" used no GPU, so there is no memory of one to record", "move the model and its inputs to a GPU (.to(\"cuda\")), or leave out --memory")
		}
	case "own-history":
		r.warn("own-history", who+" records the history of its memory itself, so gpuprof stood back", "give the snapshot it writes to gpuprof analyze, or take _record_memory_history out")
	case "many-processes":
		r.warn("many-processes", fmt.Sprintf("%s was not recorded: %s holds %ss of enough processes", who, o.Dir, o.outputName()), "")
	}
}

func explainErrors(o *Options, r *Result, p *Process, who string) {
	fix := fmt.Sprintf("free some space in %s or choose another folder with -o", o.Dir)
	for _, e := range p.Errors {
		switch what, ok := strings.CutPrefix(e, "export: "); {
		case ok && p.File == "":
			r.warn("no-space", fmt.Sprintf("%s could not write its %s (%s), and the program went on", who, o.outputName(), what), fix)
		case ok:
			r.warn("no-space", fmt.Sprintf("%s wrote only part of its %s (%s)", who, o.outputName(), what), fix)
		default:
			r.warn("hook-failed", fmt.Sprintf("the hook gave up in %s (%s), and the program was not touched", who, e), "")
		}
	}
}

// explainNoTrace warns why no process was recorded.
func explainNoTrace(o *Options, r *Result) {
	if len(r.Warnings) > 0 {
		return
	}
	if len(r.unhooked) > 0 {
		explainUnhooked(o, r)
		return
	}
	most := r.Hook.Processes[0]
	for _, p := range r.Hook.Processes {
		if p.Steps > most.Steps {
			most = p
		}
	}
	switch {
	case most.Steps > 0:
		r.warn("ended-early", fmt.Sprintf("the program ended after %d steps, before the recording began (--skip %d)", most.Steps, o.Skip), suggestRetry(r, most.Steps))
	case r.Signal != "":
		r.warn("ended-early", "the program was ended by a signal before the recording began", "lower --skip to record earlier")
	default:
		r.warn("no-steps", fmt.Sprintf("torch was imported, and no optimizer step, no backward pass and no module that is called again was seen in %s", gpuprof.FormatSeconds(r.WallS)),
			"lower --window-after to record it by the clock, or name its steps with torch.profiler yourself")
	}
}

// suggestRetry returns a command that skips fewer of the steps; for fewer than two it asks for a longer run.
func suggestRetry(r *Result, steps int) string {
	if steps < 2 {
		return "record a run with more steps"
	}
	skip := max(0, min(steps/3, steps-2))
	return fmt.Sprintf("try gpuprof run --skip %d --steps %d -- %s", skip, max(1, steps-skip-1), strings.Join(r.Command, " "))
}

// lowerSkip suggests a lower --skip; "" if none is skipped.
func lowerSkip(o *Options, does string) string {
	if o.Skip == 0 {
		return ""
	}
	return fmt.Sprintf("a lower --skip (%d now) %s", o.Skip, does)
}
