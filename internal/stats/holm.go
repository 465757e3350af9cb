package stats

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
)

// Holm adjusts p-values for multiple tests. Rejecting the tests with an adjusted value up to alpha raises any false
// alarm with probability at most alpha, for any dependence between tests (Holm, Scand. J. Statist. 6, 1979). The
// adjusted values are in the order of p. NaN, an impossible test, stays NaN but counts as a test: missing data must
// not make the other tests easier to pass.
func Holm(p []float64) []float64 {
	order, keys := make([]int, len(p)), slices.Clone(p)
	for i, v := range p {
		if math.IsNaN(v) {
			keys[i] = math.Inf(1)
		}
	}
	floats.ArgsortStable(keys, order)
	out := make([]float64, len(p))
	worst := 0.0
	for rank, i := range order {
		if math.IsNaN(p[i]) {
			out[i] = math.NaN()
			continue
		}
		worst = max(worst, min(1, float64(len(p)-rank)*p[i]))
		out[i] = worst
	}
	return out
}
