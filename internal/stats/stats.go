// Package stats summarises samples. It decides nothing about regressions; it
// gives medians, intervals and the checks that a figure rests on, each from a
// published method or a well-kept library.
package stats

import (
	"math"
	"slices"

	"golang.org/x/perf/benchmath"
	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/gpuprof/gpuprof"
)

// Summarise makes a Series of raw samples, one list a process.
//
// With one process the centre is the sample median and the interval comes
// from order statistics (the binomial interval of golang.org/x/perf/benchmath);
// it knows nothing of what changes between processes. With several, the
// process is the replicate: the centre is the median of the process medians
// and the interval is Student's t over them, widened to hold the centre.
//
// With fewer samples than an interval needs (6), CI95 is the range seen.
func Summarise(unit string, runs ...[]float64) *gpuprof.Series {
	s := &gpuprof.Series{Unit: unit, Runs: runs}
	var all, medians []float64
	for _, r := range runs {
		if len(r) > 0 {
			all = append(all, r...)
			medians = append(medians, Median(r))
		}
	}
	if len(all) == 0 {
		return nil
	}
	slices.Sort(all)
	s.P05 = stat.Quantile(0.05, stat.Empirical, all, nil)
	s.P95 = stat.Quantile(0.95, stat.Empirical, all, nil)
	if len(medians) == 1 {
		sum := benchmath.AssumeNothing.Summary(benchmath.NewSample(all, &benchmath.DefaultThresholds), 0.95)
		s.Median = sum.Center
		s.CI95 = [2]float64{math.Max(sum.Lo, all[0]), math.Min(sum.Hi, all[len(all)-1])}
		return s
	}
	s.Median = Median(medians)
	mean, half := MeanInterval(medians)
	s.CI95 = [2]float64{math.Min(mean-half, s.Median), math.Max(mean+half, s.Median)}
	return s
}

// Median is the middle value, the mean of the middle two when there is none;
// NaN of nothing. xs is not changed.
func Median(xs []float64) float64 {
	if len(xs) == 0 {
		return math.NaN()
	}
	s := slices.Clone(xs)
	slices.Sort(s)
	m := len(s) / 2
	if len(s)%2 == 1 {
		return s[m]
	}
	return (s[m-1] + s[m]) / 2
}

// MeanInterval is the mean of xs and the half-width of its 95 % interval by
// Student's t with len(xs)-1 degrees of freedom; +Inf for fewer than two.
func MeanInterval(xs []float64) (mean, half float64) {
	mean, sd := stat.MeanStdDev(xs, nil)
	if len(xs) < 2 {
		return mean, math.Inf(1)
	}
	t := distuv.StudentsT{Sigma: 1, Nu: float64(len(xs) - 1)}.Quantile(0.975)
	return mean, t * sd / math.Sqrt(float64(len(xs)))
}

// PairedRatio is the ratio a/b over blocks measured side by side: the
// exponential of the mean of log(a_k/b_k), with its t interval. Pairs that
// are not both positive are left out; ok is false with fewer than two left.
func PairedRatio(a, b []float64) (r gpuprof.Ratio, ok bool) {
	var logs []float64
	for k := range min(len(a), len(b)) {
		if a[k] > 0 && b[k] > 0 {
			logs = append(logs, math.Log(a[k]/b[k]))
		}
	}
	if len(logs) < 2 {
		return gpuprof.Ratio{}, false
	}
	m, h := MeanInterval(logs)
	return gpuprof.Ratio{Ratio: math.Exp(m), CI95: [2]float64{math.Exp(m - h), math.Exp(m + h)}}, true
}

// HalfWidth is the relative half-width of a series' interval.
func HalfWidth(s *gpuprof.Series) float64 {
	if s == nil || s.Median == 0 {
		return math.Inf(1)
	}
	return (s.CI95[1] - s.CI95[0]) / 2 / math.Abs(s.Median)
}

// Slope is the Theil-Sen estimate of dy/dx: the median of all pairwise slopes.
func Slope(x, y []float64) float64 {
	var s []float64
	for i := range x {
		for j := i + 1; j < len(x); j++ {
			if x[j] != x[i] {
				s = append(s, (y[j]-y[i])/(x[j]-x[i]))
			}
		}
	}
	return Median(s)
}
