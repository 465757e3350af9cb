package stats_test

import (
	"math"
	"slices"
	"testing"

	"golang.org/x/perf/benchmath"
	"pgregory.net/rapid"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/stats"
)

func close9(x, y float64) bool { return math.Abs(x-y) <= 1e-9*math.Max(math.Abs(x), math.Abs(y)) }

// swappedRatio is the ratio of the sides the other way round.
func swappedRatio(r gpuprof.Ratio) gpuprof.Ratio {
	return gpuprof.Ratio{Ratio: 1 / r.Ratio, CI95: [2]float64{1 / r.CI95[1], 1 / r.CI95[0]}}
}

func sameRatio(a, b gpuprof.Ratio) bool {
	return close9(a.Ratio, b.Ratio) && close9(a.CI95[0], b.CI95[0]) && close9(a.CI95[1], b.CI95[1])
}

func scaledBy(k float64, xs []float64) []float64 {
	out := make([]float64, len(xs))
	for i, x := range xs {
		out[i] = k * x
	}
	return out
}

func TestMeanIntervalProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		xs := rapid.SliceOfN(rapid.Float64Range(-1e3, 1e3), 2, 30).Draw(t, "x")
		mean, half := stats.MeanInterval(xs)
		// The library's interval under the assumption of a normal distribution.
		s := benchmath.AssumeNormal.Summary(benchmath.NewSample(slices.Clone(xs), &benchmath.DefaultThresholds), 0.95)
		near := func(x, y float64) bool { return math.Abs(x-y) <= 1e-6*(math.Abs(mean)+half)+1e-12 }
		if !near(mean, s.Center) || !near(mean-half, s.Lo) || !near(mean+half, s.Hi) {
			t.Fatalf("%v +- %v, benchmath has %v", mean, half, s)
		}
		// Moved and turned over, the interval moves and turns over with the data.
		k, by := rapid.Float64Range(-100, 100).Draw(t, "k"), rapid.Float64Range(-1e3, 1e3).Draw(t, "by")
		moved := scaledBy(k, xs)
		for i := range moved {
			moved[i] += by
		}
		slices.Reverse(moved)
		m, h := stats.MeanInterval(moved)
		if slack := 1e-9 * (math.Abs(by) + 1e5); math.Abs(m-(k*mean+by)) > slack || math.Abs(h-math.Abs(k)*half) > slack {
			t.Fatalf("%v +- %v of %v x + %v, was %v +- %v", m, h, k, by, mean, half)
		}
	})
	for _, xs := range [][]float64{nil, {3}} {
		if _, half := stats.MeanInterval(xs); !math.IsInf(half, 1) {
			t.Errorf("%v has a half-width of %v", xs, half)
		}
	}
}

func TestMeanRatioProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ratios := rapid.SliceOfN(rapid.Float64Range(1e-3, 1e3), 2, 30).Draw(t, "ratios")
		r, ok := stats.MeanRatio(ratios)
		if !ok || !(0 < r.CI95[0] && r.CI95[0] <= r.Ratio && r.Ratio <= r.CI95[1]) || r.Ratio < slices.Min(ratios)*(1-1e-9) || r.Ratio > slices.Max(ratios)*(1+1e-9) {
			t.Fatalf("out of order: %+v", r)
		}
		inverse := make([]float64, len(ratios))
		for i, x := range ratios {
			inverse[i] = 1 / x
		}
		if s, _ := stats.MeanRatio(inverse); !sameRatio(s, swappedRatio(r)) {
			t.Fatalf("swapped: %+v, was %+v", s, r)
		}
		k := rapid.Float64Range(1e-3, 1e3).Draw(t, "k")
		if s, _ := stats.MeanRatio(scaledBy(k, ratios)); !sameRatio(s, gpuprof.Ratio{Ratio: k * r.Ratio, CI95: [2]float64{k * r.CI95[0], k * r.CI95[1]}}) {
			t.Fatalf("scaled by %v: %+v, was %+v", k, s, r)
		}
		slices.Reverse(ratios)
		if s, _ := stats.MeanRatio(ratios); !sameRatio(s, r) {
			t.Fatalf("in another order: %+v, was %+v", s, r)
		}
	})
}

func TestMedianRatioProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pairs := rapid.IntRange(2, 5).Draw(t, "pairs")
		block := rapid.SliceOfN(rapid.Float64Range(1e-6, 1e3), 1, 4)
		a, b := make([][]float64, pairs), make([][]float64, pairs)
		for i := range a {
			a[i], b[i] = block.Draw(t, "a"), block.Draw(t, "b")
		}
		r, ok := stats.MedianRatio(a, b)
		if !ok || !(0 < r.CI95[0] && r.CI95[0] <= r.Ratio && r.Ratio <= r.CI95[1]) {
			t.Fatalf("out of order: %+v", r)
		}
		if want := stats.Median(slices.Concat(a...)) / stats.Median(slices.Concat(b...)); !close9(r.Ratio, want) {
			t.Fatalf("ratio %v, want %v", r.Ratio, want)
		}
		if s, _ := stats.MedianRatio(b, a); !sameRatio(s, swappedRatio(r)) {
			t.Fatalf("swapped: %+v, was %+v", s, r)
		}
		k := rapid.Float64Range(1e-3, 1e3).Draw(t, "k")
		scaled := make([][]float64, pairs)
		for i := range a {
			scaled[i] = scaledBy(k, a[i])
			slices.Reverse(scaled[i])
		}
		if s, _ := stats.MedianRatio(scaled, b); !sameRatio(s, gpuprof.Ratio{Ratio: k * r.Ratio, CI95: [2]float64{k * r.CI95[0], k * r.CI95[1]}}) {
			t.Fatalf("scaled by %v, in another order: %+v, was %+v", k, s, r)
		}
		// Every pair the same: nothing is uncertain.
		for i := range a {
			a[i], b[i] = a[0], b[0]
		}
		if s, _ := stats.MedianRatio(a, b); !close9(s.CI95[0], s.Ratio) || !close9(s.CI95[1], s.Ratio) {
			t.Fatalf("of equal pairs: %+v", s)
		}
	})
}

func TestHalfWidthProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		median, below, above := rapid.Float64Range(1e-6, 1e3).Draw(t, "median"), rapid.Float64Range(0, 2).Draw(t, "below"), rapid.Float64Range(0, 2).Draw(t, "above")
		s := func(k float64) *gpuprof.Series {
			lo, hi := k*median*(1-below), k*median*(1+above)
			return &gpuprof.Series{Median: k * median, CI95: [2]float64{min(lo, hi), max(lo, hi)}}
		}
		want := (below + above) / 2
		k := rapid.Float64Range(1e-3, 1e3).Draw(t, "k")
		for _, k := range []float64{1, k, -k} { // in any unit, of either sign
			if got := stats.HalfWidth(s(k)); math.Abs(got-want) > 1e-9*(1+want) {
				t.Fatalf("%v of %+v, want %v", got, s(k), want)
			}
		}
	})
	for _, s := range []*gpuprof.Series{nil, {}, {CI95: [2]float64{1, 2}}} {
		if h := stats.HalfWidth(s); !math.IsInf(h, 1) {
			t.Errorf("%+v has a half-width of %v", s, h)
		}
	}
}
