package gruflow

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// both runs a test with the assembly and, where that is in use, without.
func both(t *testing.T, f func(t *testing.T)) {
	t.Run("default", f)
	t.Run("generic", func(t *testing.T) {
		defer useGeneric()()
		f(t)
	})
}

func near(got float32, want float64) bool {
	return math.Abs(float64(got)-want) <= 4e-7*math.Abs(want)+1e-37
}

func TestActivations(t *testing.T) {
	both(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(1, 1))
		for n := range 40 {
			x := make([]float32, n+2)
			for i := range x {
				x[i] = float32(rng.NormFloat64() * math.Pow(10, float64(rng.IntN(7)-4)))
			}
			x[n], x[n+1] = 7, 8 // must stay
			s, h := append([]float32(nil), x...), append([]float32(nil), x...)
			sigmoidAll(s[:n])
			tanhAll(h[:n])
			for i, v := range x[:n] {
				if v > -80 && !near(s[i], sigmoid(float64(v))) {
					t.Fatalf("sigmoid(%v) = %v, want %v", v, s[i], sigmoid(float64(v)))
				}
				if !near(h[i], math.Tanh(float64(v))) {
					t.Fatalf("tanh(%v) = %v, want %v", v, h[i], math.Tanh(float64(v)))
				}
			}
			if s[n] != 7 || h[n+1] != 8 {
				t.Fatal("written outside")
			}
		}
		inf := float32(math.Inf(1))
		x := []float32{0, 200, -200, inf, -inf, float32(math.NaN()), 1e30, -1e-30}
		s, h := append([]float32(nil), x...), append([]float32(nil), x...)
		sigmoidAll(s)
		tanhAll(h)
		for i, want := range []float64{0.5, 1, 0, 1, 0, math.NaN(), 1, 0.5} {
			if i != 5 && math.Abs(float64(s[i])-want) > 1e-30 || i == 5 && s[i] == s[i] {
				t.Errorf("sigmoid(%v) = %v", x[i], s[i])
			}
		}
		for i, want := range []float32{0, 1, -1, 1, -1, 0, 1, -1e-30} {
			if i != 5 && h[i] != want || i == 5 && h[i] == h[i] {
				t.Errorf("tanh(%v) = %v", x[i], h[i])
			}
		}
	})
}

func TestDot(t *testing.T) {
	both(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(3, 3))
		for n := range 70 {
			a, b := make([]float32, n), make([]float32, n+1)
			want, scale := 0.0, 0.0
			for i := range a {
				a[i], b[i] = float32(rng.NormFloat64()), float32(rng.NormFloat64())
				want += float64(a[i]) * float64(b[i])
				scale += math.Abs(float64(a[i]) * float64(b[i]))
			}
			b[n] = float32(math.NaN()) // must not be read
			if got := float64(dot(a, b)); !(math.Abs(got-want) <= 1e-6*scale) {
				t.Fatalf("n=%d: %v, want %v", n, got, want)
			}
		}
	})
}

func TestCell(t *testing.T) {
	both(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(2, 2))
		for n := 1; n < 40; n++ {
			stride := n + rng.IntN(3)
			draw := func(k int) []float32 {
				v := make([]float32, k)
				for i := range v {
					v[i] = float32(2 * rng.NormFloat64())
				}
				return v
			}
			gx, gh, h := draw(3*stride), draw(3*stride), draw(n)
			old := append([]float32(nil), h...)
			cell(gx, gh, h, stride)
			for j := range h {
				r := sigmoid(float64(gx[j]) + float64(gh[j]))
				z := sigmoid(float64(gx[stride+j]) + float64(gh[stride+j]))
				c := math.Tanh(float64(gx[2*stride+j]) + r*float64(gh[2*stride+j]))
				want := (1-z)*c + z*float64(old[j])
				if math.Abs(float64(h[j])-want) > 1e-6*(1+math.Abs(float64(old[j]))) {
					t.Fatalf("n=%d [%d]: %v, want %v", n, j, h[j], want)
				}
			}
		}
	})
}

// A unit's values do not depend on its place in a row, nor on how far rows are apart, and what
// is kept backwards has the same bits in assembly and in Go. The formulas are checked by the
// tests of a whole GRU.
func TestKeptCells(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	draw := func(n int) []float32 {
		v := make([]float32, n)
		for i := range v {
			v[i] = float32(rng.NormFloat64())
		}
		return v
	}
	for n := 1; n < 40; n++ {
		stride, apart := n+rng.IntN(3), n+rng.IntN(3)
		gx, gh, before := draw(2*stride+n), draw(2*stride+n), draw(n)
		made := func() keptCells {
			return keptCells{gx: slices.Clone(gx), gh: slices.Clone(gh), kept: make([]float32, 3*apart+n), before: slices.Clone(before), after: make([]float32, n), stride: stride, keptStride: apart, n: n}
		}
		all := made()
		all.forward()
		if !slices.Equal(all.gx, gx) || !slices.Equal(all.gh, gh) || !slices.Equal(all.before, before) {
			t.Fatalf("n=%d: the way forward writes its input", n)
		}
		h := slices.Clone(before)
		cell(gx, gh, h, stride)
		for i, v := range all.after {
			if math.Abs(float64(v-h[i])) > 1e-6 { // only the last sums are rounded otherwise
				t.Fatalf("n=%d [%d]: the state is %v, that of cell %v", n, i, v, h[i])
			}
			u := gh[2*stride+i]
			r, z := sigmoid(float64(gx[i])+float64(gh[i])), sigmoid(float64(gx[stride+i])+float64(gh[stride+i]))
			for g, want := range []float64{r, z, math.Tanh(float64(gx[2*stride+i]) + r*float64(u)), float64(u)} {
				if got := all.kept[g*apart+i]; math.Abs(float64(got)-want) > 1e-6 {
					t.Fatalf("n=%d [%d]: kept %d is %v, want %v", n, i, g, got, want)
				}
			}
		}
		for at := range n {
			one := made()
			one = one.tail(at)
			one.n = 1
			one.forward()
			if one.after[0] != all.after[at] || one.kept[2*apart] != all.kept[2*apart+at] {
				t.Fatalf("n=%d [%d]: alone it is %v, want %v", n, at, one.after[0], all.after[at])
			}
		}
		for _, dout := range [][]float32{nil, draw(n)} {
			dh, chain := draw(n), draw(n)
			back := func(run func(*keptCells)) keptCells {
				c := made()
				copy(c.kept, all.kept)
				c.after, c.dout, c.back, c.chain = nil, dout, slices.Clone(dh), chain
				c.dh = c.back
				run(&c)
				return c
			}
			got, want := back((*keptCells).backward), back(backGeneric)
			if !slices.Equal(got.gx, want.gx) || !slices.Equal(got.gh, want.gh) || !slices.Equal(got.back, want.back) {
				t.Fatalf("n=%d: backwards %v %v %v, want %v %v %v", n, got.gx, got.gh, got.back, want.gx, want.gh, want.back)
			}
		}
	}
}
