package gpuprof

// StageKind selects the clock for the time of a stage.
type StageKind uint8

const (
	// DeviceStage is timed by events on a stream and by the caller's enqueue time.
	DeviceStage StageKind = iota
	// HostStage is work of the caller, such as collating.
	HostStage
	// WaitStage is time in which the caller is blocked (sync, backpressure).
	WaitStage
)

// StageRole is the function of a stage in the step. It decides to which of two overlapping device stages their common
// time belongs: a copy during a kernel is hidden. Findings recognise a stage by its role. A workload has at most one
// stage of each role except RoleCompute.
type StageRole uint8

const (
	// RoleCompute is kernels and copies within device memory, or on the host any work without another role.
	RoleCompute StageRole = iota
	// RoleTransfer is only copies of inputs from host to device.
	RoleTransfer
	// RoleResult is only copies of results from device to host.
	RoleResult
	// RoleSync is the caller waiting for the device because a setting demands it, such as sync=step.
	RoleSync
	// RoleSlot is the caller waiting until one of the batches in flight finishes.
	RoleSlot
	// RoleInput is the caller waiting for its next batch, or making it.
	RoleInput
	// RoleSample is drawing the samples of a batch; it is within RoleInput.
	RoleSample
	// RoleCollate is assembling a batch.
	RoleCollate
	// RoleStaging is copying a batch to the host memory that the device copies from.
	RoleStaging
)

// String returns the role as in StageResult.Role.
func (r StageRole) String() string {
	names := [...]string{"compute", "transfer", "result", "sync", "slot", "input", "sample", "collate", "staging"}
	if int(r) >= len(names) {
		return ""
	}
	return names[r]
}

// Copies reports whether a device stage only copies between host and device.
func (r StageRole) Copies() bool { return r == RoleTransfer || r == RoleResult }

// WholeStep is the prefix of the names of whole-step checks. They compute the step in float64 from the first step's
// inputs, by formulas that do not use the list of operations. The check of one operation starts from that operation's
// inputs, so it cannot detect an operation that is missing, runs twice or reads the wrong buffer.
const WholeStep = "whole step"

// The stages that every run has without a workload's declaration.
const (
	// StageStep is the whole step, the parent of the stages.
	StageStep = "step"
	// StageLaunch is the caller enqueueing while nothing runs on the device.
	StageLaunch = "launch"
	// StageGap is the time that no stage owns.
	StageGap = "gap"
)

// Keys of Session.Input and of Observer's figures for findings. A workload omits those that do not apply.
const (
	InputWorkers    = "workers"          // workers that make batches; 0 if the caller makes them
	InputQueueDepth = "queue_depth_mean" // mean number of batches waiting for the caller
	InputSampleS    = "make_sample_s"    // seconds in which workers draw a batch's samples
	InputCollateS   = "make_collate_s"   // seconds in which workers assemble a batch

	// Bytes that the allocator reserves at the peak in a replay of the run's requests: with the run's settings, and
	// with the tried setting (knob=value) that reserves least.
	InputReplayedPeak = "replayed_peak_bytes"
	InputBestSetting  = "replayed_setting"
	InputBestPeak     = "replayed_setting_peak_bytes"

	// Device bytes of all windows of steps that are kept for a backward pass, and of one window.
	InputRecorded       = "recorded_bytes"
	InputRecordedWindow = "recorded_window_bytes"
)

// Stage is one named part of a workload's step. The order of a session's stages is the order of the step; it
// decides to which of two overlapping device stages of the same role their common time belongs.
type Stage struct {
	Name string
	Kind StageKind
	Role StageRole
	// Try and PyTorch are advice for a limiting stage that no knob changes: a command to run, and a change to a PyTorch
	// program.
	Try, PyTorch string
	// TimedAlone reports that recordings of other programs (gpu-check) time this stage alone too.
	TimedAlone bool
	MaxSpans   int // largest number of Begin/End pairs per step (layers, item reads)
	// Parts lists the stage's launches per step with their counted cost.
	Parts []Part
	// Minimum is the least work of any implementation of the stage: each input read once, each output written once.
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
