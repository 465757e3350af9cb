package stats

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"
)

// The functions of this file compute values that reports draw from samples. All other values of a report are in its
// document.

// Medians returns the median of each run's finite samples; NaN for a run without any.
func Medians(runs ...[]float64) []float64 {
	out := make([]float64, len(runs))
	for i, run := range runs {
		out[i] = medianOf(finite(run))
	}
	return out
}

// Between returns quantiles p and q of all finite samples, by the empirical distribution; ok is false without any.
func Between(p, q float64, runs ...[]float64) (lo, hi float64, ok bool) {
	all := finite(slices.Concat(runs...))
	if len(all) == 0 {
		return 0, 0, false
	}
	slices.Sort(all)
	return stat.Quantile(p, stat.Empirical, all, nil), stat.Quantile(q, stat.Empirical, all, nil), true
}

func finite(values []float64) []float64 {
	return slices.DeleteFunc(slices.Clone(values), func(v float64) bool { return math.IsNaN(v) || math.IsInf(v, 0) })
}
