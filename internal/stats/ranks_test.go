package stats_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/gpuprof/gpuprof/internal/stats"
)

// The exact distributions, against tables (Conover, Practical Nonparametric
// Statistics, tables A7 and A12) and against counting every arrangement.
func TestRankDistributions(t *testing.T) {
	apart := func(n int, from float64) []float64 {
		out := make([]float64, n)
		for i := range out {
			out[i] = from + float64(i)/1000
		}
		return out
	}
	e, ok := stats.Ranks(apart(6, 0), apart(6, 1))
	if !ok || math.Abs(e.PNotAbove(0)-1.0/924) > 1e-12 || math.Abs(e.PNotAbove(2)-1) > 1e-12 || math.Abs(e.Theta-1) > 1e-9 {
		t.Errorf("six and six apart: %+v, p %g", e.Theta, e.PNotAbove(0))
	}
	e, ok = stats.SignedRanks(apart(6, 1))
	if !ok || math.Abs(e.PNotAbove(0)-1.0/64) > 1e-12 {
		t.Errorf("six pairs apart: p %g", e.PNotAbove(0))
	}
	rng := rand.New(rand.NewPCG(3, 4))
	for _, n := range []int{4, 5, 6} {
		a, b := make([]float64, n), make([]float64, n)
		for i := range n {
			a[i], b[i] = rng.NormFloat64(), rng.NormFloat64()+0.5
		}
		e, _ := stats.Ranks(a, b)
		as, all := 0, 0
		u := wins(a, b)
		both := append(append([]float64{}, a...), b...)
		for mask := range 1 << (2 * n) {
			var x, y []float64
			for i, v := range both {
				if mask>>i&1 == 1 {
					y = append(y, v)
				} else {
					x = append(x, v)
				}
			}
			if len(y) != n {
				continue
			}
			all++
			if wins(x, y) >= u {
				as++
			}
		}
		if want := float64(as) / float64(all); math.Abs(e.PNotAbove(0)-want) > 1e-12 {
			t.Errorf("%d a side: p %g, by counting %g", n, e.PNotAbove(0), want)
		}
	}
	// The approximation goes on where the exact distribution ends.
	var p [2]float64
	for i, n := range []int{60, 61} {
		e, _ := stats.Ranks(apart(n, 0), apart(n, 0.02))
		p[i] = e.PNotAbove(0.011)
	}
	// One value more on each side makes 10 % of it; the approximation is good to a few.
	if p[0] < 0.003 || p[0] > 0.005 || math.Abs(p[1]/p[0]-1) > 0.15 {
		t.Errorf("60 and 61 a side: p %g", p)
	}
}

func wins(a, b []float64) (n int) {
	for _, x := range a {
		for _, y := range b {
			if y > x {
				n++
			}
		}
	}
	return n
}

func TestRankProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.Float64Range(-1, 1)
		a, b := rapid.SliceOfN(value, 6, 20).Draw(t, "a"), rapid.SliceOfN(value, 6, 20).Draw(t, "b")
		for name, e := range map[string][2]stats.Effect{"ranks": {first(stats.Ranks(a, b)), first(stats.Ranks(b, a))}, "signed": {first(stats.SignedRanks(a)), first(stats.SignedRanks(negated(a)))}} {
			here, back := e[0], e[1]
			if n := here.Negate(); math.Abs(n.Theta-back.Theta) > 1e-12 || n.Upper(0.975) != back.Upper(0.975) || n.Lower(0.975) != back.Lower(0.975) || n.PNotAbove(0.1) != back.PNotAbove(0.1) {
				t.Fatalf("%s: swapped %+v, want %+v", name, back, n)
			}
			if here.Lower(0.975) > here.Theta || here.Upper(0.975) < here.Theta || here.SE < 0 {
				t.Fatalf("%s: %g to %g around %g", name, here.Lower(0.975), here.Upper(0.975), here.Theta)
			}
			// The test and the bound are the same statement.
			for _, alpha := range []float64{0.05, 0.025} {
				if lo := here.Lower(1 - alpha); !math.IsInf(lo, 0) && (here.PNotAbove(lo-1e-9) > alpha || here.PNotAbove(lo+1e-9) <= alpha) {
					t.Fatalf("%s: p %g below and %g above the bound of %g", name, here.PNotAbove(lo-1e-9), here.PNotAbove(lo+1e-9), alpha)
				}
			}
		}
	})
}

func first(e stats.Effect, _ bool) stats.Effect { return e }

func negated(xs []float64) []float64 {
	out := make([]float64, len(xs))
	for i, x := range xs {
		out[i] = -x
	}
	return out
}

// The rule follows from how processes scatter and from nothing else.
func TestNoise(t *testing.T) {
	source := rand.NewPCG(5, 6)
	rng := rand.New(source)
	const k = 24
	sides := func(process func(place int) float64) (a, b [][]float64) {
		for i := range 2 * k {
			v := math.Exp(process(i))
			run := []float64{v, v * 1.001, v * 0.999}
			if isB := i%4 == 1 || i%4 == 2; isB {
				b = append(b, run)
			} else {
				a = append(a, run)
			}
		}
		return a, b
	}
	slow := func(every int) func(int) float64 {
		return func(i int) float64 {
			if i%every == 0 {
				return math.Log(1.5)
			}
			return 0.01 * rng.NormFloat64()
		}
	}
	for name, c := range map[string]struct {
		process    func(int) float64
		aligned    bool
		rule       stats.Rule
		slow, most float64 // shares of slow processes, the most that is plausible of spread
	}{
		"normal":         {func(int) float64 { return 0.01 * rng.NormFloat64() }, false, stats.PairedMean, 0, 0.015},
		"wide":           {func(int) float64 { return 0.2 * rng.NormFloat64() }, false, stats.PairedMean, 0, 0.3},
		"still":          {func(i int) float64 { return 1e-4 * float64(i%7/6) }, false, stats.PairedMean, 0, 0.001},
		"slow processes": {slow(7), false, stats.ProcessRanks, 1.0 / 7, 0.02},
		"two modes":      {func(int) float64 { return math.Log(1.3)*float64(rng.IntN(2)) + 0.005*rng.NormFloat64() }, false, stats.ProcessRanks, 1 - math.Sqrt(0.5), 0.01},
		"drift":          {func(i int) float64 { return 0.005*float64(i) + 0.005*rng.NormFloat64() }, false, stats.PairedMean, 0, 0.01},
		"drift and slow": {func(i int) float64 { return 0.005*float64(i) + slow(11)(i)/2 }, false, stats.PairRanks, 1.0 / 11, 0.02},
	} {
		source.Seed(5, 6) // a map has no order
		a, b := sides(c.process)
		x, ok := stats.NewBlocks(a, b, nil, 0.02)
		if !ok {
			t.Fatal(name)
		}
		n := x.Noise(math.Log(1.02))
		if n.Rule != c.rule || math.Abs(n.Slow-c.slow) > 0.07 || n.Spread > c.most || n.Spread < c.most/4 && name != "still" {
			t.Errorf("%s: %+v", name, n)
		}
		moved, _ := stats.NewBlocks(a, scaled(b, 3), nil, 0.02)
		if m := moved.Noise(math.Log(1.02)); m.Rule != n.Rule || !near(m.Spread, n.Spread, 1e-9) || m.Slow != n.Slow {
			t.Errorf("%s: moved %+v, before %+v", name, m, n)
		}
	}
}

// Blocks is what simulation takes to find an effect nine times of ten.
func TestNoiseBlocks(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 9))
	const gates, effect, bound = 400, 0.06, 0.02
	for _, n := range []stats.Noise{{0.03, 0, stats.PairedMean}, {0.01, 0.15, stats.ProcessRanks}, {0.02, 0.3, stats.ProcessRanks}, {0.02, 0.1, stats.PairRanks}} {
		k := int(math.Ceil(n.Blocks(effect, bound, 0.05, 0.9)))
		found := 0
		for range gates {
			a, b, d := make([]float64, k), make([]float64, k), make([]float64, k)
			for i := range k {
				for s, side := range [][]float64{a, b} {
					if side[i] = n.Spread*rng.NormFloat64() + effect*float64(s); rng.Float64() < n.Slow {
						side[i] += math.Log(1.2 + 0.8*rng.Float64())
					}
				}
				d[i] = b[i] - a[i]
			}
			e, _ := stats.Ranks(a, b)
			switch n.Rule {
			case stats.PairRanks:
				e, _ = stats.SignedRanks(d)
			case stats.PairedMean:
				e, _, _ = stats.Unpaired([][]float64{a}, b, known(0), stats.Autocorrelation{}, far, 1)
			}
			if e.PNotAbove(bound) <= 0.05 {
				found++
			}
		}
		t.Logf("%+v: %d blocks, found %d of %d", n, k, found, gates)
		if share := float64(found) / gates; share < 0.85 || share > 0.99 {
			t.Errorf("%+v: %d blocks find %.2f", n, k, share)
		}
	}
	if n := (stats.Noise{Spread: 0.01}); !math.IsInf(n.Blocks(0.02, 0.02, 0.05, 0.9), 1) {
		t.Error("what cannot be found takes no number of blocks")
	}
}
