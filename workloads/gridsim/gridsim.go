// Package gridsim is the reference workload of a grid that evolves by a local law. Every cell holds a state vector; a
// step runs one small network on each cell and the mean of its eight neighbours. In some steps maps of the state are
// copied to the host for a live picture. Nothing is trained. The workload models a simulation loop with a caching
// allocator, cache trims, memory counters and transfers.
//
// Read top down: model.go defines the model, laws.go lists a step's operations, session.go allocates, memory.go has the
// allocators, step.go is the timed step. check.go compares with the float64 formulas of reference.go. A kernel is
// NAME.go, NAME_host.go and, for a GPU, NAME.cu.
package gridsim

import (
	"cmp"
	"context"
	"strconv"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads"
	"github.com/gpuprof/gpuprof/workloads/device"
)

// Workload is the gridsim workload; it has no state.
type Workload struct{}

// New returns the workload.
func New() workloads.Workload { return Workload{} }

// Name implements workloads.Workload.
func (Workload) Name() string { return "gridsim" }

// Doc implements workloads.Workload.
func (Workload) Doc() string {
	return "grid that evolves by a local law: neighbours and a small network in every cell, maps for a live picture, allocator habits"
}

// Presets implements workloads.Workload.
func (Workload) Presets() []workloads.Preset {
	aetheria := gpuprof.Settings{"grid": "512", "channels": "16", "hidden": "64", "live": "every:10", "scale": "4", "history": "4"}
	naive := gpuprof.Settings{
		"impl": implSplit, "allocator": allocPool, "pool_trim": "every:1", "view_when": whenEager, "view_copy": copyEach,
		"pool_where": whereHost, "stats": statsSync, "sync": "step",
	}
	for k, v := range aetheria {
		naive[k] = v
	}
	return []workloads.Preset{
		{Name: "small", Doc: "128 x 128 cells, 8 channels, 32 hidden units: seconds on two cores", DefaultOn: []string{"host"}},
		{Name: "aetheria", Doc: "512 x 512 cells, 16 channels, 64 hidden units, 4 earlier states kept", Set: aetheria, DefaultOn: []string{"cuda"}},
		{Name: "large", Doc: "2,048 x 2,048 cells, 16 channels, 64 hidden units",
			Set: gpuprof.Settings{"grid": "2048", "channels": "16", "hidden": "64", "live": "every:10", "scale": "4"}},
		{Name: "naive", Doc: "aetheria with one launch per operation, a cache trim and all maps copied in pieces every step", Set: naive},
	}
}

// Values of knobs that the code compares with.
const (
	lawMLP     = "mlp"
	lawDiffuse = "diffuse"
	lawWalk    = "walk"

	implFused = "fused"
	implGemm  = "gemm"
	implSplit = "split"

	allocArena  = "arena"
	allocPool   = "pool"
	allocDriver = "driver"

	whenLazy   = "lazy"
	whenEager  = "eager"
	copyPacked = "packed"
	copyEach   = "each"
	whereHost  = "host"

	keepDevice = "device"
	keepHost   = "host"

	tapeNodes = "nodes"
	tapeSaved = "saved"
	statsSync = "sync"

	never    = "never"
	whole    = "all"
	borderO  = "zero"
	layoutHW = "hwc"
)

// Limits of the model knobs. They keep a cell's vectors in registers or local memory.
const (
	maxGrid     = 8192
	maxChannels = 64
	maxHidden   = 1024
	maxMaps     = 4
	regions     = 32 // number of regions that roi=on keeps
)

// Stages implements workloads.Workload.
func (Workload) Stages() []gpuprof.Stage { return allStages() }

// Refuse implements workloads.Workload.
func (Workload) Refuse(d device.Info, set gpuprof.Settings) error {
	k := workloads.Read[settings](set)
	return cmp.Or(workloads.RefuseThreads(d, k.Threads), refuseModel(k), refuseConflicts(k), refuseGraph(k, set), refuseLibrary(d, k))
}

func refusedSetting(fix, format string, args ...any) error {
	return gpuprof.Errorf(gpuprof.ErrUsage, format, args...).WithFix("%s", fix)
}

func refuseModel(k settings) error {
	grid, channels, scale := k.Grid, k.Channels, k.Scale
	switch {
	case channels%2 != 0:
		return refusedSetting("use an even number", "setting channels=%d: half of the channels are real parts, half imaginary", channels)
	case grid%scale != 0:
		return refusedSetting("use a divisor of grid", "setting scale=%d with grid=%d: a pixel of the picture is the mean of whole cells", scale, grid)
	case k.Law == lawWalk && channels%4 != 0:
		return refusedSetting("use a multiple of 4", "setting law=walk with channels=%d: it turns pairs of complex channels", channels)
	case k.Law == lawWalk && k.Border == borderO:
		return refusedSetting("use border=periodic", "setting law=walk with border=zero: what leaves the grid would be lost")
	case k.Keep != keepDevice && k.History == 0:
		return refusedSetting("use history=1 or more, or keep=device", "setting keep=%s with history=0: no earlier state is kept", k.Keep)
	}
	return nil
}

// refuseConflicts refuses combinations of implementation settings that exclude each other.
func refuseConflicts(k settings) error {
	impl, law := k.Impl, k.Law
	switch {
	case k.Chunk > 0 && impl == implFused:
		return refusedSetting("use chunk=all, or impl=gemm or split", "setting chunk=%d with impl=fused: it keeps nothing between operations", k.Chunk)
	case impl == implGemm && law != lawMLP:
		return refusedSetting("use impl=fused or split", "setting impl=gemm with law=%s: it has no matrix product", law)
	case k.Precision != "fp32" && law != lawMLP:
		return refusedSetting("use precision=fp32", "setting precision=%s with law=%s: it has no matrix product", k.Precision, law)
	case k.MaxSplit > 0 && k.Allocator != allocPool:
		return refusedSetting("use allocator=pool", "setting max_split=%d with allocator=%s: only a pool cuts blocks", k.MaxSplit, k.Allocator)
	}
	return nil
}

func refuseGraph(k settings, set gpuprof.Settings) error {
	if !k.Graph {
		return nil
	}
	for _, v := range capturable() {
		if set[v.knob] != v.only {
			return refusedSetting("use graph=off, or "+v.knob+"="+v.only, "setting graph=on with %s=%s: a captured graph holds on to its memory", v.knob, set[v.knob])
		}
	}
	return nil
}

// refuseLibrary refuses a library or number format that the device lacks.
func refuseLibrary(d device.Info, k settings) error {
	precision := k.Precision
	narrow := precision == "bf16" || precision == "fp16"
	switch {
	case k.Library == "on" && d.Facts["cublas"] == "":
		return refusedSetting("use library=auto or off", "setting library=on on device %s: cuBLAS was not found or does not start, and gpuprof doctor says why", d.Name)
	case k.Library == "on" && (k.Impl == implFused || k.Law != lawMLP):
		return refusedSetting("use library=auto, or impl=gemm or split with law=mlp", "setting library=on with impl=%s and law=%s: it calls no matrix products of cuBLAS", k.Impl, k.Law)
	case k.Library == "on" && narrow:
		return refusedSetting("use library=auto, or precision=fp32 or tf32", "setting library=on with precision=%s: operands are stored as float32 and rounded as they are read", precision)
	case (precision == "tf32" || precision == "bf16") && lacksAmpere(d.Arch):
		return refusedSetting("use fp32 or fp16", "setting precision=%s on device %s (%s): it came with sm_80", precision, d.Name, d.Arch)
	}
	return nil
}

func lacksAmpere(arch string) bool {
	n, err := strconv.Atoi(strings.TrimPrefix(arch, "sm_"))
	return strings.HasPrefix(arch, "sm_") && err == nil && n < 80
}

// Open implements workloads.Workload.
func (Workload) Open(ctx context.Context, d device.Device, c workloads.Config) (workloads.Session, error) {
	return open(ctx, d, c)
}
