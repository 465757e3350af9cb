package stats

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// Unpaired compares runs that were not measured side by side: a holds one list
// a session, b is one session, all of them logarithms of run medians. sigma is
// the standard deviation of what shifts a whole session (clocks, heat,
// neighbours), which the runs of one session cannot show. With m sessions of
// n_j runs on side a, s_a their pooled variance:
//
//	Theta = mean(b) - mean over sessions of mean(a_j)
//	SE^2  = sigma^2 (1 + 1/m) + s_a sum(1/n_j)/m^2 + var(b)/n_b
//
// so one session a side gives var(a)/n_a + var(b)/n_b + 2 sigma^2. Degrees of
// freedom after Welch (Biometrika 34, 1947) and Satterthwaite (Biometrics
// Bulletin 2, 1946), sigma taken as known. ok is false without two runs a side
// in one session, or with a value that is not finite.
func Unpaired(a [][]float64, b []float64, sigma float64) (e Effect, ok bool) {
	var centre, squares, nuA, inverse, m float64
	for _, s := range a {
		if len(s) == 0 {
			continue
		}
		mean, variance := stat.PopMeanVariance(s, nil)
		n := float64(len(s))
		squares += n * variance
		centre, nuA, inverse, m = centre+mean, nuA+n-1, inverse+1/n, m+1
	}
	if nuA < 1 || len(b) < 2 {
		return Effect{}, false
	}
	mb, vb := stat.MeanVariance(b, nil)
	va := squares / nuA * inverse / (m * m)
	vb /= float64(len(b))
	total := va + vb + sigma*sigma*(1+1/m)
	e = Effect{Theta: mb - centre/m, SE: math.Sqrt(total), Nu: math.Inf(1)}
	if total > 0 { // shares of the whole, whose squares do not underflow
		shareA, shareB := va/total, vb/total
		e.Nu = 1 / (shareA*shareA/nuA + shareB*shareB/float64(len(b)-1))
	}
	return e, e.OK()
}

// MedianError is the standard error of the median of independent samples, in
// their unit, from the interval between two order statistics and its coverage:
//
//	(x_(n-c+1) - x_(c)) / (2 z),  c = (n+1)/2 - sqrt(n),  Phi(-z) = P(Bin(n, 1/2) < c)
//
// (McKean and Schrader, Commun. Statist. Simul. 13, 1984, with the coverage of
// Price and Bonett, J. Statist. Comput. Simul. 68, 2001, so that few samples do
// too). It assumes no distribution. Samples of one process are not independent,
// so it is at least that large; NaN with fewer than two.
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

// SessionSpread is the sample standard deviation of sessions (logarithms of
// session medians) with its degrees of freedom; NaN with fewer than two
// sessions.
func SessionSpread(sessions []float64) (sigma, nu float64) {
	if len(sessions) < 2 {
		return math.NaN(), 0
	}
	return stat.StdDev(sessions, nil), float64(len(sessions) - 1)
}

// Predict compares one new session with a baseline of several: sessions and
// next are logarithms of session medians. The error is that of a prediction
// (Hahn and Meeker, Statistical Intervals, 1991, section 4.7): the next session
// of an unchanged program lies within
//
//	mean +- t(n-1) s sqrt(1 + 1/n)
//
// ok is false with fewer than two sessions or a value that is not finite.
func Predict(sessions []float64, next float64) (e Effect, ok bool) {
	n := float64(len(sessions))
	if n < 2 {
		return Effect{}, false
	}
	mean, sd := stat.MeanStdDev(sessions, nil)
	e = Effect{Theta: next - mean, SE: sd * math.Sqrt(1+1/n), Nu: n - 1}
	return e, e.OK()
}

// LogMedians is the logarithm of each run's median, the run being the
// replicate; nil when there is none or one is empty, not positive or not finite.
func LogMedians(runs [][]float64) []float64 {
	blocks := logBlocks(runs)
	if len(blocks) == 0 {
		return nil
	}
	out := make([]float64, len(blocks))
	for i := range blocks {
		out[i] = blocks[i].median
	}
	return out
}
