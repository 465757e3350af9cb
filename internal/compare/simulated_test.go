//go:build !race

package compare_test

import "gonum.org/v1/gonum/stat/distuv"

// ofGates divides the counts of gates.
const ofGates = 1

// meets says whether k gates of n show a rate of at most (or at least) limit: at the
// limit itself, no more than one series of n in twenty comes out as well.
func meets(k, n int, limit float64, most bool) bool {
	b := distuv.Binomial{N: float64(n), P: limit}
	if most {
		return b.CDF(float64(k)) <= doubt
	}
	return 1-b.CDF(float64(k-1)) <= doubt
}
