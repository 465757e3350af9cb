package gpuprof

// StageKind selects the clock that times a stage.
type StageKind uint8

const (
	// DeviceStage has events on a stream and the caller's enqueue time.
	DeviceStage StageKind = iota
	// HostStage is the caller's own work (collate).
	HostStage
	// WaitStage is the caller blocked (sync, backpressure).
	WaitStage
)

// StageRole is the part that a stage plays in the step. It decides which of two overlapping device stages owns an
// instant (a copy during a kernel is hidden), and the advice recognises a stage by it, whatever its name. A workload
// has at most one stage of each role except RoleCompute.
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

// String returns the role's name in StageResult.Role.
func (r StageRole) String() string {
	names := [...]string{"compute", "transfer", "result", "sync", "slot", "input", "sample", "collate", "staging"}
	if int(r) >= len(names) {
		return ""
	}
	return names[r]
}

// Copies reports whether a device stage only copies between host and device.
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

	// Device bytes in which windows of steps stay recorded for a backward pass, and the bytes of one window.
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
	// Try is a command to run, and PyTorch a change to make, if the stage limits the step and no knob of the
	// workload acts on it.
	Try, PyTorch string
	// TimedAlone: recordings of other programs (gpu-check) time this stage by itself too.
	TimedAlone bool
	MaxSpans   int // most Begin/End pairs in one step (layers, item reads)
	// Parts lists the launches of one step in this stage, with their cost by count.
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
