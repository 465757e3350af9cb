package stats_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/gpuprof/gpuprof/internal/stats"
)

func TestSummariseKnownAnswer(t *testing.T) {
	// Three blocks have medians 2, 4 and 7.5, so the upper end is
	// 5.5 exp(4.303 sd(log 2, log 4, log 7.5)/sqrt(3)) = 5.5 exp(1.642). The
	// shares below 5.5 of five blocks, 1/2, 1, 1, 0 and 0, scatter by 1/2: the
	// ranks reach to the least sample, below 5.5 exp(-1.642).
	s := stats.Summarise("s", []float64{2, 10, 1, 5, 3, 4, 8, 6, 9, 7})
	if s.Median != 5.5 || s.CI95[0] != 1 || math.Abs(s.CI95[1]-28.42) > 0.01 {
		t.Errorf("median %v ci %v, want 5.5 [1 28.42]", s.Median, s.CI95)
	}
	few := stats.Summarise("s", []float64{3, 1, 2})
	if few.Median != 2 || few.CI95 != [2]float64{1, 3} {
		t.Errorf("three samples: median %v ci %v, want the range", few.Median, few.CI95)
	}
	if stats.Summarise("s", nil) != nil || stats.Summarise("s") != nil {
		t.Error("no samples must give no series")
	}
}

func TestSummariseProcessesAreReplicates(t *testing.T) {
	// Two tight processes far apart: the interval must span the gap between
	// them, however many samples each has.
	a, b := make([]float64, 1000), make([]float64, 1000)
	for i := range a {
		a[i], b[i] = 1, 2
	}
	s := stats.Summarise("s", a, b)
	if s.Median != 1.5 || s.CI95[0] > 1 || s.CI95[1] < 2 || s.CI95[0] <= 0 {
		t.Errorf("median %v ci %v", s.Median, s.CI95)
	}
	if z := stats.Summarise("s", []float64{0}, []float64{0}, []float64{1}); z.Median != 0 || z.CI95[0] != 0 || z.CI95[1] < 1 {
		t.Errorf("with zeros: median %v ci %v", z.Median, z.CI95)
	}
}

// The within-process interval must cover the true median of independent
// samples about 95 % of the time.
func TestMedianCoverage(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	covered := 0
	for range 2000 {
		x := make([]float64, 40)
		for i := range x {
			x[i] = math.Exp(0.1 * rng.NormFloat64())
		}
		if s := stats.Summarise("s", x); s.CI95[0] <= 1 && 1 <= s.CI95[1] {
			covered++
		}
	}
	if covered < 1880 { // 94 %: the interval is conservative at 95 %
		t.Errorf("covered %d of 2000", covered)
	}
}

func TestRatiosOfTooLittle(t *testing.T) {
	if _, ok := stats.MedianRatio([][]float64{{1}}, [][]float64{{1}}); ok {
		t.Error("one pair has no interval")
	}
	if _, ok := stats.MedianRatio([][]float64{{1}, {0}, {0}}, [][]float64{{1}, {1}, {1}}); ok {
		t.Error("a median of zero has no logarithm")
	}
	if _, ok := stats.MeanRatio([]float64{1}); ok {
		t.Error("one ratio has no interval")
	}
	if r, ok := stats.MeanRatio([]float64{1, 4}); !ok || math.Abs(r.Ratio-2) > 1e-12 {
		t.Errorf("mean of 1 and 4: %v", r)
	}
}

func TestSummaryProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := rapid.SliceOfN(rapid.Float64Range(1e-6, 1e3), 1, 60).Draw(t, "x")
		k := rapid.Float64Range(0.001, 1000).Draw(t, "k")
		before := append([]float64(nil), x...)
		s := stats.Summarise("s", x)
		if s.CI95.Known() && !(s.CI95[0] <= s.Median && s.Median <= s.CI95[1]) || s.P05 > s.P95 {
			t.Fatalf("out of order: %+v", s)
		}
		y := make([]float64, len(x))
		for i := range x {
			if x[i] != before[i] {
				t.Fatal("samples were reordered")
			}
			y[i] = k * x[i]
		}
		if z := stats.Summarise("s", y); math.Abs(z.Median-k*s.Median) > 1e-9*k*s.Median {
			t.Fatalf("median does not scale: %v %v", z.Median, k*s.Median)
		}
	})
}
