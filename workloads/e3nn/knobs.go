package e3nn

import (
	"fmt"
	"os"
	"strconv"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/op"
)

const (
	maxBatch     = gridSize * gridSize * gridSize
	maxMul       = 1 << 14
	maxItemReads = 4096
)

// Values of knobs that are compared in code.
const (
	readsPacked = "packed"
	never       = "never"
	resetOff    = "off"
	resetSync   = "sync"
	libraryAuto = "auto"
	libraryOff  = "off"
)

// Knobs implements gpuprof.Workload. Defaults are those of the preset small
// and what a careful user would run; presets change model knobs and batch.
func (Workload) Knobs() []gpuprof.Knob {
	return []gpuprof.Knob{
		{Name: "structure", Doc: "crystal: hfo2 (12 atoms, monoclinic), diamond (5x5x5, 1,000 atoms), or an extended XYZ or POSCAR/CONTCAR file",
			Default: "hfo2", Values: []string{"hfo2", "diamond"}, Accept: "a structure file", Parse: existingFile, NamesFile: true, Model: true},
		gpuprof.Choice("points", "where messages arrive: grid (80x80x80 probes of the cell) or atoms", "grid", "atoms").AsModel(),
		gpuprof.FloatKnob("cutoff", "neighbour radius in angstrom; 4.083 gives HfO2 a mean degree of 24.75", 4.083, 0, 1000).AsModel(),
		gpuprof.Choice("basis", "radial functions: gaussian, or bessel with a polynomial envelope (10 either way)", "gaussian", "bessel").AsModel(),
		gpuprof.IntKnob("mul", "channels: per irrep, or for deepaw the total the irreps share", 8, 1, maxMul).AsModel(),
		gpuprof.IntKnob("lmax", "largest degree of the spherical harmonics", 2, 0, 6).AsModel(),
		gpuprof.CountKnob("edges", "use only the first N edges of every batch").AsModel(),
		gpuprof.IntKnob("batch", "points per step", 512, 1, maxBatch),
		gpuprof.Choice("impl", "tensor product: csr (one writer a row), csr+mlp (csr with the MLP's second product inside), fused (atomic adds), unfused (one launch an operation, as eager e3nn)",
			op.ImplCSR, op.ImplCSRMLP, op.ImplFused, op.ImplUnfused),
		gpuprof.Choice("library", "matrix products of the radial MLP: auto (cuBLAS where it is found, else our own kernel), on (cuBLAS or nothing), off", libraryAuto, "on", libraryOff),
		gpuprof.Choice("precision", "what the MLP's matrix products round their inputs to: fp32 (nothing), tf32, bf16, fp16; sums stay float32", op.FP32, op.TF32, op.BF16, op.FP16),
		gpuprof.Choice("deterministic", "bit-identical sums: unfused uses a sorted segment sum instead of atomic adds; csr always is, fused cannot be", "off", "on"),
		gpuprof.Choice("layout", "memory order of features within an irrep: ir_mul (channels contiguous) or mul_ir (e3nn's)", "ir_mul", "mul_ir"),
		gpuprof.Choice("graph", "launch the step's kernels one by one, or capture them once for every batch and replay", "off", "on"),
		gpuprof.Choice("pinned", "host memory of the copies: on (pinned once), off (pageable)", "on", "off"),
		gpuprof.Choice("async_copy", "off makes the caller wait for the batch's copy and for the result's, as .to(device) and .cpu() do", "on", "off"),
		gpuprof.Choice("streams", "2 copies batches on a stream beside the one that computes, 1 on the same", "2", "1"),
		gpuprof.EveryKnob("sync", "when the caller waits for the device: never, every step, or every K steps", never, never, "step"),
		{Name: "item_reads", Doc: "how the result is read each step: packed (its one copy, without a wait) or N four-byte reads beside it, each followed by a synchronise, as .item() does",
			Default: readsPacked, Values: []string{readsPacked}, Accept: fmt.Sprintf("integer from 0 to %d", maxItemReads), Parse: itemReads},
		gpuprof.Choice("reset_stats", "reset the peak-memory counter each step: off, on, or after a synchronise (GPU only)", resetOff, "on", resetSync),
		gpuprof.EveryKnob("pool_trim", "give the memory pool's unused memory back to the device: never, or every K steps (GPU only)", never, never),
		gpuprof.Choice("autotune", "search for the fastest launch shapes, and between cuBLAS and our own product, when the workload opens; the cost is reported", "off", "on"),
		gpuprof.CountKnob("threads", "CPU threads of the host device"),
	}
}

func existingFile(s string) (string, error) {
	if st, err := os.Stat(s); err != nil {
		return "", fmt.Errorf("is neither a built-in structure nor a file that can be read (%w)", err)
	} else if st.IsDir() {
		return "", fmt.Errorf("is a directory, not a structure file")
	}
	return s, nil
}

// itemReads reads a number of single reads; none of them is packed.
func itemReads(s string) (string, error) {
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 || n > maxItemReads {
		return "", fmt.Errorf("is not a whole number from 0 to %d", maxItemReads)
	}
	if n == 0 {
		return readsPacked, nil
	}
	return strconv.Itoa(n), nil
}
