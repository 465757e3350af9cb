package analyze

import (
	"slices"

	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// Parts of the host thread's time. Those that begin with "outside" divide the time without recorded events.
const (
	HostOperators     = "operators"
	HostLoader        = "data loader"
	HostOptimizer     = "optimizer"
	HostCommunication = "communication"
	HostSync          = "synchronization"
	HostOnCPU         = "outside, on CPU"
	HostDelay         = "outside, waiting for a CPU"
	HostBlocked       = "outside, blocked"
	HostBlockedDelay  = "outside, blocked or waiting for a CPU"
	HostLock          = "outside, waiting for the GIL"
	HostOutside       = "outside operators"
)

// recordedParts are the parts that consist of recorded events. Time in several parts counts for the first of them.
var recordedParts = []string{HostLoader, HostOptimizer, HostCommunication, HostSync, HostOperators}

// HostAccount divides the mean step of the thread that runs the steps (the host thread). Times come from the steps that
// the profiler recorded without sampling. Places in the code come from stack samples of later steps.
type HostAccount struct {
	NS      int64       `json:"ns"`      // the mean recorded step; without steps, the recording window
	Parts   []HostPart  `json:"parts"`   // disjoint; they add up to ns
	Steps   int         `json:"steps"`   // number of steps in the mean; 0 if ns is the recording window
	Samples int         `json:"samples"` // stack samples
	Sampled int         `json:"sampled_steps"`
	BareNS  int64       `json:"bare_ns"` // length of a step without profiling, 0 unknown
	Causes  []HostCause `json:"causes"`  // causes of time outside operators, the longest first
	Stacks  []HostTree  `json:"stacks,omitempty"`

	sampledNS int64 // length of the mean sampled step, 0 without sampled steps

	// RunDelayNS is the time for which the thread waited for a CPU in the mean step, also within operators; negative if
	// unknown.
	RunDelayNS int64 `json:"run_delay_ns"`
	// PreemptedNS estimates the part of RunDelayNS that follows preemptions, by their share of the context switches.
	PreemptedNS int64 `json:"preempted_ns"`
	// CPUNS is the CPU time of the thread in the mean step, OthersNS the CPU time of the other threads of the process.
	CPUNS    int64 `json:"cpu_ns"`
	OthersNS int64 `json:"other_threads_cpu_ns"`
}

// HostPart is one part of the host thread's time.
type HostPart struct {
	Name  string  `json:"name"`
	NS    int64   `json:"ns"` // per step
	Share float64 `json:"share"`
}

// HostTree is a stack of the sampled thread, outermost frame first, with its time in the mean step.
type HostTree struct {
	Frames []string          `json:"frames"`
	NS     int64             `json:"ns"`
	Lines  []model.HostFrame `json:"-"` // the frames of Frames with file and line in separate fields
	Doing  model.ThreadState `json:"-"`
}

// Part returns the time of a part in the mean step, ns; 0 without the part.
func (a *HostAccount) Part(name string) int64 {
	for _, p := range a.Parts {
		if p.Name == name {
			return p.NS
		}
	}
	return 0
}

// Outside returns the time outside operators in the mean step, ns.
func (a *HostAccount) Outside() int64 {
	var ns int64
	for _, name := range []string{HostOnCPU, HostDelay, HostBlocked, HostBlockedDelay, HostLock, HostOutside} {
		ns += a.Part(name)
	}
	return ns
}

// Step returns the step length, ns, by which shares of the samples are multiplied. It is the length of a step without
// profiling, if known, but at most NS, because no finding may claim more than a part of the recorded step.
func (a *HostAccount) Step() int64 {
	if a.BareNS > 0 && a.BareNS < a.NS {
		return a.BareNS
	}
	return a.NS
}

// HostAccount returns the time breakdown of the host thread, which it computes at the first call. It returns nil if
// gpuprof's hook did not measure the recorded program.
func (x *Index) HostAccount() *HostAccount {
	if x.hostAccount == nil && x.T.Sampled != nil {
		x.hostAccount = x.newHostAccount()
	}
	return x.hostAccount
}

func (x *Index) newHostAccount() *HostAccount {
	s := x.T.Sampled
	if len(x.lanes) == 0 {
		return nil
	}
	over, steps := x.hostSteps()
	a := &HostAccount{NS: over.Total() / int64(max(steps, 1)), Steps: steps, Samples: s.Samples, Sampled: len(s.Sampled), BareNS: int64(s.BareS * 1e9), Parts: []HostPart{}, Causes: []HostCause{}}
	if a.NS <= 0 {
		return nil
	}
	a.sampledNS = int64(meanClocks(s.Sampled, len(s.Sampled)).WallS * 1e9)
	rest, n := over, int64(max(steps, 1))
	add := func(name string, ns int64) {
		if ns > 0 {
			a.Parts = append(a.Parts, HostPart{Name: name, NS: ns, Share: float64(ns) / float64(a.NS)})
		}
	}
	outside := a.NS
	for _, part := range recordedParts {
		when := x.hostSpans(part).And(rest)
		rest = rest.Minus(when)
		add(part, when.Total()/n)
		outside -= when.Total() / n
	}
	seen := newSampleSplit(s, float64(outside)/float64(a.NS), steps > 0)
	x.splitOutside(a, s, outside, seen, add)
	slices.SortStableFunc(a.Parts, func(p, q HostPart) int { return int(min(max(q.NS-p.NS, -1), 1)) })
	if a.contendsForGIL() {
		ns := a.Step() - a.sampledNS
		share := float64(ns) / float64(a.Step())
		a.Causes = append(a.Causes, HostCause{Kind: CauseLock, Where: "any line of the step", NS: ns, Share: share, Count: s.Samples, Anywhere: true})
	} else {
		a.Causes = append(a.Causes, seen.listCauses(a)...)
	}
	a.Stacks = seen.buildTrees(a.Step())
	return a
}

// hasOnlySamples reports whether the trace is of a Python program without torch, with samples but no events.
func (x *Index) hasOnlySamples() bool {
	return x.T.Format == model.Kineto && x.Recording.Program == Python
}

// HostPart returns the time of the host thread in the events of one of recordedParts, in the steps that are not
// dropped.
func (x *Index) HostPart(part string) model.Spans {
	over, _ := x.hostSteps()
	return x.hostSpans(part).And(over)
}

// HostOutside returns the time of the host thread outside all recordedParts, in the steps that are not dropped.
func (x *Index) HostOutside() model.Spans {
	out, _ := x.hostSteps()
	for _, part := range recordedParts {
		out = out.Minus(x.hostSpans(part))
	}
	return out
}

// hostSteps returns the host time of the steps that are not dropped, and their number; without steps, the steady part
// of the recording and 0.
func (x *Index) hostSteps() (model.Spans, int) {
	if !x.Stepped() {
		return x.Steady, 0
	}
	var v []model.Span
	for i := range x.Steps {
		if st := &x.Steps[i]; !st.Dropped && st.Lane == x.Main {
			v = append(v, st.Host)
		}
	}
	return model.UnionOf(v), len(v)
}

// hostSpans returns the time of the host thread in the events of one of recordedParts. Operators of the backward pass
// count even on other threads: the device threads of autograd run them while the host thread waits.
func (x *Index) hostSpans(part string) model.Spans {
	process := x.T.ProcessOf(x.Main)
	var v []model.Span
	for i := range x.T.Host {
		h := &x.T.Host[i]
		info := &x.Info[h.Name]
		mine := h.Lane == x.Main
		if !mine && (part != HostOperators || info.Flags&NameBackward == 0 || x.T.ProcessOf(h.Lane) != process) {
			continue
		}
		in := false
		switch ranged := h.Kind == model.Op || h.Kind == model.Annotation; part {
		case HostLoader:
			in = ranged && info.Flags&nameLoader != 0
		case HostOptimizer:
			in = ranged && info.Flags&NameOptimizer != 0
		case HostCommunication:
			in = ranged && info.op.class == cCommunication
		case HostSync:
			in = h.Kind == model.API && info.call == model.CallSync && int32(i) != x.Trailing
		case HostOperators:
			in = h.Kind == model.Op || h.Kind == model.API
		}
		if in {
			v = append(v, model.Span{Start: h.Start, End: h.End})
		}
	}
	return model.UnionOf(v)
}

// splitOutside divides the time outside operators (outside, ns per step) into: waiting for a CPU, blocked, waiting for
// the GIL, on CPU. It uses the thread clocks of the recorded steps. Blocked time in the loader, in synchronization and
// in communication is already in those parts. Of the other blocked time, the share that samples show in operators
// counts for the operators. add records one part.
func (x *Index) splitOutside(a *HostAccount, s *model.HostSamples, outside int64, seen *sampleClasses, add func(string, int64)) {
	a.RunDelayNS = -1
	rows := s.Recorded
	if a.Steps > 0 && len(rows) > a.Steps { // the first recorded steps are dropped as warm-up
		rows = rows[len(rows)-a.Steps:]
	}
	if len(rows) == 0 {
		add(HostOutside, outside)
		return
	}
	whole, fetch := meanClocks(rows, len(rows)), meanClocks(s.Fetches, len(s.Recorded))
	a.CPUNS, a.OthersNS = int64(whole.CPUS*1e9), int64(whole.OthersS*1e9)
	known := whole.DelayS >= 0
	if known {
		a.RunDelayNS = int64(whole.DelayS * 1e9)
		if n := whole.Blocks + whole.Preempted; n > 0 {
			a.PreemptedNS = int64(whole.DelayS * 1e9 * whole.Preempted / n)
		}
	} else {
		whole.DelayS, fetch.DelayS = 0, 0
	}
	scale := float64(a.NS) / (whole.WallS * 1e9)
	offCPU := func(c model.HostClocks) float64 { return max(0, c.WallS-c.CPUS-max(c.DelayS, 0)) * 1e9 * scale }
	blocked := max(0, offCPU(whole)-offCPU(fetch)-float64(a.Part(HostSync)+a.Part(HostCommunication)))
	blocked *= seen.blockedOutside()
	// The thread was blocked for the time in which it neither ran nor waited for a CPU, also in PyTorch's code without
	// events.
	blocked = max(blocked, float64(outside)-(whole.CPUS+max(whole.DelayS, 0))*1e9*scale)
	blocked = min(blocked, float64(outside))
	running := max(1, float64(a.NS-a.Part(HostLoader))-blocked)
	// The run delay, the wait for a CPU, can occur anywhere after a preemption, but after a blocking call only at the
	// call.
	delay := min((whole.DelayS-fetch.DelayS)*1e9*scale, running)
	woken := 0.0
	if n := whole.Blocks + whole.Preempted; n > 0 {
		woken = delay * whole.Blocks / n * seen.blockedOutside()
	}
	delay = woken + (delay-woken)*(float64(outside)-blocked)/running
	delay = min(max(delay, 0), float64(outside)-blocked)
	lock := blocked * seen.lockShare()
	if a.contendsForGIL() {
		lock = blocked
	}
	blockedPart := HostBlocked
	if !known {
		blockedPart = HostBlockedDelay
	}
	parts := []HostPart{{Name: HostDelay, NS: int64(delay)}, {Name: blockedPart, NS: int64(blocked - lock)}, {Name: HostLock, NS: int64(lock)}}
	for _, p := range parts {
		add(p.Name, p.NS)
		outside -= p.NS
	}
	add(HostOnCPU, outside)
}

// contendedFactor: a thread contends for the GIL if a step takes more than contendedFactor times as long as a sampled
// step.
const contendedFactor = 2

// contendsForGIL reports whether the thread mostly waits for other threads of its process that hold the GIL. Sampled
// steps are then shorter, because their short switch interval makes threads release the GIL more often.
func (a *HostAccount) contendsForGIL() bool {
	return a.Steps > 0 && a.sampledNS > 0 && a.Step() > contendedFactor*a.sampledNS && 2*a.OthersNS > a.NS
}

// meanClocks returns the sum of the rows divided by n. Negative sums, which mean unknown, stay.
func meanClocks(rows []model.HostClocks, n int) model.HostClocks {
	var sum model.HostClocks
	for _, r := range rows {
		sum.Add(r)
	}
	if n == 0 {
		return sum
	}
	over := func(v float64) float64 {
		if v < 0 {
			return v
		}
		return v / float64(n)
	}
	return model.HostClocks{WallS: over(sum.WallS), CPUS: over(sum.CPUS), DelayS: over(sum.DelayS), OthersS: over(sum.OthersS), Blocks: over(sum.Blocks), Preempted: over(sum.Preempted)}
}
