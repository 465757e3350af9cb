package so3

import (
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

// fourth is the derivative of f at 0 by fourth-order central differences.
func fourth(h float64, f func(float64) float64) float64 {
	return (8*(f(h)-f(-h)) - (f(2*h) - f(-2*h))) / (12 * h)
}

func TestHarmonicsGradKnownValues(t *testing.T) {
	out := make([]float64, 3*49)
	HarmonicsGrad(6, Component, .3, -.7, 1.1, out)
	for at, want := range map[int][3]float64{
		2: {.151879925565, .940209063021, .556893060405}, 4: {2.140711434142, .558446461080, -.228455370442}, 6: {-.307763795786, -1.905204450103, -1.128467251215},
	} {
		for k, w := range want {
			if math.Abs(out[3*at+k]-w) > 1e-12 {
				t.Errorf("harmonic %d, component %d: %.12f, want %.12f", at, k, out[3*at+k], w)
			}
		}
	}
	r2 := .3*.3 + .7*.7 + 1.1*1.1
	for l, want := range []float64{0, 6, 30, 84, 180, 330, 546} {
		sum := 0.0
		for _, v := range out[3*l*l : 3*(l+1)*(l+1)] {
			sum += v * v * r2
		}
		if math.Abs(sum-want) > 1e-11*max(want, 1) {
			t.Errorf("l=%d: %.12f, want %g", l, sum, want)
		}
	}
}

// The gradient is the derivative of Harmonics, in every normalisation and at the poles.
func TestHarmonicsGradIsTheDerivative(t *testing.T) {
	check := func(t interface{ Errorf(string, ...any) }, n Normalization, v [3]float64) {
		const lmax = MaxL
		grad := make([]float64, 3*(lmax+1)*(lmax+1))
		HarmonicsGrad(lmax, n, v[0], v[1], v[2], grad)
		out := make([]float64, (lmax+1)*(lmax+1))
		r := math.Sqrt(v[0]*v[0] + v[1]*v[1] + v[2]*v[2])
		for k := range 3 {
			for i := range out {
				// l = 8 on the unit sphere: the error is some l^5 h^4, the rounding 1e-16/h.
				got := fourth(5e-4*r, func(h float64) float64 {
					w := v
					w[k] += h
					Harmonics(lmax, n, w[0], w[1], w[2], out)
					return out[i]
				})
				if want := grad[3*i+k]; math.Abs(got-want)*r > 2e-8 {
					t.Errorf("%s at %v, harmonic %d by %d: %.12g, differences give %.12g", n, v, i, k, want, got)
				}
			}
		}
	}
	for _, pole := range [][3]float64{{0, 1, 0}, {0, -2, 0}, {0, 0, 1}, {1, 0, 0}} {
		check(t, Component, pole)
	}
	rapid.Check(t, func(t *rapid.T) {
		axis := rapid.Float64Range(-2, 2)
		v := [3]float64{axis.Draw(t, "x"), axis.Draw(t, "y"), axis.Draw(t, "z")}
		if v[0]*v[0]+v[1]*v[1]+v[2]*v[2] < 1e-2 {
			return
		}
		check(t, rapid.SampledFrom([]Normalization{Component, Norm, Integral}).Draw(t, "n"), v)
	})
}

func TestHarmonicsGradOfNothing(t *testing.T) {
	out := []float64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}
	HarmonicsGrad(1, Component, 0, 0, 0, out)
	for _, v := range out {
		if v != 0 {
			t.Fatalf("the zero vector has the gradient %v", out)
		}
	}
	HarmonicsGrad(2, Component, 1, 0, 0, out)
	for _, v := range out {
		if !math.IsNaN(v) {
			t.Fatalf("a short result is %v, want NaN", out)
		}
	}
}

// uvuPath is one path of mode uvu.
func uvuPath(t *testing.T, in1, in2, out string) TensorProduct {
	t.Helper()
	tp := TensorProduct{Instructions: []Instruction{{Mode: UVU, HasWeight: true, PathWeight: 1}}}
	for _, f := range []struct {
		to   *Irreps
		text string
	}{{&tp.In1, in1}, {&tp.In2, in2}, {&tp.Out, out}} {
		var err error
		if *f.to, err = ParseIrreps(f.text); err != nil {
			t.Fatal(err)
		}
	}
	return tp
}

func TestEvalGradKnownValues(t *testing.T) {
	tests := []struct {
		name   string
		tp     TensorProduct
		y, dz  []float64
		dw     float64
		dx, dy []float64
	}{
		{name: "1x1->0", tp: uvuPath(t, "1x1o", "1x1o", "1x0e"), y: []float64{.5, -1, 2}, dz: []float64{2}, dw: 5.196152422707,
			dx: []float64{.404145188433, -.808290376865, 1.616580753731}, dy: []float64{.808290376865, 1.616580753731, 2.424871130596}},
		{name: "1x1->1", tp: uvuPath(t, "1x1o", "1x1o", "1x1e"), y: []float64{.5, -1, 2}, dz: []float64{2, -1, .5}, dw: 9.545941546018,
			dx: []float64{.742462120246, 1.856155300615, .742462120246}, dy: []float64{-1.979898987322, -2.722361107568, 2.474873734153}},
		{name: "1x2->1", tp: uvuPath(t, "1x1o", "1x2e", "1x1o"), y: []float64{.1, .2, .3, .4, .5}, dz: []float64{2, -1, .5}, dw: -.601967962037,
			dx: []float64{-.573732320519, .097227812425, -.014033625919}},
	}
	for _, tt := range tests {
		dx, dy, dw := make([]float64, 3), make([]float64, len(tt.y)), make([]float64, 1)
		if err := tt.tp.EvalGrad([]float64{1, 2, 3}, tt.y, []float64{.7}, tt.dz, dx, dy, dw); err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			what      string
			got, want []float64
		}{{"dw", dw, []float64{tt.dw}}, {"dx", dx, tt.dx}, {"dy", dy, tt.dy}} {
			for i, w := range c.want {
				if math.Abs(c.got[i]-w) > 1e-12 {
					t.Errorf("%s: %s[%d] = %.12f, want %.12f", tt.name, c.what, i, c.got[i], w)
				}
			}
		}
	}
}

// The gradients of every mode are the derivatives of Eval, which is linear in each
// argument: a difference of any size is exact up to rounding.
func TestEvalGradOfEveryMode(t *testing.T) {
	rnd := rand.New(rand.NewPCG(4, 5))
	normal := func(n int) []float64 {
		v := make([]float64, n)
		for i := range v {
			v[i] = rnd.NormFloat64()
		}
		return v
	}
	for _, tt := range []struct{ mode, in1, in2, out string }{
		{"uvw", "3x1o", "2x2e", "4x3o"}, {"uvu", "3x2o", "2x1o", "3x2e"}, {"uvv", "2x1e", "5x3o", "5x4o"},
		{"uuw", "4x2e", "4x2o", "3x1o"}, {"uuu", "5x1o", "5x1o", "5x1e"},
	} {
		tp := uvuPath(t, tt.in1, tt.in2, tt.out)
		tp.Instructions[0].Mode, tp.Instructions[0].PathWeight = Mode(tt.mode), .7
		x, y, w, dz := normal(tp.In1.Dim()), normal(tp.In2.Dim()), normal(tp.WeightNumel()), normal(tp.Out.Dim())
		grads := [][]float64{make([]float64, len(x)), make([]float64, len(y)), make([]float64, len(w))}
		if err := tp.EvalGrad(x, y, w, dz, grads[0], grads[1], grads[2]); err != nil {
			t.Fatal(err)
		}
		loss := func() float64 {
			z, sum := make([]float64, tp.Out.Dim()), 0.0
			if err := tp.Eval(x, y, w, z); err != nil {
				t.Fatal(err)
			}
			for i, v := range z {
				sum += v * dz[i]
			}
			return sum
		}
		whole := loss()
		for a, arg := range [][]float64{x, y, w} {
			dot := 0.0
			for i := range arg {
				before := arg[i]
				arg[i] = before + .5
				up := loss()
				arg[i] = before - .5
				if got := up - loss(); math.Abs(got-grads[a][i]) > 1e-12*max(1, math.Abs(got)) {
					t.Errorf("%s: argument %d, %d: %.15g, differences give %.15g", tt.mode, a, i, grads[a][i], got)
				}
				arg[i] = before
				dot += before * grads[a][i]
			}
			// w.dw = x.dx = y.dy = z.dz
			if math.Abs(dot-whole) > 1e-12*max(1, math.Abs(whole)) {
				t.Errorf("%s: argument %d times its gradient is %.15g, want %.15g", tt.mode, a, dot, whole)
			}
		}
	}
}

func TestEvalGradChecksLengths(t *testing.T) {
	tp := uvuPath(t, "1x1o", "1x1o", "1x0e")
	if err := tp.EvalGrad(make([]float64, 3), make([]float64, 3), make([]float64, 1), make([]float64, 2), nil, nil, nil); err == nil {
		t.Error("a cotangent of two values was taken for one of one")
	}
}
