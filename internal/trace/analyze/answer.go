package analyze

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// Answer states the verdict of the analysis in one sentence: slow, with the cause; healthy; a fault of the recording,
// because of which findings are withheld; or not decided, if nothing could be judged.
func (a *Analysis) Answer() gpuprof.Answer {
	out := a.findVerdict()
	out.Bar = a.answerBar()
	if out.Action == nil && len(a.Findings) > 0 && (out.Tone != gpuprof.ToneGood || a.Findings[0].Rule != gpuprof.RuleTraceQuality) {
		out.Action = actionOf(&a.Findings[0])
	}
	if out.Action == nil && strings.HasPrefix(a.recorderText(), NsightReported) {
		out.Action = &gpuprof.Action{Text: "Record the process that works on the device, with a version of Nsight Systems that supports its driver:", Command: "nsys profile --trace=cuda,nvtx YOUR COMMAND"}
	}
	return out
}

func (a *Analysis) findVerdict() gpuprof.Answer {
	if out := a.verdictFromFacts(); out.Verdict != "" {
		return out
	}
	decode := a.decodeFinding()
	if text, action := a.recordingFault(decode != nil); text != "" {
		return gpuprof.Answer{Verdict: "fault of the recording", Tone: gpuprof.ToneBad, Sentence: text, Action: action}
	}
	f, graphs := a.mainFinding(), a.wholeGraphs()
	switch {
	case f != nil && f.Rule == gpuprof.RuleStraggler && a.findStraggler() != nil:
		r := a.findStraggler()
		return gpuprof.Answer{Verdict: fmt.Sprintf("slow: rank %d", r.Rank), Tone: gpuprof.ToneBad, Sentence: a.stragglerText(r), Action: actionOf(f)}
	case f != nil && f.Rule == gpuprof.RuleUnifiedMemory && f.Severity == gpuprof.Low:
		return gpuprof.Answer{Verdict: "slow: " + a.shortCause(f.Rule), Tone: gpuprof.ToneBad, Sentence: upperFirst(f.Title) + ".", Action: actionOf(f)}
	case f != nil && f.Severity != gpuprof.Low && f.Severity != gpuprof.Note && !a.isBusy(f):
		return gpuprof.Answer{Verdict: "slow: " + a.shortCause(f.Rule), Tone: gpuprof.ToneBad, Sentence: a.causeText(f), Action: actionOf(f)}
	case decode != nil:
		return gpuprof.Answer{Verdict: "bound by memory", Tone: gpuprof.ToneGood, Sentence: upperFirst(decode.Title) + ".", Action: actionOf(decode)}
	case graphs != nil:
		return gpuprof.Answer{Verdict: "not decided", Tone: gpuprof.ToneUnsure, Action: &gpuprof.Action{Text: gpuprof.AsSentence(graphs.Fix)},
			Sentence: fmt.Sprintf("%s busy %s of %s, most of it with CUDA graphs that were recorded as one operation each: the kernels in them are unknown.",
				a.gpuSubject(), shareText(a.Step.BusyNS, a.Step.NS), a.stepPhrase())}
	case len(a.Devices) == 0 || a.Bound.By == "":
		return gpuprof.Answer{Verdict: "not decided", Tone: gpuprof.ToneUnsure, Sentence: a.undecidedText()}
	case float64(a.idleNS()) >= explainedShare*float64(a.Step.NS):
		text := fmt.Sprintf("%s, and no finding explains as much as 3 %% of the %s.", a.idleText(), a.nameWhole())
		if f != nil {
			text += fmt.Sprintf(" The largest saving that was found is up to %s: %s.", gpuprof.FormatNS(f.StepNS), causeOf(f.Rule))
		}
		return gpuprof.Answer{Verdict: "not decided", Tone: gpuprof.ToneUnsure, Sentence: text}
	}
	text := fmt.Sprintf("%s busy %s of %s, and no finding claims %g %% of it.", a.gpuSubject(), shareText(a.Step.BusyNS, a.Step.NS), a.stepPhrase(), 100*LeastShare)
	if f != nil {
		text = fmt.Sprintf("%s busy %s of %s; the largest saving that was found is up to %s.", a.gpuSubject(), shareText(a.Step.BusyNS, a.Step.NS), a.stepPhrase(), gpuprof.FormatNS(f.StepNS))
	}
	return gpuprof.Answer{Verdict: "healthy", Tone: gpuprof.ToneGood, Sentence: text}
}

// isBusy reports whether the devices are busy nearly all the time and most of the time that finding f could save is
// idle time. The work of the devices then bounds the program, not the cause that the finding names.
func (a *Analysis) isBusy(f *gpuprof.Finding) bool {
	return float64(a.idleNS()) < busyIdle*float64(a.Step.NS) && 2*idlePart(f) > f.StepNS && f.Share < highShare
}

// A device counts as busy if it is idle for less than the share busyIdle of the step. Even then a finding becomes the
// verdict if it could save the share highShare of the step or more.
const busyIdle, highShare = 0.1, 0.1

// mainFinding returns the first finding that saves time. It returns nil without one, or if the first finding is that
// the recording shows no steady work.
func (a *Analysis) mainFinding() *gpuprof.Finding {
	i := slices.IndexFunc(a.Findings, func(f gpuprof.Finding) bool { return f.SavesTime() })
	if i < 0 || a.Findings[0].Rule == gpuprof.RuleNotSteady {
		return nil
	}
	return &a.Findings[i]
}

// mostDecodeIdle is the largest idle share of a decode step that still counts as bound by reading the weights.
const mostDecodeIdle = 0.2

// decodeFinding returns the finding of rule decode-bytes: each decode step is bound by reading the weights. It returns
// nil without the finding, or if the device idles for more than mostDecodeIdle of the step.
func (a *Analysis) decodeFinding() *gpuprof.Finding {
	i := slices.IndexFunc(a.Findings, func(f gpuprof.Finding) bool { return f.Rule == gpuprof.RuleDecodeBytes })
	if i < 0 || float64(a.idleNS()) > mostDecodeIdle*float64(a.Step.NS) {
		return nil
	}
	return &a.Findings[i]
}

// recordingFault returns a fault of the recording, lost or wrong records, and its remedy; text is "" without a fault.
// Lost kernels are always a fault, and so is a recording that has only a sample of the operators. Other faults count
// only if no finding saves time and the bound of the program is unknown (bounded is false).
func (a *Analysis) recordingFault(bounded bool) (text string, action *gpuprof.Action) {
	for _, w := range a.Warnings {
		if w.Code == lostKernels {
			return upperFirst(w.Text) + ".", &gpuprof.Action{Text: upperFirst(w.Fix) + "."}
		}
	}
	sampled := slices.ContainsFunc(a.Findings, func(f gpuprof.Finding) bool { return f.Evidence["sampled_operators"] != nil })
	if !sampled && (bounded || a.mainFinding() != nil) {
		return "", nil
	}
	for i := range a.Findings {
		f := &a.Findings[i]
		if muted, _ := f.Evidence["suppressed"].(string); f.Rule == gpuprof.RuleTraceQuality && muted != "" {
			return fmt.Sprintf("%s. Findings are withheld: %s.", upperFirst(f.Title), strings.ReplaceAll(muted, " ", ", ")), actionOf(f)
		}
	}
	return "", nil
}

// verdictFromFacts returns the verdict if a fact overrides all findings of savings: a kernel failed, all launches
// failed, the recording is mostly start-up, or one kernel is most of the work. Else the answer is empty.
func (a *Analysis) verdictFromFacts() gpuprof.Answer {
	kernels := slices.ContainsFunc(a.Devices, func(d DeviceAccount) bool { return d.Kernels > 0 })
	for _, w := range a.Warnings {
		if w.Code == failedKernel || w.Code == failedLaunches && !kernels {
			return gpuprof.Answer{Verdict: "fault of the program", Tone: gpuprof.ToneBad, Sentence: upperFirst(w.Text) + ".", Action: &gpuprof.Action{Text: upperFirst(w.Fix) + "."}}
		}
	}
	if len(a.Findings) == 0 || len(a.Devices) == 0 {
		return gpuprof.Answer{}
	}
	switch f := &a.Findings[0]; f.Rule {
	case gpuprof.RuleNotSteady:
		return gpuprof.Answer{Verdict: "not decided", Tone: gpuprof.ToneUnsure, Sentence: upperFirst(f.Title) + "."}
	case gpuprof.RuleOneKernel:
		return gpuprof.Answer{Verdict: "bound by one kernel", Tone: gpuprof.ToneUnsure, Sentence: f.Title + "."}
	}
	return gpuprof.Answer{}
}

func (a *Analysis) findStraggler() *RankTime {
	i := slices.IndexFunc(a.Ranks, func(r RankTime) bool { return r.Straggler })
	if i < 0 {
		return nil
	}
	return &a.Ranks[i]
}

func (a *Analysis) stragglerText(r *RankTime) string {
	text := fmt.Sprintf("The other ranks wait for rank %d: %s of %s", r.Rank, gpuprof.FormatNS(r.WaitedNS), a.stepPhrase())
	if r.Cause != "" {
		text += ", since " + r.Cause
	}
	return text + "."
}

// lostKernels is the code of the warning that launches were recorded but no kernels.
const lostKernels = "lost-kernels"

// causeText states the cause of a finding and its cost: as idle time of the GPU, or as a share of the step.
func (a *Analysis) causeText(f *gpuprof.Finding) string {
	cause, seems := causeOf(f.Rule), ""
	if f.Suspect {
		seems = "it seems, "
	}
	if f.RareNS > 0 {
		return fmt.Sprintf("%s, in some steps only: %s of the mean step after the recorded ones (%.0f %%).", upperFirst(seems+cause), gpuprof.FormatNS(f.RareNS), 100*f.RareShare)
	}
	claim := gpuprof.FormatNS(f.StepNS)
	if a.isPlainPython() && f.Rule == gpuprof.RuleOutsideOperators {
		return upperFirst(f.Title) + "."
	}
	idle := a.idleNS()
	if len(a.Devices) == 0 || idle == 0 || 2*idlePart(f) < f.StepNS {
		return fmt.Sprintf("%s, which costs up to %s of %s (%.0f %%).", upperFirst(seems+cause), claim, a.stepPhrase(), 100*float64(f.StepNS)/float64(max(a.Step.NS, 1)))
	}
	how := "in part"
	if 2*idlePart(f) > idle {
		how = "mostly"
	}
	if seems != "" {
		how += ", it seems,"
	}
	return fmt.Sprintf("%s, %s because %s: up to %s.", a.idleText(), how, cause, claim)
}

func idlePart(f *gpuprof.Finding) int64 {
	return f.Parts["starved"] + f.Parts["queued"] + f.Parts["unknown"] + f.Parts["outside"]
}

func (a *Analysis) idleNS() int64 {
	return a.Step.StarvedNS + a.Step.QueuedNS + a.Step.UnknownNS + a.Step.OutsideNS
}

func (a *Analysis) idleText() string {
	subject := "The " + a.deviceWord() + " idles"
	if len(a.Devices) > 1 {
		subject = "The " + a.deviceWord() + "s on average idle"
	}
	return fmt.Sprintf("%s %s of %s", subject, shareText(a.idleNS(), a.Step.NS), a.stepPhrase())
}

func (a *Analysis) gpuSubject() string {
	if len(a.Devices) > 1 {
		return "The " + a.deviceWord() + "s are on average"
	}
	return "The " + a.deviceWord() + " is"
}

func (a *Analysis) deviceWord() string {
	if len(a.Devices) > 0 && strings.HasPrefix(a.Devices[0].Name, model.TPU) {
		return model.TPU
	}
	return "GPU"
}

func (a *Analysis) stepPhrase() string {
	if a.Step.Count == 0 {
		return "the recording window of " + gpuprof.FormatNS(a.Step.NS)
	}
	return "each " + gpuprof.FormatNS(a.Step.NS) + " step"
}

func (a *Analysis) nameWhole() string {
	if a.Step.Count == 0 {
		return "recording window"
	}
	return "mean step"
}

func (a *Analysis) undecidedText() string {
	for i := range a.Findings {
		if f := &a.Findings[i]; f.Rule == gpuprof.RuleNotSteady {
			return upperFirst(f.Title) + "."
		}
	}
	if why := a.recorderText(); why != "" {
		return a.Bound.Text + " " + why
	}
	if a.Bound.Text != "" {
		return a.Bound.Text
	}
	return "The recording has nothing that a rule could judge."
}

func shareText(part, whole int64) string {
	if whole <= 0 {
		return "an unknown part"
	}
	return fmt.Sprintf("%.0f %%", 100*float64(part)/float64(whole))
}

// answerBar returns the bar that shows how time divides: the step of the devices, the step of the host thread without a
// device, or the recording if most of it is start-up and the like. A recording of communication alone gets no bar,
// because its idle time is unknown.
func (a *Analysis) answerBar() *gpuprof.Bar {
	notSteady := len(a.Findings) > 0 && a.Findings[0].Rule == gpuprof.RuleNotSteady && a.Recording != nil
	switch {
	case len(a.Devices) == 0:
		return a.hostBar()
	case notSteady && a.Recording.Kind == CommunicationOnly:
		return nil
	case notSteady && a.Step.Count == 0 && a.Recording.BeforeNS == 0:
		return a.recordingBar()
	}
	return a.stepBar()
}

// recordingBar divides a recording without steps into its phases and the rest, which is the window of the analysis.
func (a *Analysis) recordingBar() *gpuprof.Bar {
	var parts []gpuprof.BarPart
	total := 0.0
	for _, p := range append(slices.Clone(a.Recording.Phases), Phase{Name: "the rest", NS: a.Step.NS}) {
		parts = append(parts, gpuprof.BarPart{Name: p.Name, Value: gpuprof.Seconds(p.NS)})
		total += gpuprof.Seconds(p.NS)
	}
	return gpuprof.WholeBar("recording", "s", total, parts)
}

// stepBar returns a bar of the mean step with the largest classes of kernels, the largest idle state, and other idle
// time. The remaining classes get no part.
func (a *Analysis) stepBar() *gpuprof.Bar {
	if a.Step.NS <= 0 {
		return nil
	}
	const mostClasses = 2
	b := &gpuprof.Bar{Of: a.nameWhole(), Unit: "s", Total: gpuprof.Seconds(a.Step.NS)}
	add := func(name string, ns int64) {
		if ns > 0 {
			b.Parts = append(b.Parts, gpuprof.BarPart{Name: strings.ReplaceAll(name, "_", " "), Value: gpuprof.Seconds(ns)})
		}
	}
	for _, p := range a.Step.Shown(mostClasses) {
		if p.Means == "" {
			add(p.Name, p.NS)
		}
	}
	idle := a.Step.Idle()
	most := slices.MaxFunc(idle, func(p, q Part) int { return cmp.Compare(p.NS, q.NS) })
	add("idle, "+most.Name, most.NS)
	add("idle, other", a.idleNS()-most.NS)
	return b
}

// hostBar divides the mean step of the host thread into the parts of its time breakdown; nil without one.
func (a *Analysis) hostBar() *gpuprof.Bar {
	if a.Host == nil {
		return nil
	}
	var parts []gpuprof.BarPart
	for _, p := range a.Host.Parts {
		parts = append(parts, gpuprof.BarPart{Name: a.HostPartName(p.Name), Value: gpuprof.Seconds(p.NS)})
	}
	return gpuprof.WholeBar("host thread, "+a.nameWhole(), "s", gpuprof.Seconds(a.Host.NS), parts)
}

// HostPartName names a part of the host thread's time for the reader. In a program without operators it drops "outside,
// ".
func (a *Analysis) HostPartName(name string) string {
	if a.isPlainPython() {
		return strings.TrimPrefix(name, "outside, ")
	}
	return name
}

// NoChange is the advice of a finding whose rule has no advice for the kind of program.
const NoChange = "no change is known for this kind of program"

func actionOf(f *gpuprof.Finding) *gpuprof.Action {
	if f.PyTorch == "" {
		return nil
	}
	a := &gpuprof.Action{Text: "Change: " + f.PyTorch, Command: f.TryCommand()}
	switch {
	case f.Rule == gpuprof.RuleNotSteady || f.Rule == gpuprof.RuleTraceQuality: // the advice is to record again
		a.Text = gpuprof.AsSentence(f.PyTorch)
	case f.PyTorch == NoChange && a.Command != "":
		a.Text = "No change is known for this kind of program. To measure one of yours:"
	case a.Command == "":
	case f.ClaimNS > 0:
		a.Text = strings.TrimSuffix(a.Text, ":") + ". Then measure:" // a line of Python may end with a colon
	default: // the command itself is the advice
		a.Text = upperFirst(f.PyTorch) + ":"
	}
	return a
}

// causeOf returns the cause that a rule finds, as a clause; the rule's id if this version of gpuprof lacks the rule.
func causeOf(id string) string {
	for _, r := range gpuprof.Rules() {
		if r.ID == id && r.Cause != "" {
			return r.Cause
		}
	}
	return "of " + id
}

// shortCause names the cause of a rule in a verdict.
func (a *Analysis) shortCause(id string) string {
	if a.isPlainPython() && id == gpuprof.RuleOutsideOperators {
		return "one place of the program"
	}
	if short, ok := shortCauses()[id]; ok {
		return short
	}
	return strings.ReplaceAll(id, "-", " ")
}

// isPlainPython reports whether the recorded program is Python without torch: none of its code is inside an operator.
func (a *Analysis) isPlainPython() bool { return a.Recording != nil && a.Recording.Program == Python }

// shortCauses maps rules to the cause that verdicts name, where the id of the rule is not a term of the field.
func shortCauses() map[string]string {
	return map[string]string{
		gpuprof.RuleItem: "single values read", gpuprof.RuleExplicitSync: "explicit waits", gpuprof.RuleHiddenSync: "hidden waits",
		gpuprof.RuleAllocatorChurn: "device memory requests", gpuprof.RuleBlockingCopy: "blocking copies", gpuprof.RulePageableH2D: "pageable copies",
		gpuprof.RuleExposedCopy: "exposed copies", gpuprof.RuleDataloaderStall: "data loader", gpuprof.RuleLaunchBound: "kernel launches",
		gpuprof.RuleHostBound: "host thread", gpuprof.RuleDataShape: "data-dependent shapes", gpuprof.RuleDDPBuffers: "buffer broadcasts",
		gpuprof.RuleSmallGrid: "small grids", gpuprof.RuleDeterministic: "deterministic sums", gpuprof.RuleDeterministicFill: "memory fills",
		gpuprof.RuleNoTF32: "float32 products", gpuprof.RuleNoAMP: "float32 products", gpuprof.RuleTensorCores: "tensor cores unused",
		gpuprof.RuleOffPeakGEMM: "unaligned products", gpuprof.RuleAttentionOffPeak: "attention kernel", gpuprof.RuleMemoryBoundChain: "memory traffic",
		gpuprof.RuleSmallCollective: "small collectives", gpuprof.RuleUnfusedAttention: "unfused attention", gpuprof.RuleElementwiseChain: "element-wise kernels",
		gpuprof.RuleExposedComm: "exposed communication", gpuprof.RuleStraggler: "one rank", gpuprof.RuleStreamWait: "stream waits",
		gpuprof.RuleOutsideOperators: "code outside operators", gpuprof.RuleCheckpointWrite: "checkpoints", gpuprof.RuleLogging: "logging",
		gpuprof.RuleStarvedMachine: "CPUs in use elsewhere", gpuprof.RuleRecomputation: "recomputation", gpuprof.RuleFloat64: "float64 parameters",
		gpuprof.RuleTooManyThreads: "too many threads", gpuprof.RuleAnomalyMode: "anomaly detection", gpuprof.RuleOptimizerLoop: "optimizer loop",
		gpuprof.RuleDecodeBytes: "weights read", gpuprof.RuleDecodeAllReduce: "all-reduces", gpuprof.RulePipelineBubble: "pipeline bubble",
		gpuprof.RuleExpertImbalance: "uneven experts", gpuprof.RulePrefillInDecode: "prefill in decode", gpuprof.RuleEagerDecode: "eager decode", gpuprof.RuleSchedulerGap: "gaps of the scheduler",
		gpuprof.RuleUnifiedMemory: "page moves", gpuprof.RuleRecompilation: "recompilation", gpuprof.RuleHostOperator: "one host operator", gpuprof.RuleOneKernel: "one kernel",
	}
}
