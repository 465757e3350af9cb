package analyze

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// Recording describes the recorded program and the quality of the recording. It is filled before any rule runs.
type Recording struct {
	Program  Program `json:"program"`          // framework or language of the program
	Engine   string  `json:"engine,omitempty"` // library that serves or trains: "vLLM", "DeepSpeed"
	Evidence string  `json:"evidence"`         // names in the recording that show the program
	Kind     Kind    `json:"kind"`
	// Serving is "prefill", "decode" or "mixed", from the names or attention shapes of the steps; "" for other programs.
	Serving string `json:"serving,omitempty"`
	// BeforeNS is how long, from the start of the recording, the devices may still run work launched before the
	// recording; 0 if nothing shows such work.
	BeforeNS   int64   `json:"before_ns,omitempty"`
	Phases     []Phase `json:"phases,omitempty"` // start-up, compilation and graph capture
	StepsCover float64 `json:"steps_cover"`      // share of the devices' work that steps launched; 0 without steps
	// Refused lists sources of steps, such as the ranges of one name, that were rejected because their steps cover too
	// little of the devices' work.
	Refused []string `json:"refused_steps,omitempty"`
	Text    string   `json:"text"` // the description in one sentence
	// Settings are choices of the program that the events show, for comparison with another recording.
	Settings []Setting `json:"settings,omitempty"`
}

// Setting is one choice of a program, such as the precision of its matrix products.
type Setting struct {
	Name  string   `json:"name"`  // "matrix products"
	Value string   `json:"value"` // "fp32"
	Rules []string `json:"rules"` // the rules that advise a change of this setting
}

// Kind classifies what the program did in the recording.
type Kind string

// The kinds of activity.
const (
	Training          Kind = "training"
	Inference         Kind = "inference"
	Serving           Kind = "serving"
	OneKernel         Kind = "a loop of one kernel"
	Loop              Kind = "a loop"
	OnePass           Kind = "one pass"
	CommunicationOnly Kind = "communication only"
	StartUpOnly       Kind = "start-up only"
	HostOnly          Kind = "the host alone"
	DeviceMissing     Kind = "records of the device missing"
)

// Phase is start-up, compilation or graph capture in a recording; it is not part of the regular work of the program.
type Phase struct {
	Name  string      `json:"name"`
	NS    int64       `json:"ns"`
	Spans model.Spans `json:"-"`
}

// The phases of a recording.
const (
	PhaseStartUp = "start-up"
	PhaseCompile = "compilation"
	PhaseCapture = "graph capture"
)

const (
	// leastCover is the least share of the devices' work that steps must cover.
	leastCover = 0.5
	// leastMarked replaces leastCover for the steps of PyTorch's profiler, because a program may mark only a few steps.
	leastMarked = 0.02
)

func (x *Index) fillRecording() {
	r := &x.Recording
	r.Kind = x.programKind()
	if x.Stepped() && r.StepsCover == 0 {
		r.StepsCover = x.stepsCover()
	}
	r.Text = x.recordingText()
}

// countKernels counts all kernels and the communication kernels. several reports that the kernels have more than one
// name.
func (x *Index) countKernels() (kernels, comm int, several bool) {
	var name model.NameID
	for i := range x.T.GPU {
		g := &x.T.GPU[i]
		if g.Kind != model.Kernel {
			continue
		}
		several = several || kernels > 0 && g.Name != name
		name = g.Name
		kernels++
		if isCommunication(x.class[i]) {
			comm++
		}
	}
	return kernels, comm, several
}

func (x *Index) programKind() Kind {
	kernels, comm, several := x.countKernels()
	switch {
	case len(x.T.GPU) == 0 && x.T.Gate.Launches > 0:
		return DeviceMissing
	case len(x.T.GPU) == 0:
		return HostOnly
	case comm > 0 && comm == kernels && x.T.Gate.Launches != comm: // unless the launches show that nothing else ran
		return CommunicationOnly
	case kernels == 0 && x.phaseNS()*2 > x.Span.Len():
		return StartUpOnly
	case x.ServesRequests():
		return Serving
	case x.Trains():
		return Training
	case x.Stepped() && kernels > 0 && x.Recording.Program.hasModels():
		return Inference
	case x.Stepped() && !several && kernels >= minRepeats:
		return OneKernel
	case x.Stepped() && x.SteadySteps() > 1:
		return Loop
	}
	return OnePass
}

// Before returns the time until which devices may run work launched before the recording; without such work, the start
// of the recording.
func (x *Index) Before() int64 { return max(x.before, x.Span.Start) }

// OneCutStep reports whether exactly one step is not dropped and the recording begins while the device may run earlier
// work. Such a recording cannot show whether the host runs ahead of the device.
func (x *Index) OneCutStep() bool {
	return x.Recording.BeforeNS > 0 && x.Stepped() && x.SteadySteps() == 1
}

// phaseNS returns the time of all phases and of work launched before the recording, ns.
func (x *Index) phaseNS() (ns int64) { return x.notSteady.Total() }

// Trains reports whether names of operators, ranges or kernels show a backward pass or an optimizer.
func (x *Index) Trains() bool {
	for id, name := range x.T.Names {
		in := &x.Info[id]
		kernel := in.Kernel != NoClass && (in.Kernel == OptimizerClass || strings.Contains(name, "_backward") || strings.Contains(name, "wgrad") || strings.Contains(name, "_bwd"))
		if in.Flags&(NameBackward|NameOptimizer) != 0 || kernel {
			return true
		}
	}
	return false
}

// stepsCover returns the share of the devices' busy time in operations that were launched in steps, or that began in
// steps if their launch was not recorded.
func (x *Index) stepsCover() float64 {
	var in, all int64
	var last model.Span // the step that launched the previous operation
	for i := range x.T.GPU {
		g := &x.T.GPU[i]
		at := g.Start
		if g.Launch >= 0 {
			at = x.T.Host[g.Launch].Start
		} else if k := x.stepBefore(at); k >= 0 && g.Start < x.Steps[k].Full.End {
			at = x.Steps[k].Host.Start
		}
		all += g.Dur()
		if at < last.Start || at >= last.End {
			k := x.StepAt(at)
			if k < 0 {
				continue
			}
			last = x.Steps[k].Host
		}
		in += g.Dur()
	}
	if all == 0 {
		return 1
	}
	return float64(in) / float64(all)
}

// stepBefore returns the last step that begins at or before a time, -1 none.
func (x *Index) stepBefore(at int64) int {
	i, found := slices.BinarySearchFunc(x.Steps, at, func(s StepSpan, at int64) int { return cmp.Compare(s.Host.Start, at) })
	if found {
		return i
	}
	return i - 1
}

// recordingText describes the recording in one sentence, the line under the title of a report.
func (x *Index) recordingText() string {
	r := &x.Recording
	what := string(r.Program)
	if r.Engine != "" {
		what += " with " + r.Engine
	}
	kind := string(r.Kind)
	if r.Serving != "" {
		kind += " (" + r.Serving + ")"
	}
	parts := []string{what + ", " + kind}
	if x.Stepped() && r.StepsCover < nearlyAll {
		parts = append(parts, fmt.Sprintf("steps cover %.0f %% of the device's work", 100*r.StepsCover))
	}
	if r.BeforeNS > 0 {
		parts = append(parts, "it begins in work from before the recording: "+gpuprof.FormatNS(r.BeforeNS)+" unknown")
	}
	for _, p := range r.Phases {
		text := p.Name + " " + gpuprof.FormatNS(p.NS)
		if before := x.beforeCalls(p.Spans); p.Name == PhaseStartUp && len(x.T.GPU) > 0 && 2*before > p.NS {
			text += ", " + gpuprof.FormatNS(before) + " of it before the first call of the runtime"
		}
		parts = append(parts, text)
	}
	if text := x.qualityText(); text != "" {
		parts = append(parts, text)
	}
	return strings.Join(parts, "; ")
}

// nearlyAll is the least share that prints as 100 %. The text does not mention the share of steps or launches from
// there on.
const nearlyAll = 0.995

func (x *Index) qualityText() string {
	failed, linked, kernels := 0, 0, 0
	for i := range x.T.Gate.Devices {
		failed += x.T.Gate.Devices[i].Failed()
	}
	for _, d := range x.Devices {
		linked, kernels = linked+d.Linked, kernels+d.Kernels
	}
	switch {
	case failed > 0:
		return Plural(failed, "record is wrong", "records are wrong")
	case kernels > 0 && linked == 0:
		return "no kernel has its launch"
	case float64(linked) < nearlyAll*float64(kernels):
		return fmt.Sprintf("%.0f %% of the kernels have their launch", 100*float64(linked)/float64(kernels))
	}
	return ""
}
