package vec

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestGemm(t *testing.T) {
	both(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(3, 3))
		for range 120 {
			rows, n, k := rng.IntN(20), rng.IntN(70), 1+rng.IntN(40)
			if rng.IntN(10) == 0 {
				k = 250 + rng.IntN(300)
			}
			if rng.IntN(10) == 0 {
				n = 510 + rng.IntN(40)
			}
			lda, ldb, ldc := k+rng.IntN(3), n+rng.IntN(3), n+rng.IntN(3)
			a, b := random(rng, rows*lda+1), random(rng, k*ldb+1)
			c, intact := guarded(rng, t, rows*ldc)
			before := append([]float32(nil), c...)
			alpha := float32(rng.NormFloat64())
			Gemm(rows, n, k, alpha, a, lda, b, ldb, c, ldc)
			intact()
			for i := range c {
				r, j := i/max(ldc, 1), i%max(ldc, 1)
				want, scale := float64(before[i]), math.Abs(float64(before[i]))
				if j < n {
					for l := range k {
						p := float64(alpha) * float64(a[r*lda+l]) * float64(b[l*ldb+j])
						want += p
						scale += math.Abs(p)
					}
				}
				if !close32(c[i], want, scale*4) {
					t.Fatalf("%dx%dx%d [%d,%d]: %v, want %v", rows, n, k, r, j, c[i], want)
				}
			}
		}
	})
}

// A row's value does not depend on the rows beside it: it is computed alike by
// tiles of six and of four rows, by the padded one, and whether b is packed.
func TestGemmOfARow(t *testing.T) {
	both(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(8, 8))
		const most, n = 80, 32
		for _, k := range []int{1, 16, 32, 33, 300} {
			a, b := random(rng, most*k), random(rng, k*n)
			want := make([]float32, most*n)
			for r := range most {
				Gemm(1, n, k, 1, a[r*k:], k, b, n, want[r*n:], n)
			}
			for rows := 1; rows <= most; rows++ {
				got := make([]float32, rows*n)
				Gemm(rows, n, k, 1, a, k, b, n, got, n)
				for i, v := range got {
					if v != want[i] {
						t.Fatalf("%d rows, depth %d, row %d: %v, alone %v", rows, k, i/n, v, want[i])
					}
				}
			}
		}
	})
}

// The products that start with a row or read their left side turned have the bits of Gemm, and
// write no more than it does.
func TestGemmBiasAndT(t *testing.T) {
	both(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(10, 10))
		for range 150 {
			rows, n, k := rng.IntN(40), rng.IntN(70), 1+rng.IntN(40)
			if rng.IntN(8) == 0 {
				k = 250 + rng.IntN(300)
			}
			if rng.IntN(10) == 0 {
				n = 510 + rng.IntN(40)
			}
			lda, ldb, ldc, alpha := k+rng.IntN(3), n+rng.IntN(3), n+rng.IntN(3), float32(rng.NormFloat64())
			a, b, row := random(rng, rows*lda+1), random(rng, k*ldb+1), random(rng, n)
			c, intact := guarded(rng, t, rows*ldc)
			want, added := append([]float32(nil), c...), append([]float32(nil), c...)
			for r := range rows {
				copy(want[r*ldc:], row)
			}
			Gemm(rows, n, k, alpha, a, lda, b, ldb, want, ldc)
			Gemm(rows, n, k, alpha, a, lda, b, ldb, added, ldc)
			same := func(what string, got, want []float32) {
				t.Helper()
				for i, v := range got {
					if v != want[i] {
						t.Fatalf("%s %dx%dx%d [%d,%d]: %v, want %v", what, rows, n, k, i/ldc, i%ldc, v, want[i])
					}
				}
			}
			turned, ldt := make([]float32, k*(rows+2)), rows+2
			for r := range rows {
				for i := range k {
					turned[i*ldt+r] = a[r*lda+i]
				}
			}
			GemmT(rows, n, k, alpha, turned, ldt, b, ldb, c, ldc, random(rng, WorkT(rows, k)))
			intact()
			same("turned", c, added)
			for i := range c {
				if i%max(ldc, 1) < n {
					c[i] = float32(math.NaN()) // what was there is not read
				}
			}
			GemmBias(rows, n, k, alpha, a, lda, b, ldb, row, c, ldc)
			intact()
			same("with a row", c, want)
		}
		c := []float32{1, 2, 3, 4, 5, 6}
		GemmBias(2, 2, 0, 1, nil, 0, nil, 2, []float32{7, 8}, c, 3)
		if want := []float32{7, 8, 3, 7, 8, 6}; !slices.Equal(c, want) {
			t.Errorf("of depth 0: %v, want %v", c, want)
		}
	})
}

func BenchmarkGemm(b *testing.B) {
	rng := rand.New(rand.NewPCG(5, 5))
	for _, n := range []int{88, 1024, 3238} {
		b.Run(map[int]string{88: "n=88", 1024: "n=1024", 3238: "n=3238"}[n], func(b *testing.B) {
			a, w, c := random(rng, 64*100), random(rng, 100*n), random(rng, 64*n)
			for b.Loop() {
				Gemm(64, n, 100, 1, a, 100, w, n, c, n)
			}
			b.ReportMetric(2*64*100*float64(n)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GF/s")
		})
	}
}
