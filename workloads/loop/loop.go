// Package loop holds common parts of the workloads' training loops. They are the stages of a batch from host to device
// and back, and knobs for typical inefficient habits of training loops, each with the problem that it solves and the
// PyTorch equivalent.
package loop

import (
	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device"
)

// Names of the stages of a loop and its batches.
const (
	Collate      = "collate"
	Stage        = "stage"
	H2D          = "h2d"
	D2H          = "d2h"
	Sync         = "sync"
	Backpressure = "backpressure"
)

// Waits returns the last two stages of a step, in which the caller waits.
func Waits() []gpuprof.Stage {
	return []gpuprof.Stage{
		{Name: Sync, Kind: gpuprof.WaitStage, Role: gpuprof.RoleSync},
		{Name: Backpressure, Kind: gpuprof.WaitStage, Role: gpuprof.RoleSlot},
	}
}

// Host returns the stage in which the caller itself collates, in a workload without workers.
func Host() gpuprof.Stage {
	return gpuprof.Stage{Name: Collate, Kind: gpuprof.HostStage, Role: gpuprof.RoleCollate,
		Try: "gpuprof run collate --set workers=0,1,2,4", PyTorch: WorkersAdvice}
}

// Transfer returns the stage that copies a batch to the device.
func Transfer() gpuprof.Stage { return gpuprof.Stage{Name: H2D, Role: gpuprof.RoleTransfer} }

// Result returns the stage that copies the output of a step to the host.
func Result() gpuprof.Stage { return gpuprof.Stage{Name: D2H, Role: gpuprof.RoleResult} }

// WorkersAdvice is the PyTorch line that makes batches in worker processes.
const WorkersAdvice = "DataLoader(..., num_workers=max(1, min(os.cpu_count() - 1, 4)), persistent_workers=True, prefetch_factor=4)"

// callerStages returns the stages that a wait of the caller can lengthen; copyStages the stages that copies affect.
func callerStages() []string {
	return []string{Sync, gpuprof.StageLaunch, gpuprof.StageGap, Collate, Stage, Backpressure}
}

func copyStages() []string { return []string{H2D, D2H, Stage, Sync, Backpressure} }

// Silent is the probe for steps that are not measured.
type Silent struct{}

// Start implements workloads.Probe.
func (Silent) Start(int) error { return nil }

// Begin implements workloads.Probe.
func (Silent) Begin(int, device.Stream) int { return -1 }

// End implements workloads.Probe.
func (Silent) End(int) {}
