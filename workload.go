package gpuprof

import (
	"context"
	"time"
)

// StageKind says which clock a stage runs on.
type StageKind uint8

const (
	// DeviceStage has events on a stream and the caller's enqueue time.
	DeviceStage StageKind = iota
	// HostStage is the caller's own work (collate).
	HostStage
	// WaitStage is the caller blocked (sync, backpressure).
	WaitStage
)

// StageRole says what a stage does for the step. It decides which of two device
// stages that overlap owns an instant (a copy beside a kernel is hidden), and it is
// how the advice knows a stage, whatever its name. A workload has at most one stage
// of each role but RoleCompute.
type StageRole uint8

const (
	// RoleCompute runs kernels; copies within device memory are part of it. A
	// stage of the caller with this role is other work of its own.
	RoleCompute StageRole = iota
	// RoleTransfer only copies inputs from host to device.
	RoleTransfer
	// RoleResult only copies results from device to host.
	RoleResult
	// RoleSync is the caller waiting for the device because a knob asks for it.
	RoleSync
	// RoleSlot is the caller waiting until a batch in flight makes room.
	RoleSlot
	// RoleInput is the caller waiting for its next batch, whoever makes it.
	RoleInput
	// RoleSample is drawing the samples of a batch, inside RoleInput.
	RoleSample
	// RoleCollate is assembling a batch.
	RoleCollate
	// RoleStaging is copying a batch into the memory that the device copies from.
	RoleStaging
)

// String is the role as StageResult.Role holds it.
func (r StageRole) String() string {
	names := [...]string{"compute", "transfer", "result", "sync", "slot", "input", "sample", "collate", "staging"}
	if int(r) >= len(names) {
		return ""
	}
	return names[r]
}

// Copies says that a device stage only copies between host and device.
func (r StageRole) Copies() bool { return r == RoleTransfer || r == RoleResult }

// WholeStep begins the names of checks that compare what steps leave with float64 from the
// inputs of the first of them, by formulas that do not depend on the list of operations. The
// check of one operation starts from what that operation was given, so it cannot see an
// operation that is missing, runs twice or reads the wrong buffer.
const WholeStep = "whole step"

// The rows of a run that no workload declares.
const (
	// StageStep is the whole step, the parent of its stages.
	StageStep = "step"
	// StageLaunch is the caller enqueueing while nothing else runs.
	StageLaunch = "launch"
	// StageGap is the time that belongs to no stage.
	StageGap = "gap"
)

// Keys of Session.Input and of Observer's figures that the advice reads. A
// workload leaves out what it does not have.
const (
	InputWorkers    = "workers"          // that make batches; 0 is the caller
	InputQueueDepth = "queue_depth_mean" // batches that wait for the caller
	InputSampleS    = "make_sample_s"    // seconds of drawing a batch's samples, by the workers
	InputCollateS   = "make_collate_s"   // seconds of assembling a batch, by the workers

	// What the allocator reserves at the peak for the requests of the run, replayed: with the
	// run's settings, and with the one setting (knob=value) of those tried that reserves least.
	InputReplayedPeak = "replayed_peak_bytes"
	InputBestSetting  = "replayed_setting"
	InputBestPeak     = "replayed_setting_peak_bytes"

	// Bytes of the device in which windows of steps stay recorded for a way back, and those of one.
	InputRecorded       = "recorded_bytes"
	InputRecordedWindow = "recorded_window_bytes"
)

// Stage is one named part of a workload's step. The order of a session's
// stages is the order of the step; it decides which of two overlapping
// device stages of one role owns an instant.
type Stage struct {
	Name string
	Kind StageKind
	Role StageRole
	// Try is what to run, and PyTorch what to change, where the stage holds the
	// step back and no knob of the workload acts on it.
	Try, PyTorch string
	// TimedAlone says that recordings of other programs (gpu-check) time this
	// stage by itself too.
	TimedAlone bool
	MaxSpans   int // most Begin/End pairs in one step (layers, item reads)
	// Parts is what one step launches in this stage, with its cost by count.
	Parts []Part
	// Minimum is the least any implementation must compute and move for this
	// stage: every input read once, every output written once.
	Minimum Cost
}

// Cost sums the stage's parts.
func (s Stage) Cost() Cost {
	var c Cost
	for _, p := range s.Parts {
		c = c.Add(p.Cost)
	}
	return c
}

// Probe brackets a step's stages. Implementations must not allocate, block or
// log between Start and the step's last End.
type Probe interface {
	// Start marks the beginning of step i on the session's main stream.
	Start(step int) error
	// Begin opens a span of stage (an index into Session.Stages). s is nil
	// for work of the caller alone.
	Begin(stage int, s Stream) int
	// End closes the span Begin returned.
	End(span int)
}

// Workload is a program gpuprof can run: real arithmetic, checked against a
// reference, with named stages and knobs.
type Workload interface {
	Name() string
	Doc() string // one line
	// Presets are listed in this order; see Preset.DefaultOn.
	Presets() []Preset
	Knobs() []Knob
	// Stages are those of any setting, in the order of the step: names, kinds
	// and roles, without costs. A session has some or all of them.
	Stages() []Stage
	// Refuse names the knob or combination this device cannot honour.
	Refuse(Info, Settings) error
	Open(context.Context, Device, Config) (Session, error)
}

// Preset is a named set of knob values.
type Preset struct {
	Name string
	Doc  string
	Set  Settings // over the knobs' own defaults
	// DefaultOn are the kinds of device ("host", "cuda") on which this preset is
	// meant where none is named. Where no preset says so it is the first.
	DefaultOn []string
}

// Config is what a session is opened with.
type Config struct {
	Preset string
	Knobs  Settings // complete and canonical: see Resolve
	Seed   uint64
	Mode   Mode
}

// Session is a workload with its buffers allocated and its kernels loaded.
type Session interface {
	Stages() []Stage
	Main() Stream
	// Depth is how many steps can be in flight before the caller waits.
	Depth() int
	// Check compares every stage with a float64 reference, on poisoned outputs, and whole
	// steps (WholeStep) from their inputs.
	Check(context.Context) ([]Check, error)
	// Step enqueues step i. It allocates nothing.
	Step(i int, p Probe) error
	// Cycle is after how many steps the pattern of counters repeats (k for a
	// session that synchronises every k steps, else 1).
	Cycle() int
	// Work is the amount of useful work in one step, e.g. 512 "probes".
	Work() (amount float64, unit string)
	// Input describes the data: structure, degree, …
	Input() map[string]any
	Close() error
}

// Observer is a session that keeps an account of its own while steps run: what
// only it can see, such as a queue between threads.
type Observer interface {
	// Observed is read once, after the last step: figures for Run.Input, and
	// series for Run.Telemetry with their times counted from since.
	Observed(since time.Time) (map[string]any, map[string]Track)
}

// Joiner is a session whose main stream does not wait for all that its steps enqueue.
type Joiner interface {
	// Join makes the main stream wait for it. It allocates nothing.
	Join() error
}

// Join makes the main stream of s wait for all that its steps enqueued.
func Join(s Session) error {
	if j, ok := s.(Joiner); ok {
		return j.Join()
	}
	return nil
}

// Pauser is a session that works ahead of its caller.
type Pauser interface {
	// Pause ends that work and drops what it made, so that nothing of the
	// session runs until the next step. lead is how many steps it then takes
	// until the session works as far ahead as it may.
	Pause() (lead int, err error)
}

// Check is the comparison of one stage with its reference.
type Check struct {
	Stage string `json:"stage"`
	// RelativeError is ||out-ref|| / ||ref||; null when not a number.
	RelativeError Number  `json:"relative_error"`
	Tolerance     float64 `json:"tolerance"`
	Pass          bool    `json:"pass"`
	Rows          string  `json:"rows,omitempty"` // "all 512" or "66 of 3000"
	// Virtual says that a mean in virtual time was compared with theory: its error is that of a finite
	// simulation of the method, and none of what the settings compute.
	Virtual bool `json:"virtual,omitempty"`
}

// CheckReport is what gpuprof check says of a workload on a device: cases where vectors of
// another program were given, the stages otherwise.
type CheckReport struct {
	Head
	Workload string       `json:"workload"`
	Preset   string       `json:"preset,omitempty"`
	Device   string       `json:"device"`
	Cases    []CaseResult `json:"cases,omitempty"`
	Stages   []Check      `json:"stages,omitempty"`
}

// Failed is how many of the comparisons disagree with the reference, and of how many.
func (r *CheckReport) Failed() (failed, all int) {
	for _, c := range r.Cases {
		if !c.Pass {
			failed++
		}
	}
	for _, c := range r.Stages {
		if !c.Pass {
			failed++
		}
	}
	return failed, len(r.Cases) + len(r.Stages)
}

// VectorChecker is a workload that can compare its implementation with
// vectors made by another program.
type VectorChecker interface {
	// CheckVectors runs every case of a vectors file ({"cases":[…]}) in
	// float32 on the device and in float64 through the reference. A case it
	// cannot run is ErrInput, naming its index.
	CheckVectors(ctx context.Context, d Device, file []byte, name string) ([]CaseResult, error)
}

// CaseResult is the comparison of one vector case.
type CaseResult struct {
	Kind          string  `json:"kind"`
	Index         int     `json:"index"`
	Precision     string  `json:"precision"` // "float32" or "float64"
	RelativeError Number  `json:"relative_error"`
	Tolerance     float64 `json:"tolerance"`
	Pass          bool    `json:"pass"`
}
