package so3

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// randomO3 returns a uniformly random rotation (from a random quaternion),
// negated when improper.
func randomO3(r *rand.Rand, improper bool) [3][3]float64 {
	a, b, c, d := r.NormFloat64(), r.NormFloat64(), r.NormFloat64(), r.NormFloat64()
	n := math.Sqrt(a*a + b*b + c*c + d*d)
	a, b, c, d = a/n, b/n, c/n, d/n
	m := [3][3]float64{
		{1 - 2*(c*c+d*d), 2 * (b*c - a*d), 2 * (b*d + a*c)},
		{2 * (b*c + a*d), 1 - 2*(b*b+d*d), 2 * (c*d - a*b)},
		{2 * (b*d - a*c), 2 * (c*d + a*b), 1 - 2*(b*b+c*c)},
	}
	if improper {
		for i := range m {
			for j := range m[i] {
				m[i][j] = -m[i][j]
			}
		}
	}
	return m
}

func apply(m []float64, v []float64) []float64 {
	out := make([]float64, len(v))
	for i := range out {
		for j, x := range v {
			out[i] += m[i*len(v)+j] * x
		}
	}
	return out
}

func normals(r *rand.Rand, n int) []float64 {
	v := make([]float64, n)
	for i := range v {
		v[i] = r.NormFloat64()
	}
	return v
}

// relativeError is ||got-want||/||want||; the plain norm where want is 0.
func relativeError(got, want []float64) float64 {
	if len(got) != len(want) {
		return math.Inf(1)
	}
	diff, ref := 0.0, 0.0
	for i := range want {
		diff += (got[i] - want[i]) * (got[i] - want[i])
		ref += want[i] * want[i]
	}
	if ref == 0 {
		return math.Sqrt(diff)
	}
	return math.Sqrt(diff / ref)
}

func TestWignerDLowDegrees(t *testing.T) {
	rot := randomO3(rand.New(rand.NewPCG(5, 6)), false)
	d0, err := WignerD(0, rot)
	if err != nil || len(d0) != 1 || d0[0] != 1 {
		t.Errorf("D^0 = %v, %v", d0, err)
	}
	d1, err := WignerD(1, rot)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		for j := range 3 {
			if math.Abs(d1[i*3+j]-rot[i][j]) > 1e-15 {
				t.Errorf("D^1[%d,%d] = %v, want %v", i, j, d1[i*3+j], rot[i][j])
			}
		}
	}
}

// TestHarmonicsRotate: Y_l(r v) = D^l(r) Y_l(v), for improper r through Irreps.D.
func TestHarmonicsRotate(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	irs := HarmonicIrreps(MaxL)
	for trial := range 8 {
		rot := randomO3(r, trial%2 == 1)
		d, err := irs.D(rot)
		if err != nil {
			t.Fatal(err)
		}
		v := normals(r, 3)
		w := [3]float64{}
		for i := range 3 {
			w[i] = rot[i][0]*v[0] + rot[i][1]*v[1] + rot[i][2]*v[2]
		}
		want := harmonics(MaxL, Component, w[0], w[1], w[2])
		got := apply(d, harmonics(MaxL, Component, v[0], v[1], v[2]))
		if e := relativeError(got, want); !(e < 1e-12) {
			t.Errorf("trial %d: relative error %.2g", trial, e)
		}
	}
}

// TestDIsARepresentation: D(ab) = D(a)D(b) and D is orthogonal.
func TestDIsARepresentation(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	irs := mustParse(t, "2x0o+1x0e+2x1e+1x1o+1x8o+1x5e")
	for trial := range 4 {
		a, b := randomO3(r, trial%2 == 1), randomO3(r, trial >= 2)
		var ab [3][3]float64
		for i := range 3 {
			for j := range 3 {
				ab[i][j] = a[i][0]*b[0][j] + a[i][1]*b[1][j] + a[i][2]*b[2][j]
			}
		}
		v := normals(r, irs.Dim())
		got := apply(mustD(t, irs, a), apply(mustD(t, irs, b), v))
		if e := relativeError(got, apply(mustD(t, irs, ab), v)); !(e < 1e-12) {
			t.Errorf("D(a)D(b) v against D(ab) v: relative error %.2g", e)
		}
		before, after := relativeError(v, make([]float64, len(v))), relativeError(got, make([]float64, len(v)))
		if math.Abs(after/before-1) > 1e-12 {
			t.Errorf("length changed from %v to %v", before, after)
		}
	}
}

func mustD(t interface{ Fatal(...any) }, irs Irreps, r [3][3]float64) []float64 {
	d, err := irs.D(r)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestInversionIsParity(t *testing.T) {
	minus := [3][3]float64{{-1, 0, 0}, {0, -1, 0}, {0, 0, -1}}
	irs := mustParse(t, "1x0o+1x0e+1x1o+1x1e+1x2o")
	d := mustD(t, irs, minus)
	dim := irs.Dim()
	at := 0
	for _, m := range irs {
		for range m.Dim() {
			if got := d[at*dim+at]; math.Abs(got-float64(m.Ir.P)) > 1e-14 {
				t.Errorf("%v: inversion acts by %v", m.Ir, got)
			}
			at++
		}
	}
}

func TestRotationErrors(t *testing.T) {
	identity := [3][3]float64{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}
	for _, tc := range []struct {
		name, mention string
		l             int
		r             [3][3]float64
	}{
		{"negative degree", "outside 0..8", -1, identity},
		{"high degree", "outside 0..8", MaxL + 1, identity},
		{"scaled", "not orthogonal", 1, [3][3]float64{{2, 0, 0}, {0, 2, 0}, {0, 0, 2}}},
		{"NaN", "not orthogonal", 1, [3][3]float64{{math.NaN(), 0, 0}, {0, 1, 0}, {0, 0, 1}}},
		{"reflection", "improper", 2, [3][3]float64{{1, 0, 0}, {0, -1, 0}, {0, 0, 1}}},
	} {
		if _, err := WignerD(tc.l, tc.r); err == nil || !strings.Contains(err.Error(), tc.mention) {
			t.Errorf("%s: error %v does not mention %q", tc.name, err, tc.mention)
		}
	}
	for _, irs := range []Irreps{{{1, Irrep{1, 0}}}, {{-1, Irrep{1, 1}}}, {{1, Irrep{9, 1}}}, {{1, Irrep{-1, 1}}}} {
		if _, err := irs.D(identity); err == nil {
			t.Errorf("D of %v: want an error", irs)
		}
	}
	if _, err := HarmonicIrreps(1).D([3][3]float64{}); err == nil {
		t.Error("D of the zero matrix: want an error")
	}
}

// TestTensorProductEquivariance: D_out f(x, y, w) = f(D_1 x, D_2 y, w) for
// random irreps, instructions, normalisations and elements of O(3).
func TestTensorProductEquivariance(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tp := drawProduct(t)
		if err := tp.Validate(); err != nil {
			t.Fatalf("drawn product is invalid: %v", err)
		}
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		g := randomO3(r, rapid.Bool().Draw(t, "improper"))
		x, y, w := normals(r, tp.In1.Dim()), normals(r, tp.In2.Dim()), normals(r, tp.WeightNumel())
		out, moved := make([]float64, tp.Out.Dim()), make([]float64, tp.Out.Dim())
		if err := tp.Eval(x, y, w, out); err != nil {
			t.Fatal(err)
		}
		if err := tp.Eval(apply(mustD(t, tp.In1, g), x), apply(mustD(t, tp.In2, g), y), w, moved); err != nil {
			t.Fatal(err)
		}
		if e := relativeError(moved, apply(mustD(t, tp.Out, g), out)); !(e < 1e-12) {
			t.Fatalf("%v x %v -> %v: relative error %.2g", tp.In1, tp.In2, tp.Out, e)
		}
	})
}

// drawProduct draws inputs, a mode for each of some pairs of blocks, and an
// output block that fits; half of the time a block that is there is shared.
func drawProduct(t *rapid.T) TensorProduct {
	tp := TensorProduct{
		In1:       drawIrreps(t, "in1", 1, 3, 3, 4),
		In2:       drawIrreps(t, "in2", 1, 3, 3, 4),
		IrrepNorm: rapid.SampledFrom([]string{"", IrrepNormComponent, IrrepNormNorm, NormNone}).Draw(t, "irrep norm"),
		PathNorm:  rapid.SampledFrom([]string{"", PathNormElement, PathNormPath, NormNone}).Draw(t, "path norm"),
	}
	for range rapid.IntRange(1, 6).Draw(t, "paths") {
		ins := Instruction{
			In1:        rapid.IntRange(0, len(tp.In1)-1).Draw(t, "i1"),
			In2:        rapid.IntRange(0, len(tp.In2)-1).Draw(t, "i2"),
			PathWeight: rapid.Float64Range(0, 4).Draw(t, "path weight"),
		}
		a, b := tp.In1[ins.In1], tp.In2[ins.In2]
		modes := []Mode{UVW, UVU, UVV}
		if a.Mul == b.Mul {
			modes = append(modes, UUW, UUU)
		}
		ins.Mode = rapid.SampledFrom(modes).Draw(t, "mode")
		ins.HasWeight = ins.Mode == UVW || rapid.Bool().Draw(t, "has weight")
		ir := rapid.SampledFrom(a.Ir.Product(b.Ir)).Draw(t, "ir out")
		mul := a.Mul
		switch ins.Mode {
		case UVV:
			mul = b.Mul
		case UVW, UUW:
			mul = rapid.IntRange(1, 3).Draw(t, "mul out")
			if !ins.HasWeight {
				mul = 1
			}
		}
		block := MulIrrep{Mul: mul, Ir: ir}
		ins.Out = len(tp.Out)
		for k, have := range tp.Out {
			if have == block && rapid.Bool().Draw(t, "share") {
				ins.Out = k
			}
		}
		if ins.Out == len(tp.Out) {
			tp.Out = append(tp.Out, block)
		}
		tp.Instructions = append(tp.Instructions, ins)
	}
	return tp
}
