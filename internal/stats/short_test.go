package stats_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gpuprof/gpuprof/internal/stats"
)

// short is how often a series of n without a change has one, and how often a step after
// two thirds of it is found within three places.
func short(series, n int, noise, rho float64, steps ...float64) (falsely float64, found []float64) {
	found = make([]float64, len(steps))
	for i := range series {
		for k, step := range append([]float64{0}, steps...) {
			rng := rand.New(rand.NewPCG(uint64(i), 3))
			all := stats.FindSteps(sequence(rng, n, noise, rho, step, 2*n/3), stepRule(uint64(i)))
			switch {
			case k == 0 && len(all) > 0:
				falsely++
			case k > 0 && slices.ContainsFunc(all, func(s stats.Step) bool { return s.At >= 2*n/3-3 && s.At <= 2*n/3+3 }):
				found[k-1]++
			}
		}
	}
	for k := range found {
		found[k] /= float64(series)
	}
	return falsely / float64(series), found
}

// BenchmarkShortSeries gives the rates of short series, 300 a row.
func BenchmarkShortSeries(b *testing.B) {
	for _, n := range []int{16, 24, 40, 60} {
		for _, c := range [][2]float64{{0.01, 0}, {0.02, 0.3}, {0.03, 0.3}, {0.02, 0.6}} {
			b.Run(fmt.Sprintf("n=%d/noise=%g/rho=%g", n, c[0], c[1]), func(b *testing.B) {
				for range b.N {
					falsely, found := short(300, n, c[0], c[1], 0.05, 0.10, 0.15)
					b.ReportMetric(falsely, "false")
					b.ReportMetric(found[0], "found-5%")
					b.ReportMetric(found[1], "found-10%")
					b.ReportMetric(found[2], "found-15%")
				}
			})
		}
	}
}

// TestShortSeries: a step of many times the noise is found in a short series too, where
// shuffles of a few blocks cannot refuse it; a change where there is none is as rare as
// in long ones. The bounds leave three standard errors of 100 series.
func TestShortSeries(t *testing.T) {
	for _, c := range []struct {
		n              int
		rho, most, ten float64
	}{{16, 0, 0.02, 0.70}, {24, 0.3, 0.02, 0.92}, {24, 0.6, 0.05, 0.90}, {40, 0.6, 0.05, 0.97}} {
		falsely, found := short(100, c.n, 0.01, c.rho, 0.10)
		if falsely > c.most || found[0] < c.ten {
			t.Errorf("%d values, rho %g: false %.3f, 10 %% found %.3f", c.n, c.rho, falsely, found[0])
		}
	}
}
