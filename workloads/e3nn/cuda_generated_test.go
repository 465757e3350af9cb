//go:build !race

// The simulated GPU is C++, in which the race detector sees nothing, and the float64 references beside it take ten times as long under it.
// TestCUDA and TestTrainingOnCUDA have the ways there.

package e3nn

import (
	"fmt"
	"slices"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/op"
	"github.com/gpuprof/gpuprof/workloads/op/tpgen"
)

// The generated products are the products of the presets, all of them and in their order.
func TestPresetsAreGenerated(t *testing.T) {
	var own, generated []string
	for _, p := range New().Presets() {
		knobs := resolve(t, p.Name).Knobs
		for _, l := range buildModel(p.Name, knobs.Int("mul"), knobs.Int("lmax"), op.IrMul).Layers {
			own = append(own, p.Name+" "+tpgen.Key(l.TP))
		}
	}
	for _, f := range tpgen.Families() {
		for _, l := range f.Layers {
			tp, err := l.Product()
			if err != nil {
				t.Fatal(err)
			}
			generated = append(generated, l.Preset+" "+tpgen.Key(tp))
		}
	}
	for _, k := range own {
		if !slices.Contains(generated, k) {
			t.Errorf("the preset's product %s has no generated kernel", k)
		}
	}
	if len(own) != len(generated) {
		t.Errorf("%d products of presets, %d are generated", len(own), len(generated))
	}
}

// The presets run on their generated kernels, every stage right, and say so.
func TestCUDAGenerated(t *testing.T) {
	d := openSimulated(t, false)
	for _, tt := range []struct {
		preset string
		set    []string
		want   []string
	}{
		{"small", nil, []string{"tp_csr_small"}},
		{"mace-large", []string{"edges=12", "batch=4"}, []string{"tp_csr_mace_large"}},
		{"deepaw", []string{"edges=5", "batch=2"}, []string{"tp_csr_deepaw_natural", "tp_csr_deepaw", "tp_csr_deepaw"}},
		{"deepaw", []string{"edges=4", "batch=2", "pass=forces", "mul=20"}, []string{"tp_csr", "tp_csr", "tp_csr"}},
		{"small", []string{"edges=12", "batch=4", "mul=10"}, []string{"tp_csr"}},
		{"small", []string{"edges=12", "batch=4", "pass=train"}, []string{"tp_csr_small"}},
	} {
		t.Run(fmt.Sprint(tt.preset, tt.set), func(t *testing.T) {
			s := openOn(t, d, tt.preset, append([]string{"batch=8"}, tt.set...)...)
			if got := s.Input()["tensor_product_kernels"]; !slices.Equal(got.([]string), tt.want) {
				t.Errorf("kernels %v, expected %v", got, tt.want)
			}
			passes(t, s)
			closed(t, s)
		})
	}
}

// The gradients of the presets' products run on their generated kernels, every stage right, and
// say so; those of others on kernels that are compiled when the workload opens, or on the general ones.
func TestCUDAGeneratedGradients(t *testing.T) {
	d := openSimulated(t, true)
	for _, tt := range []struct {
		preset   string
		set      []string
		compiles bool
		want     []string
	}{
		{"small", []string{"pass=forces", "edges=12", "batch=4"}, false, []string{"tp_grad_small"}},
		{"small", []string{"pass=train", "edges=12", "batch=4"}, false, []string{"tp_grad_small, tp_gradx_small"}},
		{"mace-large", []string{"pass=train", "edges=6", "batch=4"}, false, []string{"tp_grad_mace_large, tp_gradx_mace_large"}},
		{"deepaw", []string{"pass=forces", "edges=4", "batch=2"}, false, []string{"tp_grad_deepaw_natural", "tp_grad_deepaw", "tp_grad_deepaw"}},
		{"deepaw", []string{"pass=train", "edges=4", "batch=2"}, true, []string{"tp_grad_deepaw_natural, tp_grad_x", "tp_grad_deepaw, tp_grad_x", "tp_grad_deepaw, tp_grad_x"}},
		{"small", []string{"pass=train", "mul=10", "edges=6", "batch=4"}, false, []string{"tp_grad, tp_grad_x"}},
		{"small", []string{"pass=train", "mul=10", "edges=6", "batch=4"}, true, []string{"tp_grad_compiled, tp_gradx_compiled"}},
	} {
		t.Run(fmt.Sprint(tt.preset, tt.set, tt.compiles), func(t *testing.T) {
			d.compiles = tt.compiles
			s := openOn(t, d, tt.preset, tt.set...)
			if got := s.Input()["tensor_product_grad_kernels"]; !slices.Equal(got.([]string), tt.want) {
				t.Errorf("kernels %v, expected %v", got, tt.want)
			}
			passes(t, s)
			closed(t, s)
		})
	}
}

// A model of no preset runs on a kernel that is compiled when the workload opens, every stage
// right; without a compiler the input says why it does not.
func TestCUDACompiled(t *testing.T) {
	d := openSimulated(t, true)
	for _, compiles := range []bool{true, false} {
		d.compiles = compiles
		s := openOn(t, d, "small", "edges=12", "batch=4", "mul=10")
		in, want := s.Input(), map[bool]string{true: "tp_csr_compiled", false: "tp_csr"}[compiles]
		if got := in["tensor_product_kernels"].([]string); !slices.Equal(got, []string{want}) {
			t.Errorf("kernels %v, expected %s", got, want)
		}
		if why, told := in["tensor_product_not_compiled"]; told == compiles || told && why != "NVRTC is hidden from this test" {
			t.Errorf("with a compiler %t the reason is %v", compiles, why)
		}
		passes(t, s)
		closed(t, s)
	}
}

// Columns without a weight count as no work: the roofline bound equals the host run's.
func TestPaddingIsNoWork(t *testing.T) {
	radial := func(d device.Device) gpuprof.Cost {
		s := openOn(t, d, "deepaw", "batch=2", "edges=4", "library=off")
		defer closed(t, s)
		for _, st := range s.Stages() {
			if st.Name == "radial" {
				return st.Minimum
			}
		}
		return gpuprof.Cost{}
	}
	on, own := radial(openSimulated(t, false)), radial(openHost(t, 0))
	if on.Flops != own.Flops || on.Bytes() != own.Bytes() || on.Flops == 0 {
		t.Errorf("%+v with columns of no weight, %+v without", on, own)
	}
}
