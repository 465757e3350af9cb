package op

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/so3"
)

func TestSph(t *testing.T) {
	const edges = 500
	for lmax := range so3.MaxL + 1 {
		r := newRig(t, 2)
		s := Sph{LMax: lmax}
		vec, y := r.normal(3*edges), r.poisoned(edges*s.Dim())
		v := device.Floats(vec)
		copy(v, []float32{0, 0, 0, 0, 0, 1, 0, 1, 0, -1, 0, 0, 0, -1e-30, 0, 3e30, 1e30, -2e30, 1e-4, 1, 1e-4, 1e-7, -1, 0})
		for i := range v {
			v[i] *= float32(math.Exp(4 * r.rnd.NormFloat64() / 4))
		}
		b := r.must(s.Bind(r.dev, vec, y, edges))
		r.run(b)
		want := make([]float64, edges*s.Dim())
		worst := 0.0
		for e := range edges {
			RefSph(s, wide(vec, 3*e, 3*e+3), want[e*s.Dim():(e+1)*s.Dim()])
			worst = max(worst, near(t, fmt.Sprintf("lmax %d edge %d", lmax, e), wide(y, e*s.Dim(), (e+1)*s.Dim()), want[e*s.Dim():(e+1)*s.Dim()], 1e-6))
		}
		t.Logf("lmax %d: all edges %.2g, worst edge %.2g", lmax, near(t, "all", wide(y, 0, len(want)), want, 1e-6), worst)
	}
}

func TestSphKnown(t *testing.T) {
	r := newRig(t, 1)
	s := Sph{LMax: 4}
	vec, y := r.alloc(6), r.poisoned(2*25)
	copy(device.Floats(vec), []float32{0, 0, 1, 0, 0, 0})
	r.run(r.must(s.Bind(r.dev, vec, y, 2)))
	want := []float64{1, 0, 0, math.Sqrt(3), 0, 0, -1.118034, 0, 1.936492, 0, 0, 0, 0, -1.620185, 0, 2.09165, 0, 0, 0, 0, 1.125, 0, -1.677051, 0, 2.21853}
	near(t, "Y(0,0,1)", wide(y, 0, 25), want, 1e-6)
	zero := make([]float64, 25)
	zero[0] = 1
	near(t, "Y(0,0,0)", wide(y, 25, 50), zero, 1e-12)
}

func TestBasis(t *testing.T) {
	const edges = 300
	for _, s := range []Basis{
		{Kind: "gaussian", N: 10, Cutoff: 4}, {Kind: "gaussian", N: 2, Cutoff: 6, Envelope: true},
		{Kind: "bessel", N: 8, Cutoff: 5}, {Kind: "bessel", N: 12, Cutoff: 6, Envelope: true}} {
		r := newRig(t, 2)
		vec, out := r.normal(3*edges), r.poisoned(edges*s.N)
		copy(device.Floats(vec), []float32{0, 0, 0, 1e-12, 0, 0, 1e-3, 0, 0, 7, 0, 0})
		r.run(r.must(s.Bind(r.dev, vec, out, edges)))
		want := make([]float64, edges*s.N)
		for e := range edges {
			RefBasis(s, wide(vec, 3*e, 3*e+3), want[e*s.N:(e+1)*s.N])
			near(t, fmt.Sprintf("%+v edge %d", s, e), wide(out, e*s.N, (e+1)*s.N), want[e*s.N:(e+1)*s.N], 1e-6)
		}
		t.Logf("%+v: relative error %.2g", s, near(t, "all", wide(out, 0, len(want)), want, 1e-6))
	}
}

func TestBasisKnown(t *testing.T) {
	r := newRig(t, 1)
	vec, out := r.alloc(3), r.poisoned(10)
	copy(device.Floats(vec), []float32{0, 1, 0})
	r.run(r.must(Basis{Kind: "gaussian", N: 10, Cutoff: 4}.Bind(r.dev, vec, out, 1)))
	near(t, "gaussian", wide(out, 0, 4), []float64{.00565153, .18715302, .83876166, .50873466}, 1e-6)
	r.run(r.must(Basis{Kind: "bessel", N: 3, Cutoff: 4}.Bind(r.dev, vec, out, 1)))
	near(t, "bessel", wide(out, 0, 3), []float64{.5, .70710678, .5}, 1e-6)
}

func TestLinear(t *testing.T) {
	cases := [][2]string{{"9x0e+4x1o+3x0e+2x2e", "5x0e+7x1o+2x3o+6x0e"}, {"48x0e+20x1o", "40x0e+520x1o"}, {"3x0o+2x1e", "2x1e+3x0o+1x0e"}}
	for _, c := range cases {
		for _, layout := range []Layout{MulIr, IrMul} {
			for _, acc := range []bool{false, true} {
				const rows = 70
				r := newRig(t, 3)
				l := Linear{In: irreps(t, c[0]), Out: irreps(t, c[1]), Layout: layout, Accumulate: acc}
				in, od := l.In.Dim(), l.Out.Dim()
				x, w, out := r.normal(rows*in), r.normal(l.WeightNumel()), r.poisoned(rows*od)
				start := make([]float64, rows*od)
				if acc {
					clear(device.Floats(out))
					for i := range start {
						device.Floats(out)[i] = float32(i % 5)
						start[i] = float64(i % 5)
					}
				}
				r.run(r.must(l.Bind(r.dev, x, w, out, rows)))
				fw := wide(w, 0, l.WeightNumel())
				for i := range rows {
					RefLinear(l, wide(x, i*in, (i+1)*in), fw, start[i*od:(i+1)*od])
				}
				t.Logf("%v %s %t: relative error %.2g", c, layout, acc, near(t, fmt.Sprint(c, layout, acc), wide(out, 0, rows*od), start, 1e-5))
			}
		}
	}
}

func TestLinearCost(t *testing.T) {
	r := newRig(t, 1)
	l := Linear{In: irreps(t, "3x0e+2x1o"), Out: irreps(t, "4x0e+5x1o"), Layout: MulIr}
	if got := l.WeightNumel(); got != 12+10 {
		t.Fatalf("%d weights, expected 22", got)
	}
	b := r.must(l.Bind(r.dev, r.normal(2*9), r.normal(22), r.alloc(2*19), 2))
	// a row: 2*12 + 3*2*10 products and sums, 3 + 3*2 scaled inputs.
	if got, want := b.Minimum(), (gpuprof.Cost{Flops: 2 * (24 + 60 + 9), BytesRead: 4 * (18 + 22), BytesWritten: 4 * 38, Launches: 1}); got != want {
		t.Errorf("minimum %+v, expected %+v", got, want)
	}
}

func TestGate(t *testing.T) {
	cases := []Gate{
		{Scalars: irreps(t, "4x0e+3x0o"), ActScalars: []string{"silu", "tanh"}, Gates: irreps(t, "5x0e"), ActGates: []string{"sigmoid"}, Gated: irreps(t, "2x1o+3x2e")},
		{Scalars: irreps(t, "4x0e"), ActScalars: []string{"none"}},
		{Gates: irreps(t, "1x0e+4x0e"), ActGates: []string{"silu", "sigmoid"}, Gated: irreps(t, "3x2e+2x1o")},
		{Scalars: irreps(t, "2x0o"), ActScalars: []string{"abs"}, Gates: irreps(t, "2x0o+3x0e"), ActGates: []string{"tanh", "silu"}, Gated: irreps(t, "2x1e+3x1o")},
	}
	for _, g := range cases {
		for _, layout := range []Layout{MulIr, IrMul} {
			for _, norm := range []string{NormExact, NormE3NN} {
				g.Layout, g.Normalisation = layout, norm
				if norm == NormE3NN && slices.Contains(g.ActScalars, "abs") {
					continue
				}
				const rows = 40
				r := newRig(t, 2)
				x, out := r.normal(rows*g.InDim()), r.poisoned(rows*g.OutDim())
				r.run(r.must(g.Bind(r.dev, x, out, rows)))
				want := make([]float64, rows*g.OutDim())
				for i := range rows {
					if err := RefGate(g, wide(x, i*g.InDim(), (i+1)*g.InDim()), want[i*g.OutDim():(i+1)*g.OutDim()]); err != nil {
						t.Fatal(err)
					}
				}
				near(t, fmt.Sprint(g), wide(out, 0, len(want)), want, 1e-6)
			}
		}
	}
}

func TestGateRefusals(t *testing.T) {
	e, o, vec := irreps(t, "2x0e"), irreps(t, "2x0o"), irreps(t, "1x1o+1x1e")
	ok := Gate{Scalars: e, ActScalars: []string{"silu"}, Normalisation: NormExact, Layout: MulIr}
	cases := map[string]Gate{
		"breaks the parity":      {Scalars: o, ActScalars: []string{"silu"}},
		"unknown activation":     {Scalars: e, ActScalars: []string{"swish"}},
		"give one per block":     {Scalars: e},
		"use one gate per copy":  {Gates: e, ActGates: []string{"silu"}, Gated: irreps(t, "3x1o")},
		"not scalar":             {Scalars: vec, ActScalars: []string{"tanh", "tanh"}},
		"unknown normalisation":  {Scalars: e, ActScalars: []string{"silu"}, Normalisation: "x"},
		"constant of activation": {Scalars: e, ActScalars: []string{"abs"}, Normalisation: NormE3NN},
		"one block per parity":   {Gates: irreps(t, "1x0e+1x0o"), ActGates: []string{"silu", "tanh"}, Gated: irreps(t, "2x1o"), Layout: IrMul},
	}
	if err := ok.Check(); err != nil {
		t.Error(err)
	}
	for want, g := range cases {
		if g.Layout == "" {
			g.Layout = MulIr
		}
		if g.Normalisation == "" {
			g.Normalisation = NormExact
		}
		if err := g.Check(); !errors.Is(err, gpuprof.ErrUsage) || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, expected a usage error with %q", err, want)
		}
	}
	split := Gate{Gates: irreps(t, "1x0e+1x0o"), ActGates: []string{"silu", "tanh"}, Gated: irreps(t, "2x1o"), Layout: MulIr, Normalisation: NormExact}
	if out, err := split.OutIrreps(); err != nil || out.String() != "1x1o+1x1e" {
		t.Errorf("gates of both parities on 2x1o: %v, %v; expected 1x1o+1x1e", out, err)
	}
}

// The exact constants are 1/sqrt(E[phi(z)^2]): trapezoid rule, which converges
// faster than any power for a smooth integrand that vanishes at the ends.
func TestActivationConstants(t *testing.T) {
	for _, a := range activations {
		const h = 1.0 / 512
		sum := 0.0
		for i := -12 * 512; i <= 12*512; i++ {
			z := float64(i) * h
			v := activate(a.id, z)
			sum += h * v * v * math.Exp(-z*z/2) / math.Sqrt(2*math.Pi)
		}
		if got := 1 / math.Sqrt(sum); math.Abs(got-a.exact) > 1e-12 {
			t.Errorf("%s: constant %.16g, quadrature gives %.16g", a.name, a.exact, got)
		}
		if !math.IsNaN(a.e3nn) && math.Abs(a.e3nn/a.exact-1) > 3e-3 {
			t.Errorf("%s: e3nn's constant %g is not an estimate of %g", a.name, a.e3nn, a.exact)
		}
	}
}

func TestScatter(t *testing.T) {
	for _, det := range []bool{false, true} {
		for _, scale := range []float32{0, 0.25} {
			r := newRig(t, 4)
			g := r.graph([]int{0, 5, 1, 0, 40, 0}, 3)
			s := ScatterAdd{C: 37, Deterministic: det, Scale: scale}
			src, out := r.normal(len(g.src)*s.C), r.poisoned(6*s.C)
			b := r.must(s.Bind(r.dev, ScatterBuffers{Src: src, Dst: r.ints(g.dst), RowPtr: r.ints(g.rowPtr), Out: out}, 6, len(g.src)))
			r.run(b)
			want := make([]float64, 6*s.C)
			for row := range 6 {
				RefScatter(s, wide(src, int(g.rowPtr[row])*s.C, int(g.rowPtr[row+1])*s.C), want[row*s.C:(row+1)*s.C])
			}
			near(t, fmt.Sprintf("deterministic=%t", det), wide(out, 0, len(want)), want, 1e-5)
		}
	}
}

func TestTransposeAndFill(t *testing.T) {
	r := newRig(t, 2)
	irs := irreps(t, "5x0e+7x1o+2x2e+1x3o+3x4e")
	const rows = 9
	dim := irs.Dim()
	x, mid, back := r.normal(rows*dim), r.poisoned(rows*dim), r.poisoned(rows*dim)
	r.run(r.must(Transpose{Irreps: irs}.Bind(r.dev, x, mid, rows)))
	want := make([]float64, dim)
	ToLayout(IrMul, irs, want, wide(x, 0, dim))
	near(t, "to ir_mul", wide(mid, 0, dim), want, 1e-12)
	r.run(r.must(Fill{Value: 1}.Bind(r.dev, back, rows*dim-1, 0, 0)))
	if v := device.Floats(back)[rows*dim-1]; v == v {
		t.Error("fill wrote past its end")
	}
	device.Floats(back)[rows*dim-1] = 1
	r.run(r.must(Transpose{Irreps: irs, ToMulIr: true, Accumulate: true}.Bind(r.dev, mid, back, rows)))
	sum := wide(x, 0, rows*dim)
	for i := range sum {
		sum[i]++
	}
	near(t, "back, added", wide(back, 0, rows*dim), sum, 1e-6)
	r.run(r.must(Transpose{Irreps: irs, ToMulIr: true}.Bind(r.dev, mid, back, rows)))
	near(t, "back", wide(back, 0, rows*dim), wide(x, 0, rows*dim), 1e-12)
}
