//go:build !race

// Under the race detector arithmetic in one goroutine takes ten times as long; it finds nothing there.

package stats_test

import "testing"

// TestStepsAsDesigned: the rates of the design, of 300 series each, in fewer. The
// bounds leave three standard errors of 60 series.
func TestStepsAsDesigned(t *testing.T) {
	for _, c := range []struct {
		noise, rho          float64
		mostFalse           float64
		leastFive, leastTen float64
	}{
		{0.01, 0, 0.04, 0.95, 0.98},
		{0.02, 0.3, 0.06, 0.90, 0.98},
		{0.03, 0.3, 0.08, 0.66, 0.96},
		{0.02, 0.6, 0.08, 0.78, 0.97},
	} {
		if r := simulated(60, c.noise, c.rho); r.falsely > c.mostFalse || r.five < c.leastFive || r.ten < c.leastTen {
			t.Errorf("noise %g, rho %g: %+v", c.noise, c.rho, r)
		}
	}
}
