package op

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof/workloads/device"
)

// refRadial is Radial in float64 by its parts.
func refRadial(t *testing.T, r Radial, vec, w1, w2, want []float64) {
	t.Helper()
	b := make([]float64, r.Basis.N)
	for e := range len(vec) / 3 {
		RefBasis(r.Basis, vec[3*e:3*e+3], b)
		if err := RefMLP(r.MLP, b, w1, w2, want[e*r.MLP.Out:(e+1)*r.MLP.Out]); err != nil {
			t.Fatal(err)
		}
	}
}

// radialCases are sizes that fill vectors and tiles and such that do not; the last are a preset's.
var radialCases = []Radial{
	{Basis{Kind: "gaussian", N: 8, Cutoff: 4}, MLP{In: 8, Hidden: 33, Out: 70, Normalisation: NormE3NN}},
	{Basis{Kind: "bessel", N: 1, Cutoff: 5, Envelope: true}, MLP{In: 1, Hidden: 1, Out: 300}},
	{Basis{Kind: "bessel", N: 10, Cutoff: 5, Envelope: true}, MLP{In: 10, Hidden: 100, Out: 128}},
}

// toleranceOf is what a precision's product keeps; three products of TF32 keep what fp32 does.
var toleranceOf = map[string]float64{FP32: 1e-5, TF32: 2e-3, BF16: 2e-2, FP16: 5e-3, TF32x3: 1e-5}

func TestRadial(t *testing.T) {
	for _, c := range radialCases {
		for precision, tolerance := range toleranceOf {
			const edges = 90
			r := newRig(t, 3)
			c.MLP.Precision = precision
			m := c.MLP
			vec, w1, w2, w := r.normal(edges*3), r.normal(m.In*m.Hidden), r.normal(m.Hidden*m.Out), r.poisoned(edges*m.Out)
			bound := r.must(c.Bind(r.dev, vec, w1, w2, w, edges))
			r.run(bound)
			want := make([]float64, edges*m.Out)
			refRadial(t, c, wide(vec, 0, 3*edges), wide(w1, 0, m.In*m.Hidden), wide(w2, 0, m.Hidden*m.Out), want)
			t.Logf("%+v: relative error %.2g", c, near(t, fmt.Sprintf("%+v", c), wide(w, 0, len(want)), want, tolerance))
			bound.SetEdges(7)
			poison(w)
			r.run(bound)
			near(t, "7 edges", wide(w, 0, 7*m.Out), want[:7*m.Out], tolerance)
			if v := device.Floats(w)[7*m.Out]; v == v {
				t.Error("7 edges: the eighth row was written")
			}
		}
	}
}

// On the device the same, and the same bits each time.
func TestCUDARadial(t *testing.T) {
	g := newGPU(t)
	const edges = 131 // more than a block's
	for _, c := range radialCases {
		m := c.MLP
		vec, w1, w2 := g.random(edges*3), g.random(m.In*m.Hidden), g.random(m.Hidden*m.Out)
		copy(vec, []float32{0, 0, 0, 7, 0, 0})
		want := make([]float64, edges*m.Out)
		refRadial(t, c, doubles(vec), doubles(w1), doubles(w2), want)
		v, first, second, out := g.floats(vec), g.floats(w1), g.floats(w2), g.poisoned(len(want))
		for precision, tolerance := range toleranceOf {
			c.MLP.Precision = precision
			bound := g.must(c.Bind(g.dev, v, first, second, out, edges))
			for _, b := range bound.owned { // what the kernels fail to write must show
				g.poison(b)
			}
			var bits []float64
			for range 2 {
				g.poison(out)
				g.run(bound)
				got := g.read(out, len(want))
				t.Logf("%+v: relative error %.2g", c, near(t, fmt.Sprintf("%+v", c), got, want, tolerance))
				if bits != nil && !slices.Equal(bits, got) {
					t.Errorf("%+v: a second run gives other bits", c)
				}
				bits = got
			}
		}
	}
}

// Two kernels make fp32 weights, three where the second layer's weights are packed: neither the radial functions nor the
// hidden layer before its activation passes through memory. What the library reads starts on 16 bytes in every row.
func TestCUDARadialLaunches(t *testing.T) {
	g := newGPU(t)
	const edges = 3
	r := Radial{Basis{Kind: "gaussian", N: 10, Cutoff: 4}, MLP{In: 10, Hidden: 100, Out: 64}}
	vec, w1, w2, w := g.poisoned(3*edges), g.poisoned(1000), g.poisoned(6400), g.poisoned(64*edges)
	for precision, c := range map[string]struct {
		library, launches string
		depth, bytes      int
	}{
		FP32: {"off", "radial gemm", 100, 4}, TF32: {"", "radial gemm_tf32", 100, 4},
		BF16: {"", "radial pack_right gemm_bf16", 104, 2}, FP16: {"", "radial pack_right gemm_fp16", 104, 2},
		TF32x3: {"", "radial pack_right gemm_tf32", 312, 4},
	} {
		r.MLP.Precision, r.MLP.Library = precision, c.library
		b := g.must(r.Bind(g.dev, vec, w1, w2, w, edges))
		var names []string
		for _, p := range b.Parts() {
			names = append(names, p.Kernel)
		}
		if got := strings.Join(names, " "); got != c.launches {
			t.Errorf("%s: launches %s, expected %s", precision, got, c.launches)
		}
		p := packingOf(precision, 100)
		if p.productDepth() != c.depth || int(p.bytes) != c.bytes || p.productDepth()*int(p.bytes)%16 != 0 {
			t.Errorf("%s: rows of %d values of %d bytes, expected %d of %d on 16 bytes", precision, p.productDepth(), p.bytes, c.depth, c.bytes)
		}
		if least := b.Minimum(); least.BytesRead != 4*(3*edges+1000+6400) || least.BytesWritten != 4*64*edges {
			t.Errorf("%s: at least %d bytes read and %d written, expected vectors, both layers' weights and the result", precision, least.BytesRead, least.BytesWritten)
		}
	}
}
