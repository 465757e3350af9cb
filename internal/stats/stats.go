// Package stats summarises samples: medians, intervals and tests, each from a published method or a well-kept
// library. It does not decide about regressions.
package stats

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"

	"github.com/gpuprof/gpuprof"
)

// Summarise returns the Series of raw samples, one list per process.
//
// With one process the centre is the sample median. The interval covers the process's own long-run median, by
// blocks of neighbouring samples (see withinInterval), so the order of the samples matters; it does not cover
// variation between processes. With several processes the process is the replicate: the centre is the median of the
// process medians, and the interval is Student's t over their logarithms, widened to contain the centre.
//
// With fewer samples than an interval needs (6), CI95 is the observed range. It is NoInterval if a single process's
// samples are too correlated (tooAlike).
func Summarise(unit string, runs ...[]float64) *gpuprof.Series {
	s := &gpuprof.Series{Unit: unit, Runs: runs}
	x := slices.Concat(runs...)
	if len(x) == 0 {
		return nil
	}
	sorted := slices.Clone(x)
	slices.Sort(sorted)
	s.P05 = stat.Quantile(0.05, stat.Empirical, sorted, nil)
	s.P95 = stat.Quantile(0.95, stat.Empirical, sorted, nil)
	var medians []float64
	for _, r := range runs {
		switch len(r) {
		case 0:
		case len(x): // the only process with samples
			s.Median = middleOf(sorted)
			if tooAlike(x, sorted) {
				s.CI95 = gpuprof.NoInterval()
				return s
			}
			s.CI95[0], s.CI95[1] = withinInterval(x, sorted, s.Median)
			return s
		default:
			medians = append(medians, Median(r))
		}
	}
	s.Median = Median(medians)
	lo, hi := processInterval(medians)
	s.CI95 = gpuprof.Interval{math.Min(lo, s.Median), math.Max(hi, s.Median)}
	return s
}

// processInterval returns Student's t interval over the logarithms of process medians, so that a bound stays positive
// even with few processes. If a median is zero (a stage that is not exposed) it uses the values, cut at zero.
func processInterval(medians []float64) (lo, hi float64) {
	logs := make([]float64, len(medians))
	for i, m := range medians {
		if m <= 0 {
			mean, half := MeanInterval(medians)
			return math.Max(0, mean-half), mean + half
		}
		logs[i] = math.Log(m)
	}
	mean, half := MeanInterval(logs)
	return math.Exp(mean - half), math.Exp(mean + half)
}

// Median returns the middle value or the mean of the middle two, without changing xs; NaN without values.
func Median(xs []float64) float64 {
	return medianOf(slices.Clone(xs))
}

// MedianOfRuns returns the median of the medians of the runs that have samples; NaN without any.
func MedianOfRuns(runs [][]float64) float64 {
	var medians []float64
	for _, r := range runs {
		if len(r) > 0 {
			medians = append(medians, Median(r))
		}
	}
	return Median(medians)
}

// medianOf is Median, but sorts s.
func medianOf(s []float64) float64 {
	if len(s) == 0 {
		return math.NaN()
	}
	slices.Sort(s)
	return middleOf(s)
}

// middleOf returns the median of one or more sorted values.
func middleOf(sorted []float64) float64 {
	m := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[m]
	}
	return (sorted[m-1] + sorted[m]) / 2
}

// MeanInterval returns the mean of xs and the half-width of its 95 % interval by Student's t with len(xs)-1 degrees
// of freedom (Student, Biometrika 6, 1908); +Inf for fewer than two.
func MeanInterval(xs []float64) (mean, half float64) {
	mean, sd := stat.MeanStdDev(xs, nil)
	if len(xs) < 2 {
		return mean, math.Inf(1)
	}
	return mean, studentT(float64(len(xs)-1)) * sd / math.Sqrt(float64(len(xs)))
}

// studentT returns the two-sided 95 % point of Student's t.
func studentT(degrees float64) float64 {
	return TQuantile(degrees, 0.975)
}

// MeanRatio returns the geometric mean of ratios, the exponential of the mean of their logarithms, with the t
// interval of that mean; ok is false with fewer than two. An arithmetic mean would depend on which side is the
// denominator (Fleming and Wallace, Commun. ACM 29, 1986).
func MeanRatio(ratios []float64) (gpuprof.Ratio, bool) {
	return TrimmedMean(logSamples(ratios), 0).ratio()
}

const (
	// burstTrim is the share of block pairs that MedianRatio drops at each end: a burst of other work slows one block
	// of a pair.
	burstTrim = 0.2
	// mostGroups limits the groups of MedianRatio: joining neighbours keeps correlated samples together.
	mostGroups = 64
)

// MedianRatio returns the ratio of the median of all a to the median of all b, where a[k] and b[k] are the samples of
// two neighbouring blocks. The half-width of its 95 % interval, a logarithm, is taken from the trimmed mean over k of
// log(median of a[k] / median of b[k]). With more than 64 pairs neighbours are joined. ok is false with fewer than two
// pairs, or a sample that is not positive and finite.
func MedianRatio(a, b [][]float64) (r gpuprof.Ratio, ok bool) {
	n := min(len(a), len(b))
	groups := min(n, mostGroups)
	logs := make([]float64, groups)
	for g := range logs {
		from, to := g*n/groups, (g+1)*n/groups
		x, y := LogMedians([][]float64{slices.Concat(a[from:to]...)}), LogMedians([][]float64{slices.Concat(b[from:to]...)})
		if x == nil || y == nil {
			return gpuprof.Ratio{}, false
		}
		logs[g] = x[0] - y[0]
	}
	e := TrimmedMean(logs, burstTrim)
	e.Theta = math.Log(Median(slices.Concat(a...)) / Median(slices.Concat(b...)))
	return e.ratio()
}

// TrimmedMean returns the mean of x after dropping a share trim at each end. Its error comes from the winsorized
// values, with Student's t and one degree of freedom less than the remaining values (Tukey and McLaughlin, Sankhya A
// 25, 1963; Yuen, Biometrika 61, 1974). With trim 0 it is the ordinary mean. The effect is not OK with fewer than two
// values, or with one that is not finite.
func TrimmedMean(x []float64, trim float64) Effect {
	x = slices.Sorted(slices.Values(x))
	n := len(x)
	if n < 2 || math.IsNaN(x[0]) || math.IsInf(x[0], 0) || math.IsInf(x[n-1], 0) {
		return Effect{Theta: math.NaN()}
	}
	g := int(trim * float64(n))
	h := float64(n - 2*g)
	mean := stat.Mean(x[g:n-g], nil)
	for i := range g {
		x[i], x[n-1-i] = x[g], x[n-1-g]
	}
	return Effect{Theta: mean, SE: stat.StdDev(x, nil) * math.Sqrt(float64(n)) / h, Nu: h - 1}
}

// HalfWidth returns half of the width of a series' interval over the absolute median, a share; +Inf without an
// interval or a median, or if the median is zero.
func HalfWidth(s *gpuprof.Series) float64 {
	if s == nil || s.Median == 0 || !s.CI95.Known() {
		return math.Inf(1)
	}
	return (s.CI95[1] - s.CI95[0]) / 2 / math.Abs(s.Median)
}
