package stats

import (
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mathext"
)

// The moments, quantiles and distributions here, but for Student's t, are those of gonum's stat
// and distuv, from gonum's special functions. stat links linear algebra as well: 2.0 MB of the binary and
// 0.74 MB of a wheel that may have 15 MB. TestAgainstGonum compares them.

// Mean is the arithmetic mean; NaN of none.
func Mean(xs []float64) float64 {
	return floats.Sum(xs) / float64(len(xs))
}

// MeanVariance is the mean and the sample variance, by two passes with the correction of
// Chan, Golub and LeVeque (The American Statistician 37, 1983); NaN of too few.
func MeanVariance(xs []float64) (mean, variance float64) {
	mean = Mean(xs)
	var squares, rest float64
	for _, x := range xs {
		d := x - mean
		squares += d * d
		rest += d
	}
	n := float64(len(xs))
	return mean, (squares - rest*rest/n) / (n - 1)
}

// Variance is the sample variance; see MeanVariance.
func Variance(xs []float64) float64 {
	_, v := MeanVariance(xs)
	return v
}

// StdDev is the sample standard deviation; see MeanVariance.
func StdDev(xs []float64) float64 { return math.Sqrt(Variance(xs)) }

// quantile is the least of sorted values that at least a share p of them does not exceed.
func quantile(p float64, sorted []float64) float64 {
	return sorted[max(0, min(int(math.Ceil(p*float64(len(sorted))))-1, len(sorted)-1))]
}

// normalSurvival is the chance that a standard normal variable exceeds z.
func normalSurvival(z float64) float64 { return 0.5 * (1 - math.Erf(z/math.Sqrt2)) }

// fairCoins is the chance of at most k heads, 0 <= k < n, of n fair coins.
func fairCoins(n, k float64) float64 { return mathext.RegIncBeta(n-k, k+1, 0.5) }

// orderStatistic draws the m-th smallest of n uniform variables: it has the beta distribution
// with m and n-m+1.
func orderStatistic(rng *rand.Rand, m, n int) float64 {
	a, b := gamma(rng, float64(m)), gamma(rng, float64(n-m+1))
	return a / (a + b)
}

// gamma draws from the gamma distribution with a shape of at least 1 (Marsaglia and Tsang,
// ACM Transactions on Mathematical Software 26, 2000).
func gamma(rng *rand.Rand, shape float64) float64 {
	if shape == 1 {
		return rng.ExpFloat64()
	}
	d := shape - 1.0/3
	c := 1 / (3 * math.Sqrt(d))
	for {
		x := rng.NormFloat64()
		v := 1 + x*c
		if v <= 0 {
			continue
		}
		v = v * v * v
		u := rng.Float64()
		if u < 1-0.0331*(x*x)*(x*x) || math.Log(u) < 0.5*x*x+d*(1-v+math.Log(v)) {
			return d * v
		}
	}
}
