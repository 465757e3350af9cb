package gpuprof

import "strings"

// EvidenceSavedBytes is the key of a run's evidence for what a finding about memory saves.
const EvidenceSavedBytes = "saved_bytes"

// Finding is one thing to change, with what it rests on: of a measured run, or
// of a trace. No finding claims more than the time it accounts for, and no time is
// claimed twice. Fields that a document has no use for are left out of it.
type Finding struct {
	Rule     string   `json:"rule"`
	Severity Severity `json:"severity,omitempty"` // of a trace's
	Title    string   `json:"title,omitempty"`    // one sentence; of a trace's
	Input    int      `json:"input,omitempty"`    // index into the inputs of an analysis

	// What to change in a workload: a knob, and its value before and after.
	Stage string `json:"stage,omitempty"`
	Knob  string `json:"knob,omitempty"`
	From  string `json:"from,omitempty"`
	To    string `json:"to,omitempty"`

	// The largest possible saving. A run has it in seconds per step, a trace in
	// nanoseconds: over all steady steps, and per mean step. See PerStepS.
	ClaimS  float64 `json:"claim_s,omitempty"`
	ClaimNS int64   `json:"claim_ns,omitempty"`
	StepNS  int64   `json:"claim_step_ns,omitempty"`
	Share   float64 `json:"claim_share,omitempty"` // of the steady time of a trace
	// A cause that comes in some steps only claims nothing of the recorded ones. RareNS is its time in the mean of the
	// steps after them, in which the host was sampled, and RareShare its part of that mean.
	RareNS    int64   `json:"rare_step_ns,omitempty"`
	RareShare float64 `json:"rare_share,omitempty"`
	// Parts divides StepNS by the part of the step that it falls in, a class or an idle state; only a trace has it.
	Parts map[string]int64 `json:"claim_parts,omitempty"`

	Evidence map[string]any `json:"evidence"`            // counts and times
	Sites    []Site         `json:"sites,omitempty"`     // top call sites
	Caveats  []string       `json:"caveats,omitempty"`   // what could make the saving smaller
	Suspect  bool           `json:"suspected,omitempty"` // the evidence is indirect
	Command  string         `json:"command"`             // measures the change
	PyTorch  string         `json:"pytorch"`             // what to change in a PyTorch program
}

// TryCommand returns the command to print with a finding of a trace; "" for none. Without a claim there is no time to
// measure, and only the profiler of a kernel is left.
func (f *Finding) TryCommand() string {
	if f.ClaimNS > 0 || f.Rule == RuleOneKernel {
		return f.Command
	}
	return ""
}

// SavesTime reports whether the finding claims time, or has a cause that takes time in some steps.
func (f *Finding) SavesTime() bool { return f.ClaimNS > 0 || f.RareNS > 0 }

// PerStepS is the largest possible saving in seconds per step, of a run's finding or a trace's.
func (f *Finding) PerStepS() float64 {
	if f.StepNS > 0 {
		return Seconds(f.StepNS)
	}
	return f.ClaimS
}

// Seconds converts a trace's time in nanoseconds to seconds, the unit of a run.
func Seconds(ns int64) float64 { return float64(ns) / 1e9 }

// Severity orders findings for people, by the share of the step that they claim.
type Severity string

// The severities.
const (
	High   Severity = "high"   // at least 10 %
	Medium Severity = "medium" // at least 3 %
	Low    Severity = "low"
	Note   Severity = "info" // claims no time
)

// Site is a place in the measured program.
type Site struct {
	Where string  `json:"where"` // "train.py:41 in step", a stage, a kernel
	Count float64 `json:"count"`
	Of    string  `json:"of,omitempty"` // what is counted: "copy", "call", "gap"; "" times
	NS    int64   `json:"ns,omitempty"` // spent there; 0 unknown
}

// CheckState grades how well something can be measured.
type CheckState string

// The states of a CheckLine.
const (
	OK      CheckState = "ok"
	Limited CheckState = "limited" // measured, with the drawback in Reason
	Missing CheckState = "missing"
)

// CheckLine is the result of one check of the machine or of a device.
type CheckLine struct {
	Name   string     `json:"name"`
	State  CheckState `json:"state"`
	Found  string     `json:"found"`  // what is there
	Reason string     `json:"reason"` // why it is not ok; empty when it is
	Fix    string     `json:"fix"`    // what to do about it
	Vital  bool       `json:"vital"`  // without it nothing can be measured
	// Because names the line with the same cause: without a driver there is neither a GPU nor a GPU library.
	Because string `json:"because,omitempty"`
	// Detail marks a line of little weight: no measurement fails without it.
	Detail bool `json:"detail,omitempty"`
}

// FailedCheck returns the line about a thing that is missing because of a failure.
func FailedCheck(name string, err error) CheckLine {
	reason, fix := FixOf(err)
	if fix == "" {
		fix = "see the reason"
	}
	return CheckLine{Name: name, State: Missing, Found: "none", Reason: strings.Join(strings.Fields(reason), " "), Fix: fix}
}
