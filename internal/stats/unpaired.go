package stats

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// Spread is a standard deviation with its degrees of freedom, +Inf if the standard deviation is known exactly.
type Spread struct{ Sigma, Nu float64 }

// Unpaired compares runs that were not measured together: a holds one list per session, b is one session, all of them
// log medians of runs in the order of measurement. between is the spread of effects on a whole session (clocks, heat,
// neighbours), which the runs of one session cannot show. alike is the result of Neighbours for the lists of a, then
// b; the zero value is for interleaved runs. Deviations up to slack are never outliers (Blocks.Noise).
//
// Without outliers the rule is PairedMean in its form for unpaired sides. With m sessions on side a, s_a^2 the
// pooled variance of their runs and n' the effective numbers of runs,
//
//	Theta = mean(b) - mean over sessions of mean(a_j)
//	SE^2  = between^2 (1 + 1/m) + s_a^2 sum(1/n'_j)/m^2 + var(b)/n'_b
//
// with the degrees of freedom of Welch (Biometrika 34, 1947) and Satterthwaite (Biometrics Bulletin 2, 1946). If
// between was estimated from sessions, it includes the errors of their runs, so the first term is the whole
// variance: the error of a prediction (Hahn and Meeker, Statistical Intervals, 1991, section 4.7). With outliers
// among independent runs the rule is ProcessRanks: Ranks of the runs, each session moved to the median of the
// session medians, with the same session term. Ranks are not used if the runs are too few for any order to reach
// the test's level.
//
// ok is false if no list of a has two runs, if b has fewer than two, or if a value is not finite.
func Unpaired(a [][]float64, b []float64, between Spread, alike Autocorrelation, slack, level float64) (e Effect, rule Rule, ok bool) {
	a = slices.DeleteFunc(slices.Clone(a), func(s []float64) bool { return len(s) == 0 })
	runs := 0
	for _, s := range a {
		runs += len(s) - 1
	}
	if runs < 1 || len(b) < 2 {
		return Effect{}, PairedMean, false
	}
	term := between.Sigma * math.Sqrt(1+1/float64(len(a)))
	estimated := !math.IsInf(between.Nu, 1)
	if (estimated || !alike.Found) && hasOutlyingRuns(append(slices.Clip(a), b), slack) {
		if e, ok = Ranks(alignSessions(a), b); !ok || e.ranks.below[0] <= level {
			return e.WithSharedShift(math.Sqrt(varianceFactor(alike.Rho)), Spread{term, between.Nu}), ProcessRanks, ok
		}
	}
	meanA, varianceA, nuA := sessionMeans(a, alike, 0)
	meanB, varianceB, nuB := sessionMeans([][]float64{b}, alike, len(a))
	if estimated { // includes the errors of the sessions' runs
		varianceA, varianceB = 0, 0
	}
	total := varianceA + varianceB + term*term
	e = Effect{Theta: meanB - meanA, SE: math.Sqrt(total), Nu: math.Inf(1)}
	if total > 0 { // normalized, so that the squares do not underflow
		shareA, shareB, shareS := varianceA/total, varianceB/total, term*term/total
		e.Nu = max(1, 1/(shareA*shareA/nuA+shareB*shareB/nuB+shareS*shareS/between.Nu))
	}
	return e, PairedMean, e.OK()
}

// sessionMeans returns the mean over sessions of their means, the variance of that mean from the pooled variance of
// the runs, and its degrees of freedom. Session i has the correlation of list first+i in alike. The sample variance of
// n correlated runs is too small, and is corrected: with n' effective runs, E s^2 = sigma^2 (1 - 1/n') n/(n-1).
func sessionMeans(sessions [][]float64, alike Autocorrelation, first int) (mean, variance, nu float64) {
	var squares, free, inverse float64
	m := float64(len(sessions))
	for i, s := range sessions {
		centre, v := stat.PopMeanVariance(s, nil)
		left, factor := alike.effectiveCount(first+i, len(s))
		n := float64(len(s))
		mean, inverse, free = mean+centre/m, inverse+1/left, free+n-1
		if nu += left - 1; n > 1 {
			squares += n * v * (1 - 1/n) / (1 - 1/left) * factor
		}
	}
	return mean, squares / free * inverse / (m * m), nu
}

// hasOutlyingRuns reports whether a run differs from its session's median by more than slack and by more than outlying
// robust standard deviations.
func hasOutlyingRuns(sessions [][]float64, slack float64) bool {
	var off []float64
	for _, s := range sessions {
		off = append(off, deviations(s)...)
	}
	n := float64(len(off)) // corrects small samples, whose median is close to the values
	return outlierShare(off, max(outlying*robustSD(off)*n/(n-2*float64(len(sessions))), slack)) > 0
}

// alignSessions returns the runs of all sessions, shifted so that all sessions have the same median.
func alignSessions(sessions [][]float64) (out []float64) {
	centres := make([]float64, len(sessions))
	for i, s := range sessions {
		centres[i] = Median(s)
	}
	middle := Median(centres)
	for i, s := range sessions {
		for _, v := range s {
			out = append(out, v-centres[i]+middle)
		}
	}
	return out
}

// MedianError returns the standard error of the median of independent samples, in the samples' unit, from the
// interval between two order statistics and its coverage:
//
//	(x_(n-c+1) - x_(c)) / (2 z),  c = (n+1)/2 - sqrt(n),  Phi(-z) = P(Bin(n, 1/2) < c)
//
// (McKean and Schrader, Commun. Statist. Simul. 13, 1984, with the coverage of Price and Bonett, J. Statist.
// Comput. Simul. 68, 2001, for few samples). It assumes no distribution. For correlated samples, as of one process,
// it is a lower bound of the error. NaN with fewer than two.
func MedianError(xs []float64) float64 {
	n := len(xs)
	if n < 2 {
		return math.NaN()
	}
	s := slices.Sorted(slices.Values(xs))
	c := max(1, int(math.Round(float64(n+1)/2-math.Sqrt(float64(n)))))
	z := -distuv.UnitNormal.Quantile(distuv.Binomial{N: float64(n), P: 0.5}.CDF(float64(c - 1)))
	return (s[n-c] - s[c-1]) / (2 * z)
}

// SessionSpread returns the standard deviation of sessions, given their log medians; NaN with fewer than two.
func SessionSpread(sessions []float64) Spread {
	if len(sessions) < 2 {
		return Spread{math.NaN(), 0}
	}
	return Spread{stat.StdDev(sessions, nil), float64(len(sessions) - 1)}
}

// LogMedians returns the logarithm of each run's median; nil if a run is empty or a value not positive and finite.
func LogMedians(runs [][]float64) []float64 {
	var out []float64
	for _, r := range runs {
		logs := logSamples(r)
		if len(logs) == 0 {
			return nil
		}
		out = append(out, medianOf(logs))
	}
	return out
}

// logSamples returns the logarithms of samples; nil if one is not positive and finite.
func logSamples(samples []float64) []float64 {
	logs := make([]float64, len(samples))
	for i, v := range samples {
		if !(v > 0) || math.IsInf(v, 1) {
			return nil
		}
		logs[i] = math.Log(v)
	}
	return logs
}
