package stats

import (
	"math"
	"slices"
)

const (
	// mostAlike is the largest correlation that is used; a larger one counts as mostAlike. The bias correction raises
	// an undetected correlation to mostMissed at most, because stronger correlations are seldom missed. leastEffective
	// is the least effective number of runs.
	mostAlike      = 0.95
	mostMissed     = 0.7
	leastEffective = 1.2
)

// Autocorrelation describes the correlation of runs with the runs before them.
type Autocorrelation struct {
	// Rho is the correlation of neighbours, averaged over the lists. P is the p-value of "no correlation".
	Rho, P float64
	// Found marks that the test over all metrics of a comparison detected the correlation; its caller sets it.
	Found bool
	each  []float64 // the correlation in each list
}

// Neighbours tests for correlation between successive values of the lists: the rank version of von Neumann's ratio,
// which is robust against outliers (Bartels, JASA 77, 1982). With r the ranks within a list of n values,
//
//	RVN = sum (r_i - r_(i+1))^2 / sum (r_i - mean r)^2,  rho = 1 - RVN/2
//
// Lists of fewer than four values, or of equal ones, do not count.
func Neighbours(lists ...[]float64) Autocorrelation {
	var sum, variance, weight float64
	each := make([]float64, len(lists))
	for i, x := range lists {
		n := float64(len(x))
		if ratio, ok := rankRatio(x, slices.Sorted(slices.Values(x))); ok && n >= 4 {
			each[i] = 1 - ratio/2
			sum, weight = sum+n*each[i], weight+n
			variance += n * (n - 2) * (5*n*n - 2*n - 9) / (5 * (n + 1) * (n - 1) * (n - 1)) // the variance of n rho
		}
	}
	if weight == 0 {
		return Autocorrelation{P: 1}
	}
	return Autocorrelation{Rho: sum / weight, P: tSurvival(math.Inf(1), sum/math.Sqrt(variance)), each: each}
}

// varianceFactor returns by how much correlation rho raises a mean's variance in a first-order autoregression.
func varianceFactor(rho float64) float64 {
	rho = max(0, min(mostAlike, rho))
	return (1 + rho) / (1 - rho)
}

// effectiveCount returns the effective number of independent values among the n values of list i. If no correlation was
// detected, count is n; factor then raises the variance, because a correlation may have been missed.
func (a Autocorrelation) effectiveCount(i, n int) (count, factor float64) {
	switch {
	case i >= len(a.each):
		return float64(n), 1
	case a.Found:
		return max(min(float64(n), leastEffective), float64(n)/varianceFactor(correctBias(a.each[i], n))), 1
	}
	return float64(n), varianceFactor(max(a.each[i], min(mostMissed, correctBias(a.each[i], n))))
}

// correctBias raises a correlation of neighbours in a list of n values by its bias, (1 + 3 rho)/n (Kendall, Biometrika
// 41, 1954). The estimate is too low in a short list, because the list's mean follows its values.
func correctBias(rho float64, n int) float64 { return rho + (1+3*rho)/float64(n) }

// rankRatio returns von Neumann's ratio of the ranks of a list x; sorted has its values sorted. ok is false if all
// values are equal.
func rankRatio(x, sorted []float64) (ratio float64, ok bool) {
	rank := func(v float64) float64 { // the mean rank of equal values
		below, _ := slices.BinarySearch(sorted, v)
		return float64(below+countUpTo(sorted, v)-1) / 2
	}
	var steps, squares, last float64
	mean := float64(len(x)-1) / 2
	for i, v := range x {
		r := rank(v)
		if i > 0 {
			steps += (r - last) * (r - last)
		}
		squares += (r - mean) * (r - mean)
		last = r
	}
	return steps / squares, squares > 0
}
