package stats_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/gpuprof/gpuprof/internal/stats"
)

// series makes samples of one process whose logarithms have median 0.
type series func(rng *rand.Rand, n int) []float64

// autoregressive: each sample is like the one before (AR(1)), and a part of the
// scatter is each sample's own.
func autoregressive(phi, own float64) series {
	return func(rng *rand.Rand, n int) []float64 {
		x, z := make([]float64, n), rng.NormFloat64()
		for i := range x {
			z = phi*z + math.Sqrt(1-phi*phi)*rng.NormFloat64()
			x[i] = math.Exp(0.015*z + 0.015*own*rng.NormFloat64())
		}
		return x
	}
}

// shifted: every row of length samples, begun anywhere, has a level of its own,
// twice as uncertain as a sample.
func shifted(length int) series {
	return func(rng *rand.Rand, n int) []float64 {
		x, at, level := make([]float64, n), rng.IntN(length), rng.NormFloat64()
		for i := range x {
			if (i+at)%length == 0 {
				level = rng.NormFloat64()
			}
			x[i] = math.Exp(0.03*level + 0.015*rng.NormFloat64())
		}
		return x
	}
}

// What independent samples pay for the blocks: less than twice the width of the
// binomial interval where there are enough samples to tell, three times with few.
func TestWithinIsNotTooWide(t *testing.T) {
	for n, most := range map[int]float64{10: 3, 20: 3, 100: 2, 1000: 2} {
		rng := rand.New(rand.NewPCG(12, uint64(n)))
		var halves []float64
		for range 200 {
			halves = append(halves, stats.HalfWidth(stats.Summarise("s", autoregressive(0, 0)(rng, n))))
		}
		// The median's standard error of a normal distribution.
		if got := stats.Median(halves) / (1.96 * 1.2533 * 0.015 / math.Sqrt(float64(n))); got > most || got < 0.9 {
			t.Errorf("%d samples: %.2f times the width of independent samples", n, got)
		}
	}
}

// The interval is of the samples in their order: the same samples, sorted, were
// a drift, of which no interval can be told.
func TestWithinSeesDrift(t *testing.T) {
	x := autoregressive(0, 0)(rand.New(rand.NewPCG(13, 1)), 300)
	mixed := stats.HalfWidth(stats.Summarise("s", x))
	slices.Sort(x)
	if sorted := stats.Summarise("s", x); sorted.CI95.Known() || mixed > 1 {
		t.Errorf("interval %v of a drift, half-width %.4f of the same samples mixed", sorted.CI95, mixed)
	}
}

// Figures that no clock gives have an interval that a file can hold.
func TestWithinIsFinite(t *testing.T) {
	s := stats.Summarise("s", []float64{1, 2.4e-212, 1, 2.4e-212, 5, 1})
	if math.IsInf(s.CI95[1], 0) || math.IsNaN(s.CI95[0]) {
		t.Errorf("interval %v", s.CI95)
	}
	if s = stats.Summarise("s", []float64{1e300, 1, 1e-300, 1, 1e300, 1e-300, 1e300, 1}); math.IsInf(s.CI95[1], 0) {
		t.Errorf("interval %v", s.CI95)
	}
}

func TestWithinProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		// Nothing at all, or at least a picosecond: the interval of times that are 200
		// orders of magnitude apart ends beyond the numbers there are.
		time := rapid.OneOf(rapid.Just(0.0), rapid.Float64Range(1e-12, 1e3))
		x := rapid.SliceOfN(time, 1, 200).Draw(t, "x")
		k := rapid.Float64Range(1e-6, 1e6).Draw(t, "k")
		s := stats.Summarise("s", x)
		if z := stats.Summarise("s", scaledBy(k, x)); !s.CI95.Known() {
			if z.CI95.Known() {
				t.Fatalf("scaled by %v: %v, was none", k, z.CI95)
			}
			return
		}
		if !(0 <= s.CI95[0] && s.CI95[0] <= s.Median && s.Median <= s.CI95[1]) || s.Median != stats.Median(x) {
			t.Fatalf("out of order: %v in %v", s.Median, s.CI95)
		}
		if z := stats.Summarise("s", scaledBy(k, x)); !close9(z.CI95[0], k*s.CI95[0]) || !close9(z.CI95[1], k*s.CI95[1]) {
			t.Fatalf("scaled by %v: %v, was %v", k, z.CI95, s.CI95)
		}
		if c := stats.Summarise("s", scaledBy(0, x)); c.CI95 != [2]float64{} {
			t.Fatalf("of nothing but zeros: %v", c.CI95)
		}
	})
}
