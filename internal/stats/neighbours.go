package stats

import (
	"math"
	"slices"
)

const (
	// mostAlike bounds the correlation, and leastEffective what is left of the runs.
	mostAlike      = 0.95
	leastEffective = 1.2
)

// Alike is how runs depend on those before them.
type Alike struct {
	// Rho is the correlation of neighbours, the mean over lists, and P the p-value of "none".
	Rho, P float64
	// Found: a test of all metrics of a comparison found it.
	Found bool
	each  []float64 // the correlation in each list
}

// Neighbours tests whether values that follow one another within the lists are alike: the rank
// version of von Neumann's ratio, which outliers do not carry away (Bartels, JASA 77, 1982),
// with r the ranks within a list of n values,
//
//	RVN = sum (r_i - r_(i+1))^2 / sum (r_i - mean r)^2,  rho = 1 - RVN/2
//
// Lists of fewer than four values, or of equal ones, tell nothing.
func Neighbours(lists ...[]float64) Alike {
	var sum, variance, weight float64
	each := make([]float64, len(lists))
	for i, x := range lists {
		n := float64(len(x))
		if ratio, ok := rankRatio(x); ok && n >= 4 {
			each[i] = 1 - ratio/2
			sum, weight = sum+n*each[i], weight+n
			variance += n * (n - 2) * (5*n*n - 2*n - 9) / (5 * (n + 1) * (n - 1) * (n - 1)) // of n rho
		}
	}
	if weight == 0 {
		return Alike{P: 1}
	}
	return Alike{Rho: sum / weight, P: survival(math.Inf(1), sum/math.Sqrt(variance)), each: each}
}

// widening is the factor by which a correlation raises the variance of a mean of values: that of
// an autoregression over that of independent values.
func widening(rho float64) float64 {
	rho = max(0, min(mostAlike, rho))
	return (1 + rho) / (1 - rho)
}

// widens is the widening of list i where no correlation was found: chance makes some of the
// correlation that is seen, and a test of few values misses some that there is.
func (a Alike) widens(i int) float64 {
	if a.Found || i >= len(a.each) {
		return 1
	}
	return widening(a.each[i])
}

// effective is how many independent values tell as much of their mean as the n of list i, where
// the correlation was found. It is raised by n/(n-4), since the mean of a short list follows
// its values.
func (a Alike) effective(i, n int) float64 {
	if !a.Found || i >= len(a.each) {
		return float64(n)
	}
	rho := a.each[i] * float64(n) / float64(max(n-4, 1))
	return max(min(float64(n), leastEffective), float64(n)/widening(rho))
}

// rankRatio is von Neumann's ratio of the ranks of a list; ok is false where all are equal.
func rankRatio(x []float64) (ratio float64, ok bool) {
	sorted := slices.Sorted(slices.Values(x))
	rank := func(v float64) float64 { // the middle of those that are equal
		below, _ := slices.BinarySearch(sorted, v)
		upTo, _ := slices.BinarySearchFunc(sorted, v, func(s, v float64) int {
			if s <= v {
				return -1
			}
			return 1
		})
		return float64(below+upTo-1) / 2
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
