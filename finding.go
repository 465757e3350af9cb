package gpuprof

import (
	"cmp"
	"strings"
)

// EvidenceSavedBytes is the key in Finding.Evidence of the bytes that a change would save.
const EvidenceSavedBytes = "saved_bytes"

// Finding is a proposed change with its evidence, from a measured run or a trace. Its claim, the largest possible
// saving, is at most the time of its cause. No two findings claim the same time. Files omit unused fields.
type Finding struct {
	Rule     string   `json:"rule"`
	Severity Severity `json:"severity,omitempty"` // of a trace
	Title    string   `json:"title,omitempty"`    // one sentence; of a trace
	Input    int      `json:"input,omitempty"`    // index into the inputs of an analysis

	// Findings of a measured run only: the stage, and the knob to change with its values before and after.
	Stage string `json:"stage,omitempty"`
	Knob  string `json:"knob,omitempty"`
	From  string `json:"from,omitempty"`
	To    string `json:"to,omitempty"`

	// The largest possible saving: of a run in seconds per step; of a trace in nanoseconds, over all steady steps
	// (ClaimNS) and per mean step (StepNS). See PerStepS.
	ClaimS  float64 `json:"claim_s,omitempty"`
	ClaimNS int64   `json:"claim_ns,omitempty"`
	StepNS  int64   `json:"claim_step_ns,omitempty"`
	Share   float64 `json:"claim_share,omitempty"` // ClaimNS as a share of the trace's steady time
	// RareNS is the mean time per step of a cause that occurs in some steps only, and in no recorded one. The mean is
	// over the steps after the recording, in which the host was sampled. RareShare is its share of their mean length.
	RareNS    int64   `json:"rare_step_ns,omitempty"`
	RareShare float64 `json:"rare_share,omitempty"`
	// Parts divides StepNS by class or idle state of the device; for traces only.
	Parts map[string]int64 `json:"claim_parts,omitempty"`

	Evidence map[string]any `json:"evidence"`            // counts and times
	Sites    []Site         `json:"sites,omitempty"`     // call sites with the largest counts
	Caveats  []string       `json:"caveats,omitempty"`   // reasons why the saving may be smaller
	Suspect  bool           `json:"suspected,omitempty"` // the evidence is indirect
	Command  string         `json:"command"`             // command that measures the change
	PyTorch  string         `json:"pytorch"`             // what to change in a PyTorch program
}

// TryCommand returns the command that a trace's finding shows; "" without one. A finding that claims no time has
// nothing to measure, except RuleOneKernel, whose command profiles the kernel.
func (f *Finding) TryCommand() string {
	if f.ClaimNS > 0 || f.Rule == RuleOneKernel {
		return f.Command
	}
	return ""
}

// SavesTime reports whether the finding can save time in every step, or its cause takes time in some steps.
func (f *Finding) SavesTime() bool { return f.ClaimNS > 0 || f.RareNS > 0 }

// PerStepS returns the largest possible saving in seconds per step, of a run or a trace.
func (f *Finding) PerStepS() float64 {
	if f.StepNS > 0 {
		return Seconds(f.StepNS)
	}
	return f.ClaimS
}

// Seconds converts nanoseconds to seconds.
func Seconds(ns int64) float64 { return float64(ns) / 1e9 }

// Severity grades findings by the share of the step that they could save.
type Severity string

// The severities.
const (
	High   Severity = "high"   // at least 10 %
	Medium Severity = "medium" // at least 3 %
	Low    Severity = "low"
	Note   Severity = "info" // no time to save
)

// Site is a place in the measured program.
type Site struct {
	Where string  `json:"where"` // "train.py:41 in step", a stage, a kernel
	Count float64 `json:"count"`
	Of    string  `json:"of,omitempty"` // the counted thing: "copy", "call", "gap"; "": Count is a number of times
	NS    int64   `json:"ns,omitempty"` // time spent there; 0 if unknown
}

// CheckState grades whether something can be measured.
type CheckState string

// The states of a CheckLine.
const (
	OK      CheckState = "ok"
	Limited CheckState = "limited" // measurable, with the drawback in Reason
	Missing CheckState = "missing"
)

// CheckLine is the result of one check of the machine or of a device.
type CheckLine struct {
	Name   string     `json:"name"`
	State  CheckState `json:"state"`
	Found  string     `json:"found"`  // what was found
	Reason string     `json:"reason"` // why the state is not ok; empty if it is
	Fix    string     `json:"fix"`    // what to do about it
	Vital  bool       `json:"vital"`  // nothing can be measured without it
	// Because names the line that causes this one: without a driver there is no GPU and no GPU library.
	Because string `json:"because,omitempty"`
	// Detail reports an unimportant line: no measurement depends on it, and it is not limited.
	Detail bool `json:"detail,omitempty"`
}

// FailedCheck returns the line of something that an error made unavailable.
func FailedCheck(name string, err error) CheckLine {
	reason, fix := FixOf(err)
	return CheckLine{Name: name, State: Missing, Found: "none", Reason: strings.Join(strings.Fields(reason), " "), Fix: cmp.Or(fix, "see the reason")}
}
