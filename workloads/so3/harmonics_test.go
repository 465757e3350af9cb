package so3

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func harmonics(lmax int, n Normalization, x, y, z float64) []float64 {
	out := make([]float64, (lmax+1)*(lmax+1))
	Harmonics(lmax, n, x, y, z, out)
	return out
}

func TestHarmonicsKnownValues(t *testing.T) {
	// The known values carry seven digits.
	atZ := harmonics(4, Component, 0, 0, 1)
	want := []float64{
		1, 0, 0, math.Sqrt(3),
		0, 0, -1.118034, 0, 1.936492,
		0, 0, 0, 0, -1.620185, 0, 2.09165,
		0, 0, 0, 0, 1.125, 0, -1.677051, 0, 2.21853,
	}
	for i := range want {
		if math.Abs(atZ[i]-want[i]) > 1e-6 {
			t.Errorf("Y(0,0,1)[%d] = %v, want %v", i, atZ[i], want[i])
		}
	}
	atPole := harmonics(MaxL, Component, 0, 1, 0)
	for l := 0; l <= MaxL; l++ {
		for m := -l; m <= l; m++ {
			want := 0.0
			if m == 0 {
				want = math.Sqrt(float64(2*l + 1))
			}
			if got := atPole[l*l+l+m]; math.Abs(got-want) > 1e-14 {
				t.Errorf("Y(0,1,0) l=%d m=%d = %v, want %v", l, m, got, want)
			}
		}
	}
}

// TestHarmonicsClosedForms compares degrees 1 to 3 with textbook polynomials.
func TestHarmonicsClosedForms(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		x, y, z := r.NormFloat64(), r.NormFloat64(), r.NormFloat64()
		got := harmonics(3, Component, 7*x, 7*y, 7*z)
		n := math.Sqrt(x*x + y*y + z*z)
		x, y, z = x/n, y/n, z/n
		s := math.Sqrt
		want := []float64{
			1, s(3) * x, s(3) * y, s(3) * z,
			s(15) * x * z, s(15) * x * y, s(5) / 2 * (3*y*y - 1), s(15) * y * z, s(15) / 2 * (z*z - x*x),
			s(70) / 4 * x * (3*z*z - x*x), s(105) * x * y * z, s(42) / 4 * x * (5*y*y - 1), s(7) / 2 * y * (5*y*y - 3),
			s(42) / 4 * z * (5*y*y - 1), s(105) / 2 * y * (z*z - x*x), s(70) / 4 * z * (z*z - 3*x*x),
		}
		for i := range want {
			if math.Abs(got[i]-want[i]) > 1e-14 {
				t.Fatalf("Y(%v,%v,%v)[%d] = %v, want %v", x, y, z, i, got[i], want[i])
			}
		}
	}
}

// TestHarmonicsLengths: |Y_l|^2 is 2l+1, 1 and (2l+1)/4pi everywhere, the poles
// and directions a rounding away from them included.
func TestHarmonicsLengths(t *testing.T) {
	points := [][3]float64{
		{0, 1, 0}, {0, -1, 0}, {1e-300, 1, 0}, {1e-9, -1, 1e-12}, {1, 0, 0}, {0, 0, -5}, {1e200, 1e200, -1e200}, {3e-320, 0, 4e-320},
	}
	r := rand.New(rand.NewPCG(3, 4))
	for range 50 {
		points = append(points, [3]float64{r.NormFloat64(), r.NormFloat64(), r.NormFloat64()})
	}
	for _, p := range points {
		for _, n := range []Normalization{Component, Norm, Integral} {
			y := harmonics(MaxL, n, p[0], p[1], p[2])
			for l := 0; l <= MaxL; l++ {
				want := map[Normalization]float64{Component: float64(2*l + 1), Norm: 1, Integral: float64(2*l+1) / (4 * math.Pi)}[n]
				sum := 0.0
				for _, v := range y[l*l : (l+1)*(l+1)] {
					sum += v * v
				}
				if !(math.Abs(sum-want) < 1e-13*want) {
					t.Errorf("%s |Y_%d%v|^2 = %v, want %v", n, l, p, sum, want)
				}
			}
		}
	}
}

// TestHarmonicsCouple: C(2,2,2) Y2 Y2 = +0.534522484 Y2, C(1,2,3) Y1 Y2 =
// (3/7) Y3, C(4,4,4) Y4 Y4 = 0.402291141 Y4. This ties the basis of the 3j
// symbols to the basis of the harmonics.
func TestHarmonicsCouple(t *testing.T) {
	for _, tc := range []struct {
		l1, l2, l3 int
		factor     float64
	}{{2, 2, 2, 0.534522484}, {1, 2, 3, 3.0 / 7}, {4, 4, 4, 0.402291141}} {
		c, d2, d3 := mustWigner(t, tc.l1, tc.l2, tc.l3), 2*tc.l2+1, 2*tc.l3+1
		y := harmonics(4, Component, 0.3, -1.1, 0.7)
		a, b, want := y[tc.l1*tc.l1:], y[tc.l2*tc.l2:], y[tc.l3*tc.l3:]
		for k := range d3 {
			sum := 0.0
			for at := k; at < len(c); at += d3 {
				sum += c[at] * a[at/(d2*d3)] * b[at/d3%d2]
			}
			if math.Abs(sum-tc.factor*want[k]) > 3e-9 { // the factors carry nine digits
				t.Errorf("(%d,%d,%d) component %d: %v, want %v", tc.l1, tc.l2, tc.l3, k, sum, tc.factor*want[k])
			}
		}
	}
}

func TestHarmonicsZeroVector(t *testing.T) {
	for n, first := range map[Normalization]float64{Component: 1, Norm: 1, Integral: 1 / math.Sqrt(4*math.Pi)} {
		out := slices.Repeat([]float64{math.NaN()}, 81)
		Harmonics(8, n, 0, 0, math.Copysign(0, -1), out)
		if math.Abs(out[0]-first) > 1e-16 || slices.ContainsFunc(out[1:], func(v float64) bool { return v != 0 }) {
			t.Errorf("%s at the zero vector: %v", n, out[:9])
		}
	}
}

func TestHarmonicsBadRequestIsNaN(t *testing.T) {
	for _, tc := range []struct {
		lmax, length int
		n            Normalization
		x            float64
	}{
		{-1, 4, Component, 1}, {MaxL + 1, 100, Component, 1}, {2, 8, Component, 1}, {1, 4, "componnent", 1}, {1, 4, Norm, math.Inf(1)},
	} {
		out := make([]float64, tc.length)
		Harmonics(tc.lmax, tc.n, tc.x, 0, 0, out)
		if !slices.ContainsFunc(out, math.IsNaN) {
			t.Errorf("%+v: no NaN in %v", tc, out)
		}
	}
	Harmonics(0, Component, 1, 0, 0, nil) // must not panic
	if n, err := ParseNormalization("norm"); err != nil || n != Norm {
		t.Errorf("ParseNormalization(norm) = %v, %v", n, err)
	}
	if _, err := ParseNormalization("4pi"); err == nil {
		t.Error("ParseNormalization(4pi): want an error")
	}
}

func TestHarmonicsOnlyWriteTheirPart(t *testing.T) {
	out := slices.Repeat([]float64{7}, 12)
	Harmonics(2, Component, 1, 2, 3, out)
	if !slices.Equal(out[9:], []float64{7, 7, 7}) {
		t.Errorf("wrote beyond (lmax+1)^2: %v", out)
	}
}

func TestHarmonicsDoNotAllocate(t *testing.T) {
	out := make([]float64, 81)
	if n := testing.AllocsPerRun(100, func() { Harmonics(8, Norm, 0.1, 0.2, 0.3, out) }); n != 0 {
		t.Errorf("%v allocations a call, want 0", n)
	}
}

func BenchmarkHarmonics(b *testing.B) {
	out := make([]float64, 25)
	for b.Loop() {
		Harmonics(4, Component, 0.1, 0.2, 0.3, out)
	}
}
