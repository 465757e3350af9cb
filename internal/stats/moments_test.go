package stats

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// Moments, quantiles and distributions are gonum's to the last digit.
func TestAgainstGonum(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 1))
	same := func(what string, got, want float64) {
		t.Helper()
		if got != want && !(math.IsNaN(got) && math.IsNaN(want)) {
			t.Errorf("%s is %v, gonum's is %v", what, got, want)
		}
	}
	for n := 1; n < 60; n++ {
		xs := make([]float64, n)
		for i := range xs {
			xs[i] = 1e3 + rng.NormFloat64()
		}
		mean, variance := stat.MeanVariance(xs, nil)
		same("the mean", Mean(xs), mean)
		same("the variance", Variance(xs), variance)
		same("the deviation", StdDev(xs), stat.StdDev(xs, nil))
		slices.Sort(xs)
		for _, p := range []float64{0, 0.05, rng.Float64(), float64(rng.IntN(n)+1) / float64(n), 0.95, 1} {
			same("a quantile", quantile(p, xs), stat.Quantile(p, stat.Empirical, xs, nil))
		}
		z := 4 * rng.NormFloat64()
		for _, x := range []float64{0, z, -z} {
			same("the normal tail", normalSurvival(x), distuv.UnitNormal.Survival(x))
		}
		for k := range n {
			same("the binomial distribution", fairCoins(float64(n), float64(k)), distuv.Binomial{N: float64(n), P: 0.5}.CDF(float64(k)))
		}
		m := rng.IntN(n) + 1
		ours, src := rand.New(rand.NewPCG(5, uint64(n))), rand.NewPCG(5, uint64(n))
		for range 50 {
			same("an order statistic", orderStatistic(ours, m, n), distuv.Beta{Alpha: float64(m), Beta: float64(n - m + 1), Src: src}.Rand())
		}
	}
}
