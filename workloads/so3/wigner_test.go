package so3

import (
	"math"
	"math/big"
	"slices"
	"sync"
	"testing"
)

func mustWigner(t testing.TB, l1, l2, l3 int) []float64 {
	t.Helper()
	c, err := Wigner3j(l1, l2, l3)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// eachTriple calls f for every triple of degrees up to lmax in the triangle.
func eachTriple(lmax int, f func(l1, l2, l3 int)) {
	for l1 := 0; l1 <= lmax; l1++ {
		for l2 := 0; l2 <= lmax; l2++ {
			for l3 := max(l1-l2, l2-l1); l3 <= min(lmax, l1+l2); l3++ {
				f(l1, l2, l3)
			}
		}
	}
}

func TestWigner3jKnownValues(t *testing.T) {
	for _, tc := range []struct {
		l, at [3]int
		want  float64
	}{
		{[3]int{1, 1, 1}, [3]int{0, 1, 2}, 0.40824829},
		{[3]int{1, 1, 1}, [3]int{0, 2, 1}, -0.40824829},
		{[3]int{1, 1, 2}, [3]int{1, 1, 2}, 0.365148372},
		{[3]int{1, 1, 2}, [3]int{0, 0, 2}, -0.182574186},
		{[3]int{1, 1, 2}, [3]int{0, 0, 4}, -0.316227766},
		{[3]int{1, 1, 2}, [3]int{2, 2, 4}, 0.316227766},
		{[3]int{2, 2, 2}, [3]int{0, 0, 2}, -0.239045722},
	} {
		c := mustWigner(t, tc.l[0], tc.l[1], tc.l[2])
		got := c[(tc.at[0]*(2*tc.l[1]+1)+tc.at[1])*(2*tc.l[2]+1)+tc.at[2]]
		if math.Abs(got-tc.want) > 5e-9 { // the known values carry nine digits
			t.Errorf("w3j%v%v = %.9f, want %.9f", tc.l, tc.at, got, tc.want)
		}
	}
}

func TestWigner3jLeviCivitaAndDelta(t *testing.T) {
	c := mustWigner(t, 1, 1, 1)
	for i := range 3 {
		for j := range 3 {
			for k := range 3 {
				eps := float64((i-j)*(j-k)*(k-i)) / 2
				if got := c[(i*3+j)*3+k]; math.Abs(got-eps/math.Sqrt(6)) > 1e-15 {
					t.Errorf("w3j(1,1,1)[%d,%d,%d] = %v, want %v/sqrt(6)", i, j, k, got, eps)
				}
			}
		}
	}
	for l := 0; l <= MaxL; l++ {
		d := 2*l + 1
		for at, got := range mustWigner(t, l, l, 0) {
			want := 0.0
			if at/d == at%d {
				want = 1 / math.Sqrt(float64(d))
			}
			if math.Abs(got-want) > 1e-15 {
				t.Errorf("w3j(%d,%d,0)[%d] = %v, want %v", l, l, at, got, want)
			}
		}
	}
}

func TestWigner3jNonZeros(t *testing.T) {
	for _, tc := range []struct{ l1, l2, l3, want int }{
		{4, 4, 4, 97}, {3, 3, 3, 42}, {2, 2, 2, 25}, {1, 1, 2, 11}, {1, 1, 1, 6},
	} {
		cg, err := SparseCG(tc.l1, tc.l2, tc.l3)
		if err != nil || len(cg.Entries) != tc.want {
			t.Errorf("(%d,%d,%d): %d non-zeros, %v; want %d", tc.l1, tc.l2, tc.l3, len(cg.Entries), err, tc.want)
		}
	}
	triples, total := 0, 0
	eachTriple(4, func(l1, l2, l3 int) {
		cg, err := SparseCG(l1, l2, l3)
		if err != nil {
			t.Fatal(err)
		}
		triples++
		total += len(cg.Entries)
	})
	if triples != 65 || total != 2052 {
		t.Errorf("l <= 4: %d triples with %d non-zeros, want 65 and 2052", triples, total)
	}
}

func TestSparseCGMatchesDense(t *testing.T) {
	eachTriple(4, func(l1, l2, l3 int) {
		dense := mustWigner(t, l1, l2, l3)
		cg, err := SparseCG(l1, l2, l3)
		if err != nil {
			t.Fatal(err)
		}
		rebuilt := make([]float64, len(dense))
		last := -1
		for _, e := range cg.Entries {
			at := (e.I*(2*l2+1)+e.J)*(2*l3+1) + e.K
			if at <= last || math.Abs(e.C) < 1e-3 {
				t.Errorf("(%d,%d,%d): entry %+v out of order or not a true non-zero", l1, l2, l3, e)
			}
			rebuilt[at], last = e.C, at
		}
		if !slices.Equal(rebuilt, dense) {
			t.Errorf("(%d,%d,%d): sparse and dense differ", l1, l2, l3)
		}
	})
}

// TestWigner3jOrthogonality: sum_ij C_ijk C_ijk' = delta/(2 l3+1).
func TestWigner3jOrthogonality(t *testing.T) {
	check := func(l1, l2, l3 int, tol float64) {
		c, d3 := mustWigner(t, l1, l2, l3), 2*l3+1
		for k := range d3 {
			for k2 := range d3 {
				sum := 0.0
				for at := 0; at < len(c); at += d3 {
					sum += c[at+k] * c[at+k2]
				}
				if k == k2 {
					sum -= 1 / float64(d3)
				}
				if math.Abs(sum) > tol {
					t.Errorf("(%d,%d,%d) [%d,%d]: off by %.2g", l1, l2, l3, k, k2, sum)
				}
			}
		}
	}
	eachTriple(4, func(l1, l2, l3 int) { check(l1, l2, l3, 1e-14) })
	for _, l := range [][3]int{{8, 8, 8}, {8, 8, 7}, {7, 8, 1}, {8, 5, 6}, {6, 7, 8}, {8, 4, 4}} {
		check(l[0], l[1], l[2], 1e-14)
	}
}

// TestWigner3jPermutations: a cyclic shift of the degrees leaves the symbol, a
// swap multiplies it by (-1)^(l1+l2+l3).
func TestWigner3jPermutations(t *testing.T) {
	check := func(l1, l2, l3 int) {
		c := mustWigner(t, l1, l2, l3)
		shifted, swapped := mustWigner(t, l2, l3, l1), mustWigner(t, l2, l1, l3)
		sign := 1.0
		if (l1+l2+l3)%2 == 1 {
			sign = -1
		}
		d1, d2, d3 := 2*l1+1, 2*l2+1, 2*l3+1
		for i := range d1 {
			for j := range d2 {
				for k := range d3 {
					v := c[(i*d2+j)*d3+k]
					if math.Abs(v-shifted[(j*d3+k)*d1+i]) > 1e-15 || math.Abs(v-sign*swapped[(j*d1+i)*d3+k]) > 1e-15 {
						t.Fatalf("(%d,%d,%d)[%d,%d,%d] = %v breaks a symmetry", l1, l2, l3, i, j, k, v)
					}
				}
			}
		}
	}
	eachTriple(4, check)
	check(8, 6, 5)
	check(5, 8, 8)
}

// TestClebschGordanKnownValues compares with the closed forms in tables.
func TestClebschGordanKnownValues(t *testing.T) {
	for _, tc := range []struct {
		l1, m1, l2, m2, l3 int
		num, den           int64 // sign(num) * sqrt(|num|/den)
	}{
		{1, 1, 1, -1, 0, 1, 3}, {1, 0, 1, 0, 0, -1, 3}, {1, 1, 1, 0, 1, 1, 2}, {1, 0, 1, 1, 1, -1, 2},
		{1, 0, 1, 0, 2, 2, 3}, {1, 1, 1, -1, 2, 1, 6}, {2, 0, 2, 0, 2, -2, 7}, {2, 2, 1, -1, 1, 3, 5},
		{1, 0, 1, 0, 1, 0, 1}, {2, 1, 1, 1, 3, 2, 3}, {2, 2, 2, 2, 4, 1, 1},
	} {
		var f factorials
		got := clebschGordan(&f, tc.l1, tc.m1, tc.l2, tc.m2, tc.l3)
		abs, _ := new(big.Rat).SetFrac64(max(tc.num, -tc.num), tc.den).Float64()
		want := math.Copysign(math.Sqrt(abs), float64(tc.num))
		if math.Abs(got-want) > 1e-16 {
			t.Errorf("<%d %d %d %d|%d> = %v, want %v", tc.l1, tc.m1, tc.l2, tc.m2, tc.l3, got, want)
		}
	}
}

func TestWigner3jErrors(t *testing.T) {
	for _, l := range [][3]int{{1, 1, 3}, {0, 1, 0}, {9, 9, 0}, {8, 8, 9}, {-1, 1, 1}, {2, 5, 2}} {
		if c, err := Wigner3j(l[0], l[1], l[2]); err == nil {
			t.Errorf("Wigner3j%v returned %d values, want an error", l, len(c))
		}
		if _, err := SparseCG(l[0], l[1], l[2]); err == nil {
			t.Errorf("SparseCG%v: want an error", l)
		}
	}
}

func TestWigner3jCacheIsSafe(t *testing.T) {
	want := mustWigner(t, 3, 2, 5)
	spoiled := mustWigner(t, 3, 2, 5)
	clear(spoiled)
	if got := mustWigner(t, 3, 2, 5); !slices.Equal(got, want) {
		t.Error("a caller's change reached the cache")
	}
	var wg sync.WaitGroup
	results := make([]*CG, 8)
	for i := range results {
		wg.Go(func() {
			cg, err := SparseCG(6, 3, 4)
			if err != nil {
				t.Error(err)
			}
			results[i] = cg
		})
	}
	wg.Wait()
	for _, cg := range results {
		if cg != results[0] {
			t.Error("goroutines got different copies of one symbol")
		}
	}
}

func BenchmarkWigner3jUncached(b *testing.B) {
	for b.Loop() {
		realWigner(8, 8, 8)
	}
}
