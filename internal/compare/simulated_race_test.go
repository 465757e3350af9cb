//go:build race

package compare_test

import "gonum.org/v1/gonum/stat/distuv"

// ofGates divides the counts of gates: arithmetic takes five times as long under the
// race detector, and make test plays them all without it.
const ofGates = 20

// meets says whether k gates of n do not contradict a rate of at most (or at least)
// limit: no fewer than one series in twenty at the limit would go as far beyond it.
func meets(k, n int, limit float64, most bool) bool {
	b := distuv.Binomial{N: float64(n), P: limit}
	if most {
		return b.CDF(float64(k-1)) <= 1-doubt
	}
	return b.CDF(float64(k)) >= doubt
}
