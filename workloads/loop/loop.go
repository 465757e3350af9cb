// Package loop is what the training loops of the workloads have in common: the
// stages of a batch on its way through host and device, and the knobs for habits
// of such loops, each with the problem that it solves and what it stands for in a
// PyTorch program.
package loop

import (
	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device"
)

// The stages that every loop has, and those of its batches.
const (
	Collate      = "collate"
	Stage        = "stage"
	H2D          = "h2d"
	D2H          = "d2h"
	Sync         = "sync"
	Backpressure = "backpressure"
)

// Waits are the last two stages of a step.
func Waits() []gpuprof.Stage {
	return []gpuprof.Stage{
		{Name: Sync, Kind: gpuprof.WaitStage, Role: gpuprof.RoleSync},
		{Name: Backpressure, Kind: gpuprof.WaitStage, Role: gpuprof.RoleSlot},
	}
}

// Host is the collating that a caller does itself, in a workload without workers.
func Host() gpuprof.Stage {
	return gpuprof.Stage{Name: Collate, Kind: gpuprof.HostStage, Role: gpuprof.RoleCollate,
		Try: "gpuprof run collate --set workers=0,1,2,4", PyTorch: WorkersAdvice}
}

// Transfer is the copy of a batch to the device, Result that of the result back.
func Transfer() gpuprof.Stage { return gpuprof.Stage{Name: H2D, Role: gpuprof.RoleTransfer} }

// Result is the copy of what a step computed back to the host.
func Result() gpuprof.Stage { return gpuprof.Stage{Name: D2H, Role: gpuprof.RoleResult} }

// WorkersAdvice is how a PyTorch program has its batches made beside it.
const WorkersAdvice = "DataLoader(..., num_workers=max(1, min(os.cpu_count() - 1, 4)), persistent_workers=True, prefetch_factor=4)"

// caller are the stages that a wait of the caller can lengthen, copies those that
// the way of copying does.
func caller() []string {
	return []string{Sync, gpuprof.StageLaunch, gpuprof.StageGap, Collate, Stage, Backpressure}
}

func copies() []string { return []string{H2D, D2H, Stage, Sync, Backpressure} }

// Silent is the probe of steps that are not measured.
type Silent struct{}

// Start implements workloads.Probe.
func (Silent) Start(int) error { return nil }

// Begin implements workloads.Probe.
func (Silent) Begin(int, device.Stream) int { return -1 }

// End implements workloads.Probe.
func (Silent) End(int) {}
