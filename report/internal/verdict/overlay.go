package verdict

import (
	"math"
	"slices"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/compare"
	"github.com/gpuprof/gpuprof/internal/stats"
	"github.com/gpuprof/gpuprof/report/internal/view"
)

// Overlay has the samples of both sides of a metric, in the metric's unit.
type Overlay struct {
	Row      Row
	Lo, Hi   float64 // 1st to 95th percentile of both sides, extended to every process's median
	Old, New OverlaySide
}

// OverlaySide has one side's samples, counted in bins between Lo and Hi, and the median and sample count of each
// process.
type OverlaySide struct {
	Bins    []int
	Medians []float64
	Counts  []int
}

const overlayBins = 72

// Overlays returns an overlay for each metric with stored samples, except exact counters.
func Overlays(c *compare.Comparison) []Overlay {
	var out []Overlay
	for i := range c.Metrics {
		m := &c.Metrics[i]
		if m.Exact || m.Samples == nil {
			continue
		}
		old, now := finiteSamples(m.Samples.Old), finiteSamples(m.Samples.New)
		lo, hi, ok := overlayRange(old, now)
		if !ok {
			continue
		}
		out = append(out, Overlay{RowOf(m), lo, hi, sideOf(old, lo, hi), sideOf(now, lo, hi)})
	}
	return out
}

func finiteSamples(s compare.Samples) [][]float64 { return view.Samples(&gpuprof.Series{Runs: s}) }

func sideOf(runs [][]float64, lo, hi float64) OverlaySide {
	s := OverlaySide{Bins: view.Histogram(slices.Concat(runs...), lo, hi, overlayBins, false), Medians: stats.Medians(runs...)}
	for _, run := range runs {
		s.Counts = append(s.Counts, len(run))
	}
	return s
}

func overlayRange(old, now [][]float64) (lo, hi float64, ok bool) {
	lo, hi = math.Inf(1), math.Inf(-1)
	for _, side := range [][][]float64{old, now} {
		if from, to, ok := stats.Between(0.01, 0.95, side...); ok {
			lo, hi = min(lo, from), max(hi, to)
		}
	}
	if lo > hi {
		return 0, 0, false
	}
	for _, m := range stats.Medians(slices.Concat(old, now)...) { // always show the medians, on which the verdict is based
		lo, hi = min(lo, m), max(hi, m)
	}
	pad := max((hi-lo)*0.06, math.Abs(hi)*0.005, 1e-300)
	return lo - pad, hi + pad, true
}
