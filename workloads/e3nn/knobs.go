package e3nn

import (
	"fmt"
	"os"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads"
	"github.com/gpuprof/gpuprof/workloads/loop"
	"github.com/gpuprof/gpuprof/workloads/op"
	"github.com/gpuprof/gpuprof/workloads/optim"
)

const (
	maxBatch     = gridSize * gridSize * gridSize
	maxMul       = 1 << 14
	maxItemReads = 4096
)

// inputPoints is the key of the total number of points in a result's input.
const inputPoints = "points_total"

// Values of knobs that the code compares with.
const (
	readsPacked = "packed"
	never       = "never"
	resetOff    = "off"
	resetSync   = "sync"
	libraryAuto = "auto"
	libraryOff  = "off"
)

// settings are the knobs of a run. Edges is 0 for the value all.
type settings struct {
	optim.Settings
	search
	Atoms         bool      `knob:"points=atoms"`
	Basis         string    `knob:"basis"`
	Mul           int       `knob:"mul"`
	Lmax          int       `knob:"lmax"`
	Edges         int       `knob:"edges"`
	Batch         int       `knob:"batch"`
	Impl          string    `knob:"impl"`
	Library       string    `knob:"library"`
	Deterministic bool      `knob:"deterministic"`
	Layout        op.Layout `knob:"layout"`
	Recompute     string    `knob:"recompute"`
	Pinned        bool      `knob:"pinned"`
	ThreeStreams  bool      `knob:"streams=3"`
	ResetStats    string    `knob:"reset_stats"`
	PoolTrim      string    `knob:"pool_trim"`
	Autotune      bool      `knob:"autotune"`
	Threads       int       `knob:"threads"`
}

// Knobs implements workloads.Workload. Defaults are the preset small with the settings that a careful user would
// choose; presets change only model knobs and batch.
func (Workload) Knobs() []workloads.Knob {
	return append([]workloads.Knob{
		{Name: "structure", Doc: "crystal: hfo2 (12 atoms, monoclinic), diamond (5x5x5, 1,000 atoms), or an extended XYZ or POSCAR/CONTCAR file",
			Default: hafnia, Values: []string{hafnia, diamond}, Accept: "a structure file", Parse: existingFile, NamesFile: true, Model: true},
		workloads.Choice("points", "destination of messages: grid (80x80x80 probes of the cell) or atoms", "grid", "atoms").AsModel(),
		workloads.FloatKnob("cutoff", "neighbour radius in angstrom; 4.083 gives HfO2 a mean degree of 24.75", 4.083, 0, 1000).AsModel(),
		workloads.Choice("basis", "radial functions: gaussian, or bessel with a polynomial envelope (10 either way)", "gaussian", "bessel").AsModel(),
		workloads.IntKnob("mul", "channels: per irrep, or for deepaw the total the irreps share", 8, 1, maxMul).AsModel(),
		workloads.IntKnob("lmax", "largest degree of the spherical harmonics", 2, 0, 6).AsModel(),
		workloads.CountKnob("edges", "use only the first N edges of every batch").AsModel(),
		passKnob(),
		loop.BatchKnob("points per step", 512, maxBatch, inputPoints),
		implKnob(),
		loop.LibraryKnob("matrix products of the radial MLP: auto (cuBLAS if it is found, else our own kernel), on (cuBLAS or nothing), off", productStages()...),
		precisionKnob(),
		loop.OrderKnob("bit-identical sums: unfused uses a sorted segment sum instead of atomic adds; csr always is, fused cannot be", "off",
			workloads.Answer{When: gpuprof.Settings{"impl": op.ImplUnfused}, Targets: []workloads.Target{{Stage: "scatter"}}}, "scatter", "recompute", "graph"),
		layoutKnob(),
		recomputeKnob(),
		loop.GraphKnob("launch the step's kernels one by one, or capture them once for every batch and replay"),
		loop.PinnedKnob("host memory of the copies: on (pinned once), off (pageable)", "on", "off"),
		loop.AsyncKnob("off makes the host thread wait for the batch's copy and for the result's, as .to(device) and .cpu() do"),
		streamsKnob(),
		loop.SyncKnob("when the host thread waits for the device: never, every step, or every K steps", never),
		loop.PackedReads("how the result is read each step: packed (its one copy, without a wait) or N four-byte reads beside it, each followed by a synchronization, as .item() does", 0, maxItemReads),
		loop.ResetKnob("reset the peak-memory counter each step: off, on, or after a synchronization (GPU only)"),
		loop.TrimKnob("return the memory pool's unused memory to the device: never, or every K steps (GPU only)"),
		loop.AutotuneKnob("search for the fastest launch shapes, and between cuBLAS and our own product, when the workload opens; the cost is reported"),
		loop.ThreadsKnob("CPU threads of the host device"),
	}, optim.Knobs()...)
}

// productStages returns the stages with the MLP's matrix products, forward and backward.
func productStages() []string {
	return []string{"radial", "recompute", "radial_bwd", "graph"}
}

// precisionKnob returns the knob precision. In a step without a backward pass, one kernel computes the radial
// functions and the MLP's first layer, always in float32.
func precisionKnob() workloads.Knob {
	k := loop.PrecisionKnob("rounding of the inputs of the MLP's matrix products: fp32 (none), tf32, bf16, fp16, or tf32x3 (three products of tf32, as accurate as fp32); sums stay float32",
		gpuprof.Settings{"library": libraryOff}, append(productStages(), "grads")...)
	k.Values = append(k.Values, op.TF32x3)
	k.PyTorch[op.TF32x3] = "# no setting of torch.matmul does that; CUTLASS calls it OpMultiplyAddFastF32"
	return k
}

// streamsThree is the value of streams with which results are copied during the next step.
const streamsThree = "3"

func streamsKnob() workloads.Knob {
	k := loop.StreamsKnob("2 copies batches on a stream beside the one that computes, 1 on the same; 3 also copies results on a third stream, beside the next step")
	k.Values = append(k.Values, streamsThree)
	k.PyTorch[streamsThree] = "with torch.cuda.stream(result_stream): result_stream.wait_stream(main); out.copy_(y, non_blocking=True)  # y.record_stream(result_stream)"
	return k
}

func implKnob() workloads.Knob {
	k := workloads.Choice("impl", "tensor product: csr (one writer per row), fused (atomic adds), unfused (one launch per operation, as eager e3nn)",
		op.ImplCSR, op.ImplFused, op.ImplUnfused)
	k.Acts = []string{"radial", "tensor_product", "scatter", "recompute", "graph"} // the backward pass has one implementation
	k.Answers = []workloads.Answer{{
		Remedy: workloads.Fuse, To: op.ImplCSR, When: gpuprof.Settings{"impl": op.ImplUnfused},
		Targets: []workloads.Target{{Stage: "tensor_product"}, {Stage: "scatter"}},
		PyTorch: "use a fused equivariant tensor product (cuEquivariance or OpenEquivariance) in place of e3nn's",
	}}
	k.Advice = loop.FuseAdvice(op.ImplUnfused)
	k.PyTorch = map[string]string{
		op.ImplUnfused: "out.index_add_(0, dst, tp(x[src], sh, weights))  # e3nn as it is, one operation at a time",
		op.ImplFused:   "tp = openequivariance.TensorProductConv(problem, deterministic=False)  # gather, product and sum in one kernel",
		op.ImplCSR:     "tp = openequivariance.TensorProductConv(problem, deterministic=True)  # edges sorted by destination",
	}
	return k
}

func layoutKnob() workloads.Knob {
	k := workloads.Choice("layout", "memory order of features within an irrep: ir_mul (channels contiguous) or mul_ir (e3nn's)", "ir_mul", "mul_ir")
	k.Acts = []string{
		"tensor_product", "linear_gate", "scatter", "recompute", "linear_gate_bwd", "tensor_product_bwd", "grads", "graph",
	}
	k.Advice = map[string]string{workloads.AnyValue: "store features in the order the kernel reads them (for convolutions memory_format=torch.channels_last)"}
	k.PyTorch = map[string]string{"ir_mul": "cuequivariance_torch layout: cue.ir_mul", "mul_ir": "cuequivariance_torch layout: cue.mul_ir"}
	return k
}

func existingFile(s string) (string, error) {
	if st, err := os.Stat(s); err != nil {
		return "", fmt.Errorf("is neither a built-in structure nor a file that can be read (%w)", err)
	} else if st.IsDir() {
		return "", fmt.Errorf("is a directory, not a structure file")
	}
	return s, nil
}
