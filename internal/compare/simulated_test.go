//go:build nightly && !race

package compare_test

import (
	"testing"

	"gonum.org/v1/gonum/stat/distuv"
)

// allGates show a rate: at the limit itself, no more than one series of n in twenty
// comes out as well. Arithmetic takes five times as long under the race detector, which
// sees the same calls in someGates.
var allGates = scale{share: 1, meets: func(k, n int, limit float64, most bool) bool {
	b := distuv.Binomial{N: float64(n), P: limit}
	if most {
		return b.CDF(float64(k)) <= doubt
	}
	return 1-b.CDF(float64(k-1)) <= doubt
}}

// By day TestSimulatedGates has the same cases with fewer gates.
func TestAllSimulatedGates(t *testing.T) { simulatedGates(t, allGates) }

// By day TestPlannedGates has the same cases with fewer gates.
func TestAllPlannedGates(t *testing.T) { plannedGates(t, allGates) }
