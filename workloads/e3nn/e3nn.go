// Package e3nn is the reference workload of equivariant message passing: for
// every point, find the atoms in reach, embed the distances, turn them into
// tensor-product weights with a small MLP, contract neighbour features with
// spherical harmonics, sum over neighbours, mix linearly and gate. It models
// charge-density prediction on a grid and the interaction blocks of MACE and
// NequIP.
//
// The package reads top down: model.go says what is computed, input.go on
// what, session.go allocates and binds, step.go is the timed step, check.go
// the float64 reference.
package e3nn

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/gpuprof/gpuprof"
)

// Workload is the e3nn workload. It has no state.
type Workload struct{}

// New returns the workload.
func New() gpuprof.Workload { return Workload{} }

// Name implements gpuprof.Workload.
func (Workload) Name() string { return "e3nn" }

// Doc implements gpuprof.Workload.
func (Workload) Doc() string {
	return "equivariant convolution: neighbours, radial MLP, harmonics, tensor product, scatter, linear, gate"
}

// Presets implements gpuprof.Workload.
func (Workload) Presets() []gpuprof.Preset {
	return []gpuprof.Preset{
		{Name: "small", Doc: "8 channels per l, lmax 2, 512 probes of monoclinic HfO2: seconds on two cores", Set: gpuprof.Settings{}},
		{Name: "deepaw", Doc: "three probe layers, lmax 4, 3,000 probes of HfO2 (dim 992, up to 3,238 weights an edge)",
			Set: gpuprof.Settings{"batch": "3000", "mul": "500", "lmax": "4"}},
		{Name: "mace-medium", Doc: "128x0e+128x1o x lmax 3 -> 128x0e+128x1o+128x2e on 1,000 atoms of diamond", Set: atomPreset("128", "3")},
		{Name: "mace-large", Doc: "128x0e+128x1o+128x2e x lmax 3 -> 128x0e+128x1o+128x2e+128x3o on 1,000 atoms of diamond", Set: atomPreset("128", "3")},
		{Name: "nequip-lips", Doc: "32 channels per l and parity, lmax 2, on 1,000 atoms of diamond", Set: atomPreset("32", "2")},
	}
}

func atomPreset(mul, lmax string) gpuprof.Settings {
	return gpuprof.Settings{"structure": "diamond", "points": "atoms", "batch": "1000", "cutoff": "6", "basis": "bessel", "mul": mul, "lmax": lmax}
}

const (
	maxBatch = gridSize * gridSize * gridSize
	maxMul   = 1 << 14
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
		{Name: "edges", Doc: "use only the first N edges of every batch", Default: "all", Values: []string{"all"}, Accept: "integer >= 1", Parse: atLeastOne, Model: true},
		gpuprof.IntKnob("batch", "points per step", 512, 1, maxBatch),
		gpuprof.Choice("impl", "tensor product: csr (one writer a row), fused (atomic adds), unfused (one launch an operation, as eager e3nn)", "csr", "fused", "unfused"),
		gpuprof.Choice("deterministic", "bit-identical sums: unfused uses a sorted segment sum instead of atomic adds; csr always is, fused cannot be", "off", "on"),
		gpuprof.Choice("layout", "memory order of features within an irrep: ir_mul (channels contiguous) or mul_ir (e3nn's)", "ir_mul", "mul_ir"),
		{Name: "sync", Doc: "when the caller waits for the device: never, every step, or every K steps", Default: "never", Values: []string{"never", "step"}, Accept: "every:K", Parse: everyK},
		gpuprof.IntKnob("item_reads", "four-byte reads of the result per step, each followed by a synchronise, as .item() does", 0, 0, 4096),
		{Name: "threads", Doc: "CPU threads of the host device", Default: "all", Values: []string{"all"}, Accept: "integer >= 1", Parse: atLeastOne},
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

func atLeastOne(s string) (string, error) {
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 {
		return "", fmt.Errorf("is not a whole number of at least 1")
	}
	return strconv.Itoa(n), nil
}

// everyK reads "every:K"; plain K means the same.
func everyK(s string) (string, error) {
	n, err := strconv.Atoi(strings.TrimPrefix(s, "every:"))
	if err != nil || n < 1 {
		return "", fmt.Errorf("names no number of steps of at least 1")
	}
	if n == 1 {
		return "step", nil
	}
	return "every:" + strconv.Itoa(n), nil
}

// syncEvery is the number of steps between synchronisations; 0 is never.
func syncEvery(set gpuprof.Settings) int {
	switch s := set["sync"]; s {
	case "never":
		return 0
	case "step":
		return 1
	default:
		n, _ := strconv.Atoi(strings.TrimPrefix(s, "every:"))
		return n
	}
}

// countOrAll reads a knob that is a number or "all"; all is 0.
func countOrAll(set gpuprof.Settings, name string) int {
	n, _ := strconv.Atoi(set[name])
	return n
}

// Refuse implements gpuprof.Workload.
func (Workload) Refuse(d gpuprof.Info, set gpuprof.Settings) error {
	if set["impl"] == "fused" && set.On("deterministic") {
		return gpuprof.Errorf(gpuprof.ErrUsage, "setting deterministic=on with impl=fused: its atomic adds have no fixed order; use --set impl=csr, which is deterministic")
	}
	switch n := countOrAll(set, "threads"); {
	case n > 0 && d.MaxThreads == 0:
		return gpuprof.Errorf(gpuprof.ErrUsage, "setting threads=%d on device %s: it has no CPU threads to limit; leave threads at all", n, d.Name)
	case n > d.MaxThreads:
		return gpuprof.Errorf(gpuprof.ErrUsage, "setting threads=%d on device %s: it takes at most %d; use fewer, or all", n, d.Name, d.MaxThreads)
	}
	if set["points"] == "atoms" {
		c, err := openCrystal(set["structure"])
		if err != nil {
			return err
		}
		if n := len(c.Positions); set.Int("batch") > n {
			return tooManyPoints(set.Int("batch"), c.Name, n, "atoms")
		}
	}
	return nil
}

// Open implements gpuprof.Workload.
func (Workload) Open(ctx context.Context, d gpuprof.Device, c gpuprof.Config) (gpuprof.Session, error) {
	return open(ctx, d, c)
}
