// Package gruflow is the reference workload of recurrent flow processing: many small recurrent steps on carriers that
// move through depth, with metrics read inside the hot loop. It models the trainer of an energy-flow network. Every
// step runs a multi-layer GRU over all carriers. Each carrier deposits a share of its energy and moves down by one
// level. Then the step reduces the results to a few numbers.
//
// The nouns of the code: a carrier is one row of the batch, with an energy, a place in the plane, a level and a hidden
// state in every layer. A level is one of D depths; after T time steps of the GRU every carrier moves down by one
// level. The energy that a carrier leaves at a level is its deposit, and the dose of a level is the sum of the deposits
// there. A window is the number of levels that a step with pass=train runs forward and then backward. A recording, or
// tape, holds the states and gates of a window that the backward pass reads. A carrier's record is its row of the
// result [B,outputs].
//
// A group is a list of launches that runs as one span of a stage. A slot is one of the steps in flight, with its input
// and results (type slot); in an unroll, a slot is the place of one recorded level.
//
// Read top down: model.go defines the computation, memory.go counts the allocations of session.go, program.go and
// layers.go bind launches, step.go is the timed step, check.go compares with the float64 formulas of reference.go. A
// kernel is NAME.go (arguments, cost by count), NAME_host.go and, for a GPU, NAME.cu.
package gruflow

import (
	"cmp"
	"context"
	"strconv"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/loop"
	"github.com/gpuprof/gpuprof/workloads/optim"
)

// Workload is the gruflow workload; it has no state.
type Workload struct{}

var _ workloads.VectorChecker = Workload{}

// New returns the workload.
func New() workloads.Workload { return Workload{} }

// Name implements workloads.Workload.
func (Workload) Name() string { return "gruflow" }

// Doc implements workloads.Workload.
func (Workload) Doc() string {
	return "recurrent flow: multi-layer GRU over carriers moving through depth, carrier update, metrics read in the loop"
}

// Presets implements workloads.Workload.
func (Workload) Presets() []workloads.Preset {
	return []workloads.Preset{
		{Name: "small", Doc: "256 flows, 2 layers of 64 units: seconds on two cores", DefaultOn: []string{"host"}},
		{Name: "energyflow", Doc: "12,544 flows (112 x 112), input 65, 3 layers of 1,024 units, depth 40, one time step per call",
			Set: gpuprof.Settings{"flows": "12544", "input": "65", "layers": "3", "hidden": "1024", "depth": "40", "steps": "1"}, DefaultOn: []string{"cuda"}},
		{Name: "deepbench", Doc: "one layer of 2,816 units, batch 32, 1,500 time steps per call: DeepBench's largest GRU",
			Set: gpuprof.Settings{"flows": "32", "input": "2816", "layers": "1", "hidden": "2816", "depth": "1", "steps": "1500"}},
	}
}

// Values of knobs that the code compares with.
const (
	implAuto  = "auto"
	implPlain = "plain"
	implFused = "fused"
	implCuDNN = "cudnn"

	readsPacked = "packed"
	never       = "never"
	resetSync   = "sync"
)

const maxItemReads = 4096

// settings are the knobs of a run. B of the shape is the number of carriers of a micro-batch. An integer knob whose
// value is a word, such as window=depth, is 0.
type settings struct {
	optim.Settings
	shape
	Flows         int    `knob:"flows"` // of all micro-batches
	Impl          string `knob:"impl"`
	Library       string `knob:"library"`
	Deterministic bool   `knob:"deterministic"`
	ResetStats    string `knob:"reset_stats"`
	PoolTrim      string `knob:"pool_trim"`
	Fill          bool   `knob:"fill"`
	Autotune      bool   `knob:"autotune"`
	Threads       int    `knob:"threads"`
	Window        int    `knob:"window"`
	Checkpoint    int    `knob:"checkpoint"`
	Tape          string `knob:"tape"`
	WindowsKept   int    `knob:"windows_kept"`
}

func readSettings(set gpuprof.Settings) settings {
	k := workloads.Read[settings](set)
	k.B /= k.Micro()
	return k
}

// Knobs implements workloads.Workload. Defaults are the preset small with the settings that a careful user would
// choose; presets change only model knobs.
func (Workload) Knobs() []workloads.Knob {
	return append([]workloads.Knob{
		scaling(workloads.IntKnob("flows", "carriers, the batch of every recurrent step", 256, 1, 1<<22)),
		workloads.IntKnob("input", "input features of a carrier: its energy and the field around it", 65, 1, 1<<14).AsModel(),
		workloads.IntKnob("hidden", "units of a GRU layer", 64, 1, 1<<14).AsModel(),
		workloads.IntKnob("layers", "GRU layers", 2, 1, 16).AsModel(),
		workloads.IntKnob("depth", "levels a carrier passes before it leaves and a new one enters in its place", 40, 1, 4096).AsModel(),
		scaling(workloads.IntKnob("steps", "time steps of the GRU in one call (T)", 1, 1, 1<<14)),
		implKnob(),
		loop.LibraryKnob("matrix products of fused and plain: auto (cuBLAS if it is found, else our own kernel), on (cuBLAS or nothing), off", productStages()...),
		loop.PrecisionKnob("rounding of the inputs of the GRU's matrix products: fp32 (none), tf32, bf16, fp16; sums and state stay float32",
			gpuprof.Settings{"library": "off"}, append(productStages(), "weights", "flow", "flow_bwd", "grads")...), // these stages read or write records in the precision's width
		loop.OrderKnob("metrics: on sums in a fixed order, off adds atomically in the order of arrival", "on",
			// Reads and arithmetic do not depend on the order; only the kernel that adds the partial sums costs time.
			workloads.Answer{Targets: []workloads.Target{{Stage: "metrics", Kernels: []string{"_final"}}}}, "metrics", "graph"),
		loop.GraphKnob("launch the step's kernels one by one, or capture them once and replay"),
		loop.SyncKnob("when the host thread waits for the device: never, every step, or every K steps", never),
		loop.PackedReads("how metrics are read each step: packed (one copy, without a wait) or N four-byte reads, each followed by a synchronization, as .item() does", 1, maxItemReads),
		loop.ResetKnob("reset the peak-memory counter each step: off, on, or after a synchronization"),
		loop.TrimKnob("return cached scratch memory to the device: never, or every K steps"),
		fillKnob(),
		loop.AutotuneKnob("search for the fastest tile of the matrix products when the workload opens; the cost is reported"),
		loop.ThreadsKnob("CPU threads of the host device"),
	}, trainKnobs()...)
}

// productStages returns the stages with the GRU's matrix products, forward and backward.
func productStages() []string { return []string{"gru", "recompute", "gru_bwd", "graph"} }

func scaling(k workloads.Knob) workloads.Knob { k.Scales = true; return k.AsModel() }

// fusedShare is the number of words that a unit of the fused cell moves, 8, relative to 27 for the plain cell. The
// fused cell reads two sums for each of three gates and the state, and writes the state.
const fusedShare = 8. / 27

func implKnob() workloads.Knob {
	k := workloads.Choice("impl", "GRU cell: auto (cudnn if it is found, else fused), fused (matrix products, then one pointwise kernel), plain (one launch per operation, as an eager cell), cudnn (NVIDIA's library)",
		implAuto, implFused, implPlain, implCuDNN)
	k.Acts = []string{"gru", "flow", "recompute", "graph"} // the backward pass has one implementation
	k.Answers = []workloads.Answer{{
		Remedy: workloads.Fuse, To: implFused, When: gpuprof.Settings{"impl": implPlain},
		Targets: []workloads.Target{{Stage: "gru", Kernels: []string{"gru_add", "gru_mul", "gru_sub", "gru_sigmoid", "gru_tanh"}, Keeps: fusedShare}},
		PyTorch: "use torch.nn.GRU (cuDNN) or torch.compile(cell) in place of a cell written out in operations",
	}}
	const gru = "rnn = torch.nn.GRU(...)  # instead of a loop over torch.nn.GRUCell"
	k.Advice = loop.FuseAdvice(implPlain)
	k.PyTorch = map[string]string{
		implAuto: gru, implCuDNN: gru,
		implFused: "cell = torch.compile(cell)  # fuses what eager launches one by one",
		implPlain: "cell = torch.nn.GRUCell(...)  # written out in operations, not compiled",
	}
	return k
}

// fillKnob returns the knob fill, with which every block of scratch memory is filled with NaN when it is taken.
func fillKnob() workloads.Knob {
	k := workloads.Choice("fill", "fill every scratch block with NaN when it is taken, as a deterministic mode does with uninitialised memory", "off", "on")
	k.Acts = []string{"gru", "flow", "metrics", "loss", "recompute", "flow_bwd", "gru_bwd", "grads", "graph"}
	k.Answers = []workloads.Answer{{Remedy: workloads.SkipFill, To: "off", When: gpuprof.Settings{"fill": "on"}, Targets: []workloads.Target{{Kernels: []string{"fill"}}}}}
	k.Advice = map[string]string{"off": "torch.utils.deterministic.fill_uninitialized_memory = False"}
	k.PyTorch = map[string]string{"on": "torch.utils.deterministic.fill_uninitialized_memory = True", "off": "torch.utils.deterministic.fill_uninitialized_memory = False"}
	return k
}

// Stages implements workloads.Workload.
func (Workload) Stages() []gpuprof.Stage { return allStages() }

// Refuse implements workloads.Workload.
func (Workload) Refuse(d device.Info, set gpuprof.Settings) error {
	k := readSettings(set)
	if err := cmp.Or(workloads.RefuseThreads(d, k.Threads), refuseTraining(k, set), refuseLibraries(d, k)); err != nil {
		return err
	}
	if k.Graph && k.PoolTrim != never {
		return gpuprof.Errorf(gpuprof.ErrUsage, "setting pool_trim=%s with graph=on: a captured graph holds on to its scratch memory", k.PoolTrim).WithFix("use pool_trim=never or graph=off")
	}
	if p := k.Precision; (p == "tf32" || p == "bf16") && lacksAmpere(d.Arch) {
		return gpuprof.Errorf(gpuprof.ErrUsage, "setting precision=%s on device %s (%s): it came with sm_80", p, d.Name, d.Arch).WithFix("use fp32 or fp16")
	}
	return nil
}

// refuseLibraries refuses settings that need a library which the device lacks.
func refuseLibraries(d device.Info, k settings) error {
	impl := k.Impl
	switch {
	case impl == implCuDNN && d.Facts["cudnn"] == "":
		return refuseCuDNN(d)
	case impl == implCuDNN && k.Autotune:
		return gpuprof.Errorf(gpuprof.ErrUsage, "setting autotune=on with impl=cudnn: cuDNN chooses its own tiles").WithFix("use autotune=off or impl=fused")
	case k.Library == "on" && d.Facts["cublas"] == "":
		return gpuprof.Errorf(gpuprof.ErrUsage, "setting library=on on device %s: cuBLAS was not found or does not start, and gpuprof doctor says why", d.Name).WithFix("use library=auto or off")
	case k.Library == "on" && impl == implCuDNN:
		return gpuprof.Errorf(gpuprof.ErrUsage, "setting library=on with impl=%s: it calls no matrix products of cuBLAS", impl).WithFix("use library=auto, or impl=fused or plain")
	}
	return nil
}

// chooseImpl returns the GRU implementation for the knob impl on a device. With auto it does not choose cuDNN's GRU if
// the settings ask for a search over our own tiles or for cuBLAS's products.
func chooseImpl(d device.Info, k settings) string {
	if k.Impl != implAuto {
		return k.Impl
	}
	if d.Facts["cudnn"] != "" && !recordsForward(k) && !k.Autotune && k.Library == "auto" {
		return implCuDNN
	}
	return implFused
}

func chooseVendor(d device.Info, k settings, impl string) bool {
	return d.Facts["cublas"] != "" && k.Library != "off" && (impl == implFused || impl == implPlain)
}

func refuseCuDNN(d device.Info) error {
	if d.Kind == "host" {
		return gpuprof.Errorf(gpuprof.ErrUsage, "setting impl=cudnn on device %s: cuDNN needs an NVIDIA GPU", d.Name).WithFix("use fused or plain")
	}
	return gpuprof.Errorf(gpuprof.ErrUsage, "setting impl=cudnn on device %s: cuDNN was not found or does not start, and gpuprof doctor says why", d.Name).WithFix("install it where the loader finds it, or use fused or plain")
}

func lacksAmpere(arch string) bool {
	n, err := strconv.Atoi(strings.TrimPrefix(arch, "sm_"))
	return strings.HasPrefix(arch, "sm_") && err == nil && n < 80
}

// Open implements workloads.Workload.
func (Workload) Open(ctx context.Context, d device.Device, c workloads.Config) (workloads.Session, error) {
	return open(ctx, d, c)
}
