package vec

import (
	"math"
	"math/rand/v2"
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

func random(rng *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(rng.NormFloat64())
	}
	return x
}

// guarded returns a slice of n with NaN on either side, and a check that it is
// still there.
func guarded(rng *rand.Rand, t *testing.T, n int) ([]float32, func()) {
	const pad = 40
	all := random(rng, n+2*pad)
	nan := float32(math.NaN())
	for i := range pad {
		all[i], all[n+pad+i] = nan, nan
	}
	return all[pad : pad+n : pad+n], func() {
		t.Helper()
		for i := range pad {
			if all[i] == all[i] || all[n+pad+i] == all[n+pad+i] {
				t.Fatalf("n=%d: written outside", n)
			}
		}
	}
}

func close32(got float32, want, scale float64) bool {
	return math.Abs(float64(got)-want) <= 3e-7*math.Max(scale, 1e-30)
}

func TestElementwise(t *testing.T) {
	both(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(1, 1))
		for n := range 140 {
			a, b := random(rng, n), random(rng, n+3)
			alpha := float32(rng.NormFloat64())
			for _, op := range []struct {
				name string
				run  func(dst []float32)
				want func(d, a, b float64) (v, scale float64)
			}{
				{"axpy", func(d []float32) { Axpy(alpha, b, d) }, func(d, _, b float64) (float64, float64) {
					v := float64(alpha) * b
					return d + v, math.Abs(d) + math.Abs(v)
				}},
				{"mul", func(d []float32) { Mul(d, a, b) }, func(_, a, b float64) (float64, float64) { return a * b, math.Abs(a * b) }},
				{"muladd", func(d []float32) { MulAdd(d, a, b) }, func(d, a, b float64) (float64, float64) {
					return d + a*b, math.Abs(d) + math.Abs(a*b)
				}},
			} {
				dst, intact := guarded(rng, t, n)
				before := append([]float32(nil), dst...)
				op.run(dst)
				intact()
				for i := range dst {
					want, scale := op.want(float64(before[i]), float64(a[i]), float64(b[i]))
					if !close32(dst[i], want, scale) {
						t.Fatalf("%s n=%d [%d]: %v, want %v", op.name, n, i, dst[i], want)
					}
				}
			}
		}
	})
}

func TestSweep(t *testing.T) {
	both(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(7, 7))
		for n := range 80 {
			d1, d3 := 1+rng.IntN(5), 1+rng.IntN(5)
			ss, ds := n+rng.IntN(4), n+rng.IntN(4)
			src := random(rng, d1*ss+n)
			dst, intact := guarded(rng, t, d3*ds+n)
			want, scale := make([]float64, len(dst)), make([]float64, len(dst))
			for i, v := range dst {
				want[i], scale[i] = float64(v), math.Abs(float64(v))
			}
			var cells []int32
			m := random(rng, rng.IntN(12))
			for c := range m {
				i, k := rng.IntN(d1), rng.IntN(d3)
				cells = append(cells, int32(i), int32(k), -1, -1)
				for u := range n {
					p := float64(m[c]) * float64(src[i*ss+u])
					want[k*ds+u] += p
					scale[k*ds+u] += math.Abs(p)
				}
			}
			Sweep(dst, ds, src, ss, n, cells, m)
			intact()
			for i := range dst {
				if !close32(dst[i], want[i], 4*scale[i]) {
					t.Fatalf("n=%d [%d]: %v, want %v", n, i, dst[i], want[i])
				}
			}
		}
	})
}

func TestSilu(t *testing.T) {
	both(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(2, 2))
		for n := range 40 {
			x, intact := guarded(rng, t, n)
			for i := range x {
				x[i] *= 12
			}
			before := append([]float32(nil), x...)
			Silu(x, 1.6765)
			intact()
			for i, v := range before {
				want := float64(float32(1.6765)) * float64(v) / (1 + math.Exp(-float64(v)))
				if !close32(x[i], want, math.Abs(1.6765*float64(v))) {
					t.Fatalf("silu(%v) = %v, want %v", v, x[i], want)
				}
			}
		}
		// Far out the value is x or nothing, never an overflow.
		inf := float32(math.Inf(1))
		special := []float32{0, 88, -88, 200, -200, 1e30, -1e30, inf, float32(math.NaN())}
		Silu(special, 1)
		for i, want := range []float64{0, 88, 0, 200, 0, 1e30, 0, math.Inf(1)} {
			if got := float64(special[i]); got != want && math.Abs(got-want) > math.Max(3e-7*math.Abs(want), 1e-6) {
				t.Errorf("special %d: %v, want %v", i, got, want)
			}
		}
		if special[8] == special[8] {
			t.Errorf("silu(NaN) = %v", special[8])
		}
	})
}

func TestSumRows(t *testing.T) {
	both(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(11, 11))
		for n := range 150 {
			rows, stride := rng.IntN(9), n+rng.IntN(3)
			src := random(rng, max(0, (rows-1)*stride+n))
			dst, intact := guarded(rng, t, n)
			SumRows(dst, src, stride, rows)
			intact()
			want := make([]float32, n)
			for r := range rows {
				Axpy(1, src[r*stride:], want)
			}
			for i, v := range dst {
				if v != want[i] {
					t.Fatalf("%d rows of %d [%d]: %v, want %v", rows, n, i, v, want[i])
				}
			}
		}
	})
}

func TestFillAndInvSqrt(t *testing.T) {
	both(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(9, 9))
		for n := range 70 {
			x, intact := guarded(rng, t, n)
			Fill(x, 2.5)
			intact()
			for i, v := range x {
				if v != 2.5 {
					t.Fatalf("fill %d of %d: %v", i, n, v)
				}
			}
			copy(x, random(rng, n))
			for i, v := range x {
				x[i] = v * v
			}
			before := append([]float32(nil), x...)
			InvSqrt(x, 1e-8)
			intact()
			for i, v := range before {
				if want := 1 / float32(math.Sqrt(float64(v+1e-8))); x[i] != want {
					t.Fatalf("1/sqrt(%v + 1e-8) = %v, want %v", v, x[i], want)
				}
			}
		}
	})
}

func TestNoAllocation(t *testing.T) {
	both(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(4, 4))
		a, b, c := random(rng, 64*100), random(rng, 100*90), random(rng, 64*90)
		work := make([]float32, WorkT(64, 100))
		n := testing.AllocsPerRun(20, func() {
			Gemm(64, 90, 100, 1, a, 100, b, 90, c, 90)
			GemmBias(64, 90, 100, 1, a, 100, b, 90, b, c, 90)
			GemmT(64, 90, 100, 1, a, 64, b, 90, c, 90, work)
			SumRows(c[:90], b, 90, 100)
			Axpy(2, a, c)
			Mul(c, a, b)
			MulAdd(c, a, b)
			Silu(c, 1)
		})
		if n != 0 {
			t.Errorf("%v allocations", n)
		}
	})
}

func BenchmarkAxpy(b *testing.B) {
	for _, n := range []int{8, 128} {
		b.Run(map[int]string{8: "n=8", 128: "n=128"}[n], func(b *testing.B) {
			x, y := make([]float32, n), make([]float32, n)
			for b.Loop() {
				Axpy(1.5, x, y)
			}
		})
	}
}

func BenchmarkSilu(b *testing.B) {
	x := random(rand.New(rand.NewPCG(6, 6)), 6400)
	for b.Loop() {
		Silu(x, 1)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/6400, "ns/value")
}

func TestPairs(t *testing.T) {
	both(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(3, 3))
		cells := []int32{0, 0, 9, 9, 0, 2, 9, 9, 1, 1, 9, 9, 2, 0, 9, 9, 2, 3, 9, 9}
		for n := range 80 {
			w, x, dz, m := random(rng, n), random(rng, 3*n+5), random(rng, 4*n+7), random(rng, 5)
			dw, intact := guarded(rng, t, n)
			sums := make([][8]float32, 5)
			Pairs(dw, w, x, n+2, dz, n+2, n, cells, m, sums)
			intact()
			want, scale := make([]float64, n), make([]float64, n)
			for c, v := range m {
				i, k, sum, size := int(cells[4*c]), int(cells[4*c+1]), 0.0, 0.0
				for u := range n {
					p := float64(x[i*(n+2)+u]) * float64(dz[k*(n+2)+u])
					want[u] += float64(v) * p
					scale[u] += math.Abs(float64(v) * p)
					sum += float64(w[u]) * p
					size += math.Abs(float64(w[u]) * p)
				}
				got := float32(0)
				for _, s := range sums[c] {
					got += s
				}
				if !close32(got, sum, size) {
					t.Fatalf("n=%d cell %d: %g, want %g", n, c, got, sum)
				}
			}
			for u := range n {
				if !close32(dw[u], want[u], scale[u]) {
					t.Fatalf("n=%d copy %d: %g, want %g", n, u, dw[u], want[u])
				}
			}
		}
		none := []float32{1, 2}
		Pairs(none, none, nil, 0, nil, 0, 2, nil, nil, nil)
		if none[0] != 0 || none[1] != 0 {
			t.Errorf("without cells %v is left", none)
		}
	})
}
