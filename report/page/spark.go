package page

import (
	"slices"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/stats"
	"github.com/gpuprof/gpuprof/report/internal/view"
)

// sparkBars has the bars of a sparkline. Only an empty bin gets the first bar, so that a single sample is visible.
const sparkBars = "▁▂▃▄▅▆▇█"

// drawSpark draws a histogram of a series from the 2nd to the 98th percentile; the end bins include samples beyond. It
// returns view.None for equal or too few samples.
func drawSpark(s *gpuprof.Series, bins int) string {
	const fewest = 5
	all := slices.Concat(view.Samples(s)...)
	if len(all) < fewest {
		return view.None
	}
	lo, hi, _ := stats.Between(0.02, 0.98, all)
	if !(hi > lo) || !gpuprof.IsFinite(hi-lo) {
		return view.None
	}
	counts := view.Histogram(all, lo, hi, bins, true)
	bars, most := []rune(sparkBars), slices.Max(counts)
	out := make([]rune, bins)
	for i, n := range counts {
		out[i] = bars[0]
		if n > 0 {
			out[i] = bars[1+(n*(len(bars)-2)+most/2)/most]
		}
	}
	return string(out)
}

// stageSeries returns the series for a stage's distribution: the device's time, else the host's, else exposed time, or
// nil.
func stageSeries(s view.Stage) *gpuprof.Series {
	for _, v := range []*gpuprof.Series{s.Device, s.Host, s.Exposed} {
		if v != nil && v.Median > 0 {
			return v
		}
	}
	return nil
}

// rangeOf formats the 5th to 95th percentile of a series of seconds, or None.
func rangeOf(s *gpuprof.Series) string {
	if !s.Usable() || s.P95 <= 0 {
		return view.None
	}
	return view.Interval([2]float64{s.P05, s.P95}, gpuprof.FormatSeconds)
}
