package page

import (
	"slices"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/stats"
	"github.com/gpuprof/gpuprof/report/internal/view"
)

// sparkBars are the heights of a sparkline; the first is an empty bin, so that
// one sample is seen beside none.
const sparkBars = "▁▂▃▄▅▆▇█"

// spark draws the distribution of a series' samples as a histogram of so many
// bins, from its 2nd to its 98th percentile; what lies beyond is in the end
// bins. None without samples that differ, and with too few to have a shape.
func spark(s *gpuprof.Series, bins int) string {
	const fewest = 5
	all := slices.Concat(view.Samples(s)...)
	if len(all) < fewest {
		return view.None
	}
	lo, hi, _ := stats.Between(0.02, 0.98, all)
	if !(hi > lo) || !view.Finite(hi-lo) {
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

// typical is the time of a stage whose distribution is shown: the device's,
// else the host's, else the exposed one; nil when it has none or never happens.
func typical(s view.Stage) *gpuprof.Series {
	for _, v := range []*gpuprof.Series{s.Device, s.Host, s.Exposed} {
		if v != nil && v.Median > 0 {
			return v
		}
	}
	return nil
}

// rangeOf is from the 5th to the 95th percentile of a series of seconds, or None.
func rangeOf(s *gpuprof.Series) string {
	if view.Usable(s) == nil || s.P95 <= 0 {
		return view.None
	}
	return view.Interval([2]float64{s.P05, s.P95}, view.Seconds)
}
