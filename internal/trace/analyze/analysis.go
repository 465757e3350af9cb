package analyze

import (
	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/document"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// Analysis describes the program that made a set of traces (one, or the ranks of one job). Times are in ns.
type Analysis struct {
	gpuprof.Head
	Inputs     []Input             `json:"inputs"`
	Program    *model.Program      `json:"program,omitempty"`   // the recorded program, if the recording names it
	Recording  *Recording          `json:"recording,omitempty"` // of the first input
	StepSource string              `json:"step_source"`         // "ProfilerStep", "annotation NAME", "nvtx NAME" or "whole trace"
	Step       StepMean            `json:"step"`
	Explained  []Explanation       `json:"explained"`
	Bound      Bound               `json:"bound"`
	Steps      []StepTime          `json:"steps"`
	Devices    []DeviceAccount     `json:"devices"`
	Syncs      map[string]CallTime `json:"syncs"`  // by API name; excludes the final call, with which the profiler stops
	Copies     map[string]CopyTime `json:"copies"` // by "h2d_pageable", "h2d_pinned", "d2h_pageable", "d2d" …
	Kernels    []KernelTime        `json:"kernels"`
	Operators  []OperatorTime      `json:"operators"`
	Modules    []OperatorTime      `json:"modules,omitempty"` // nn.Module and record_function ranges
	Ranks      []RankTime          `json:"ranks,omitempty"`
	Host       *HostAccount        `json:"host,omitempty"` // of the first input; nil unless gpuprof's hook recorded it
	// Roofline describes the first input; nil if no shapes of operators were recorded.
	Roofline *Roofline         `json:"roofline,omitempty"`
	Findings []gpuprof.Finding `json:"findings"`
	Warnings []gpuprof.Warning `json:"warnings"`

	// Claimed holds, for each finding, the time spans that its change would save, for drawing; nil in an analysis that
	// was read from a file.
	Claimed [][]model.Span `json:"-"`
}

// ClaimedBy returns the time spans that the change of the i-th finding would save; nil in an analysis read from a file.
func (a *Analysis) ClaimedBy(i int) []model.Span {
	if i >= len(a.Claimed) {
		return nil
	}
	return a.Claimed[i]
}

// Decode reads an analysis. name is the file name in errors, which wrap ErrInput.
func Decode(text []byte, name string) (*Analysis, error) {
	a := &Analysis{}
	if err := document.Decode(text, name, a, document.Analysis); err != nil {
		return a, err
	}
	a.renameOldFields()
	return a, nil
}

// DecodeComparison reads a comparison of two analyses; see Decode.
func DecodeComparison(text []byte, name string) (*Comparison, error) {
	c := &Comparison{}
	if err := document.Decode(text, name, c, document.TraceComparison); err != nil {
		return c, err
	}
	c.renameOldFields()
	return c, nil
}

// Input describes one input file.
type Input struct {
	Path      string       `json:"path"`
	Kind      model.Format `json:"kind"`
	Events    int          `json:"events"`
	Rank      int          `json:"rank"` // -1 unknown
	Truncated bool         `json:"truncated,omitempty"`
}

// Explanation explains one part of the mean step: the largest one, or an idle state of a fifth of the step or more.
type Explanation struct {
	Part      string  `json:"part"` // a class, or an idle state
	NS        int64   `json:"ns"`   // in the mean step
	Share     float64 `json:"share"`
	ClaimedNS int64   `json:"claimed_ns"` // the part of ns that the changes of findings would save
	// Waits lists the reasons why the device waited, the longest first; for idle states only.
	Waits []Wait `json:"waits,omitempty"`
	Text  string `json:"text"` // the explanation in sentences
}

// Bound names the resource that takes most of the mean step and so bounds the program.
type Bound struct {
	By      string  `json:"by"`      // "compute", "memory", "communication", "host", "waits", "other", "" unknown
	NS      int64   `json:"ns"`      // in the mean step
	Share   float64 `json:"share"`   // of the mean step
	Nothing bool    `json:"nothing"` // no finding would save LeastShare of the step or more
	Text    string  `json:"text"`    // sentences; printed in place of findings if there are none
}

// Wait is one reason for which a device waited, in the mean step.
type Wait struct {
	For   string  `json:"for"`
	NS    int64   `json:"ns"`
	Count float64 `json:"count"` // number of waits per step
}

// StepTime is one step of one input. A step begins on the host, or when the device has finished the work of earlier
// steps if that is later. It ends with the last device operation launched in it, so steps are disjoint. Analysis.Step
// is the mean over the steps that are not dropped.
type StepTime struct {
	Name      string                `json:"name"`
	Input     int                   `json:"input"`  // index into inputs
	Device    int                   `json:"device"` // the device with the most launches, -1 none
	StartNS   int64                 `json:"start_ns"`
	DurNS     int64                 `json:"dur_ns"`
	HostNS    int64                 `json:"host_start_ns"` // start of the step on the host, as recorded
	HostDurNS int64                 `json:"host_dur_ns"`
	BusyNS    int64                 `json:"busy_ns"`
	KernelNS  int64                 `json:"kernel_ns"`
	StarvedNS int64                 `json:"starved_ns"`
	QueuedNS  int64                 `json:"queued_ns"`
	UnknownNS int64                 `json:"unknown_ns"`
	LoaderNS  int64                 `json:"loader_ns"`
	Classes   map[model.Class]int64 `json:"classes,omitempty"`
	Dropped   bool                  `json:"dropped,omitempty"` // findings and means leave the step out, as for warm-up
}

// DeviceAccount divides the time of one device over the whole recording: busy + idle = span, starved + queued +
// unknown = idle, and the classes add up to busy.
type DeviceAccount struct {
	ID         int    `json:"id"`
	Input      int    `json:"input"`
	Name       string `json:"name"`
	Capability string `json:"capability"` // "8.0", "" unknown
	StartNS    int64  `json:"start_ns"`
	SpanNS     int64  `json:"span_ns"` // from the start of the first operation to the end of the last one
	BusyNS     int64  `json:"busy_ns"`
	KernelNS   int64  `json:"kernel_ns"`
	MemcpyNS   int64  `json:"memcpy_ns"`
	MemsetNS   int64  `json:"memset_ns"`
	IdleNS     int64  `json:"idle_ns"`
	StarvedNS  int64  `json:"starved_ns"`
	QueuedNS   int64  `json:"queued_ns"`
	UnknownNS  int64  `json:"unknown_ns"`
	// Lead is the wait from the start of the first step to the first operation of the device; the span excludes it.
	Lead    Waits `json:"lead"`
	Kernels int   `json:"kernels"`
	Linked  int   `json:"kernels_linked"` // kernels whose launch was recorded
	// Utilisation is the share of the time from the first step to the last device operation in which a kernel runs.
	Utilisation float64               `json:"utilisation"`
	Classes     map[model.Class]int64 `json:"classes"`
	// Step divides the device's time in the mean step of the trace that contains the device.
	Step Parts `json:"step"`
}

// Waits divides idle time into starved, queued and unknown time (see DeviceTime).
type Waits struct {
	StarvedNS int64 `json:"starved_ns"`
	QueuedNS  int64 `json:"queued_ns"`
	UnknownNS int64 `json:"unknown_ns"`
}

// CallTime adds up calls of one API function.
type CallTime struct {
	Count  int   `json:"count"`
	HostNS int64 `json:"host_ns"`
}

// CopyTime adds up copies of one direction and kind of host memory.
type CopyTime struct {
	Count  int   `json:"count"`
	Bytes  int64 `json:"bytes"`
	GPUNS  int64 `json:"gpu_ns"`
	HostNS int64 `json:"host_ns"` // in the calls that requested the copies
}

// KernelTime adds up the device operations of one name.
type KernelTime struct {
	Name   string      `json:"name"`
	Class  model.Class `json:"class"`
	Count  int         `json:"count"`
	NS     int64       `json:"ns"`
	Median int64       `json:"median_ns"`
	// Operator is the operator that launched most of this time, "" unknown.
	Operator string `json:"operator,omitempty"`
}

// OperatorTime adds up the calls of one operator or module over the steps that are not dropped (without steps, over the
// recording). Self time excludes nested operators. GPUNS is the time of the device operations that the calls launched.
type OperatorTime struct {
	Name   string `json:"name"`
	Count  int    `json:"count"`
	HostNS int64  `json:"host_ns"`
	SelfNS int64  `json:"self_ns"`
	GPUNS  int64  `json:"gpu_ns"`
	// StepSelfNS and StepGPUNS are the times in the mean step.
	StepSelfNS int64  `json:"step_self_ns"`
	StepGPUNS  int64  `json:"step_gpu_ns"`
	Where      string `json:"where,omitempty"` // file:line where known
}

// RankTime compares the ranks of one job, in the mean step of each (without steps, in the recording window).
type RankTime struct {
	Rank          int   `json:"rank"`
	Input         int   `json:"input"`
	Device        int   `json:"device"`
	StepNS        int64 `json:"step_ns"`
	ComputeNS     int64 `json:"compute_ns"`
	CommNS        int64 `json:"comm_ns"`
	ExposedCommNS int64 `json:"exposed_comm_ns"`
	IdleNS        int64 `json:"idle_ns"`
	HiddenCommNS  int64 `json:"hidden_comm_ns"`      // communication during computation
	Straggler     bool  `json:"straggler,omitempty"` // the other ranks wait for this rank
	// WaitedNS is the time for which another rank waits for this rank, in the median of the other ranks. LastIn counts
	// the matched collectives at which this rank arrives last.
	WaitedNS    int64 `json:"waited_ns,omitempty"`
	LastIn      int   `json:"last_in,omitempty"`
	Collectives int   `json:"collectives,omitempty"`
	// Cause names the largest difference between the steps of the straggler and of the other ranks, "" unknown.
	Cause string `json:"cause,omitempty"`
}

// Found is a finding with the time on one device that its change would save (the claim).
type Found struct {
	gpuprof.Finding
	Spans  []model.Span // time on the device that the finding claims: disjoint, in order; the total is ClaimNS
	Device int          // index into Trace.Devices, -1 none
	// First sorts the finding before larger ones, because it is their cause.
	First bool
	// AnyProgram reports that the advised change is the same for every kind of program.
	AnyProgram bool
	// ByInput and ByDevice are the input and the device of the straggler, the rank for which the others wait. The wait
	// counts against the claims of this rank.
	ByInput, ByDevice int
	reduced           bool  // capClaims reduced the claim
	rare              int64 // RareShare of Index.Steady, ns; replaces a smaller ClaimNS in the sort order
}

// Comparison compares two analyses of one program, before and after a change.
type Comparison struct {
	gpuprof.Head
	Old       *Analysis       `json:"old"`
	New       *Analysis       `json:"new"`
	StepOldNS int64           `json:"step_old_ns"` // mean steps
	StepNewNS int64           `json:"step_new_ns"`
	Classes   []Change        `json:"classes"`   // kernel classes and idle states in the step, largest change first
	Operators []Change        `json:"operators"` // largest change first
	Settings  []SettingChange `json:"settings"`  // the settings that both recordings show with different values
	// Bounds compares operators with equal shapes before and after the change, also with their least possible times
	// (bounds). The largest change is first.
	Bounds   []BoundChange     `json:"bounds,omitempty"`
	Findings []FindingChange   `json:"findings"`
	Warnings []gpuprof.Warning `json:"warnings"`
}

// Change is one time before and after the change, ns per step.
type Change struct {
	Name  string `json:"name"`
	OldNS int64  `json:"old_ns"`
	NewNS int64  `json:"new_ns"`
}

// BoundChange compares an operator with equal shapes before and after the change. NS is its time per step, Share its
// least possible time (bound) as a share of NS. Precision and device may differ. Time and share are 0 if a side lacks
// the operator or the bound. For an operator or kernel without a cost model Shapes is empty.
type BoundChange struct {
	Name     string  `json:"name"`
	Shapes   string  `json:"shapes"`
	OldNS    int64   `json:"old_ns"`
	NewNS    int64   `json:"new_ns"`
	OldShare float64 `json:"old_share"`
	NewShare float64 `json:"new_share"`
	// OldKernel and NewKernel are the kernels with the most time, "" without a cost model.
	OldKernel string `json:"old_kernel,omitempty"`
	NewKernel string `json:"new_kernel,omitempty"`
}

// SettingChange is a setting that differs between two recordings.
type SettingChange struct {
	Name string `json:"name"`
	Old  string `json:"old"`
	New  string `json:"new"`
}

// FindingChange compares a finding before and after a change, and the claimed saving with the measured one.
type FindingChange struct {
	Rule  string `json:"rule"`
	OldNS int64  `json:"old_claim_step_ns"` // claimed per step before
	NewNS int64  `json:"new_claim_step_ns"` // claimed per step after
	// OldRareNS and NewRareNS are Finding.RareNS before and after the change.
	OldRareNS int64  `json:"old_rare_step_ns,omitempty"`
	NewRareNS int64  `json:"new_rare_step_ns,omitempty"`
	Outcome   string `json:"outcome"` // "gone", "smaller", "unchanged", "larger", "new"
	// Parts are the classes and idle states of the claim. If they are unknown (empty), the whole step counts.
	Parts []string `json:"parts,omitempty"`
	// DeliveredNS is the reduction of Parts per step. LowNS and HighNS bound its 95 % interval, from the variation of
	// the steps on both sides; nil with fewer than two steps on a side.
	DeliveredNS int64  `json:"delivered_step_ns"`
	LowNS       *int64 `json:"delivered_low_ns,omitempty"`
	HighNS      *int64 `json:"delivered_high_ns,omitempty"`
	SavedNS     int64  `json:"saved_step_ns"` // reduction of the mean step
	CameTrue    string `json:"came_true"`     // "yes", "partly", "no", "not tried", "unknown"
	Statement   string `json:"statement"`
}
