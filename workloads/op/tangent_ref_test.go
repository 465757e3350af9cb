package op

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// along is the derivative of f by e at 0, when args[i] moves along dirs[i].
func along(args, dirs [][]float64, f func() []float64) []float64 {
	const h = 1e-3
	value := func(e float64) []float64 {
		for i, v := range args {
			for k := range v {
				v[k] += e * dirs[i][k]
			}
		}
		out := f()
		for i, v := range args {
			for k := range v {
				v[k] -= e * dirs[i][k]
			}
		}
		return out
	}
	a, b, c, d := value(h), value(-h), value(2*h), value(-2*h)
	for i := range a {
		a[i] = (8*(a[i]-b[i]) - (c[i] - d[i])) / (12 * h)
	}
	return a
}

// same checks numbers against differences, which are good to some 1e-11.
func same(t *testing.T, what string, got, want []float64) {
	t.Helper()
	worst, scale := 0.0, 1.0
	for i, w := range want {
		worst, scale = max(worst, math.Abs(got[i]-w)), max(scale, math.Abs(w))
	}
	if !(worst <= 1e-10*scale) {
		t.Errorf("%s: differences are %.3g off", what, worst)
	}
}

// The oracles of the tangents are the slopes along a direction, and those of the second
// way back the slopes of these by every argument.
func TestTangentsAreDerivatives(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	for _, layout := range []Layout{MulIr, IrMul} {
		g := Gate{Scalars: irreps(t, "2x0e+2x0o"), Gates: irreps(t, "5x0e"), Gated: irreps(t, "3x1o+2x2e"), ActScalars: []string{"silu", "tanh"},
			ActGates: []string{"sigmoid"}, Normalisation: NormExact, Layout: layout}
		x, dx, dout := normals(rnd, g.InDim()), normals(rnd, g.InDim()), normals(rnd, g.OutDim())
		tangent := func() []float64 {
			out := make([]float64, g.OutDim())
			if err := RefGateTangent(g, x, dx, out); err != nil {
				t.Fatal(err)
			}
			return out
		}
		same(t, "gate", tangent(), along([][]float64{x}, [][]float64{dx}, func() []float64 {
			out := make([]float64, g.OutDim())
			if err := RefGate(g, x, out); err != nil {
				t.Fatal(err)
			}
			return out
		}))
		grad := make([]float64, g.InDim())
		if err := RefGateSecond(g, x, dx, dout, grad); err != nil {
			t.Fatal(err)
		}
		isGradient(t, "the gate's tangent", x, grad, func() float64 { return dot(tangent(), dout) })
	}

	m := MLP{In: 4, Hidden: 3, Out: 5}
	b, db, w1, w2, gw, gdw := normals(rnd, 4), normals(rnd, 4), normals(rnd, 12), normals(rnd, 15), normals(rnd, 5), normals(rnd, 5)
	weights := func() []float64 {
		w := make([]float64, 5)
		if err := RefMLP(m, b, w1, w2, w); err != nil {
			t.Fatal(err)
		}
		return w
	}
	tangent := func() []float64 {
		w := make([]float64, 5)
		if err := RefMLPTangent(m, b, db, w1, w2, w); err != nil {
			t.Fatal(err)
		}
		return w
	}
	same(t, "mlp", tangent(), along([][]float64{b}, [][]float64{db}, weights))
	dw1, dw2 := make([]float64, 12), make([]float64, 15)
	if err := RefMLPSecond(m, b, db, w1, w2, gw, gdw, dw1, dw2); err != nil {
		t.Fatal(err)
	}
	both := func() float64 { return dot(gw, weights()) + dot(gdw, tangent()) }
	isGradient(t, "the mlp's tangent by w1", w1, dw1, both)
	isGradient(t, "the mlp's tangent by w2", w2, dw2, both)

	for _, s := range []Basis{{Kind: "gaussian", N: 10, Cutoff: 4}, {Kind: "gaussian", N: 5, Cutoff: 4, Envelope: true}, {Kind: "bessel", N: 8, Cutoff: 4, Envelope: true}} {
		vec, u, out := []float64{.8, -.7, 1.1}, []float64{.3, .1, -.2}, make([]float64, s.N) // a step as short as those by one argument
		RefBasisTangent(s, vec, u, out)
		same(t, fmt.Sprint(s), out, along([][]float64{vec}, [][]float64{u}, func() []float64 {
			b := make([]float64, s.N)
			RefBasis(s, vec, b)
			return b
		}))
	}
	s := Sph{LMax: 4}
	vec, u, out := []float64{.8, -.7, 1.1}, []float64{.3, .1, -.2}, make([]float64, s.Dim())
	RefSphTangent(s, vec, u, out)
	same(t, "harmonics", out, along([][]float64{vec}, [][]float64{u}, func() []float64 {
		y := make([]float64, s.Dim())
		RefSph(s, vec, y)
		return y
	}))
	for id, act := range activations {
		v := []float64{.3}
		isGradient(t, act.name, v, []float64{activationCurvature(act.id, v[0])}, func() float64 { return activationSlope(id, v[0]) })
	}
}
