// Package e3nn is the reference workload of equivariant message passing. For every point a step finds the atoms within
// a cutoff, embeds the distances, and turns them into tensor-product weights with a small MLP. It contracts neighbour
// features with spherical harmonics, sums over neighbours, mixes linearly and gates. The workload models charge-density
// prediction on a grid and the interaction blocks of MACE and NequIP.
//
// The nouns of the code: a point is a place whose neighbours are found, an atom or a grid point (a probe). A row is the
// output for one point of a batch, the sum over its edges from neighbouring atoms. A slot holds one batch in flight.
// Mid is the sum over neighbours before the linear layer, pre the gate's input. The readout makes one value of each
// row; the energy is the sum of these values. The prefix (knob edges) is the largest number of edges of a batch.
//
// Read top down: model.go defines the network, input.go its data, knobs.go the settings. session.go and memory.go
// allocate, bind.go and autotune.go bind. step.go is the timed step; collate.go makes its batches with the goroutines
// of crew.go. check.go compares with the float64 formulas of reference.go. The backward pass is in passes.go and
// bind_back.go, the optimizer's step in train.go.
package e3nn

import (
	"context"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads"
	"github.com/gpuprof/gpuprof/workloads/device"
)

// Workload is the e3nn workload; it has no state.
type Workload struct{}

// New returns the workload.
func New() workloads.Workload { return Workload{} }

// Name implements workloads.Workload.
func (Workload) Name() string { return "e3nn" }

// Doc implements workloads.Workload.
func (Workload) Doc() string {
	return "equivariant convolution: neighbours, radial MLP, harmonics, tensor product, scatter, linear, gate"
}

// Presets implements workloads.Workload.
func (Workload) Presets() []workloads.Preset {
	return []workloads.Preset{
		{Name: "small", Doc: "8 channels per l, lmax 2, 512 probes of monoclinic HfO2: seconds on two cores", DefaultOn: []string{"host"}},
		{Name: "deepaw", Doc: "three probe layers, lmax 4, 3,000 probes of HfO2 (dim 992, up to 3,238 weights per edge)",
			Set: gpuprof.Settings{"batch": "3000", "mul": "500", "lmax": "4"}, DefaultOn: []string{"cuda"}},
		{Name: "mace-medium", Doc: "128x0e+128x1o x lmax 3 -> 128x0e+128x1o+128x2e on 1,000 atoms of diamond", Set: atomPreset("128", "3")},
		{Name: "mace-large", Doc: "128x0e+128x1o+128x2e x lmax 3 -> 128x0e+128x1o+128x2e+128x3o on 1,000 atoms of diamond", Set: atomPreset("128", "3")},
		{Name: "nequip-lips", Doc: "32 channels per l and parity, lmax 2, on 1,000 atoms of diamond", Set: atomPreset("32", "2")},
	}
}

func atomPreset(mul, lmax string) gpuprof.Settings {
	return gpuprof.Settings{"structure": diamond, "points": "atoms", "batch": "1000", "cutoff": "6", "basis": "bessel", "mul": mul, "lmax": lmax}
}

// Stages implements workloads.Workload.
func (Workload) Stages() []gpuprof.Stage { return allStages() }

// Open implements workloads.Workload.
func (Workload) Open(ctx context.Context, d device.Device, c workloads.Config) (workloads.Session, error) {
	s, err := open(ctx, d, c)
	if err != nil { // a nil *session would be a non-nil Session
		return nil, err
	}
	return s, nil
}
