package stats_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gpuprof/gpuprof/internal/stats"
)

// With many samples the draws are read from counts: the interval must cover as
// that of few samples does, and be that of the medians' own scatter.
func TestMedianRatioOfMany(t *testing.T) {
	for _, c := range []struct{ pairs, size int }{{8, 128}, {60, 128}, {300, 30}} {
		rng := rand.New(rand.NewPCG(31, uint64(c.pairs)))
		const trials = 60
		covered := 0
		var thetas, halves []float64
		for range trials {
			a, b := make([][]float64, c.pairs), make([][]float64, c.pairs)
			for k := range a {
				drift := 0.02 * rng.NormFloat64()
				levelA, levelB := drift+0.02*rng.NormFloat64(), drift+0.02*rng.NormFloat64()
				for range c.size {
					a[k] = append(a[k], 1.5*math.Exp(levelA+0.05*rng.NormFloat64()))
					b[k] = append(b[k], math.Exp(levelB+0.05*rng.NormFloat64()))
				}
			}
			r, ok := stats.MedianRatio(a, b)
			if !ok {
				t.Fatal("no ratio")
			}
			if r.CI95[0] <= 1.5 && 1.5 <= r.CI95[1] {
				covered++
			}
			thetas, halves = append(thetas, math.Log(r.Ratio/1.5)), append(halves, math.Log(r.CI95[1]/r.Ratio))
		}
		if covered < 51 { // 95 % expected; under 51 of 60 once in 1,000
			t.Errorf("%d pairs of %d: covered %d of %d", c.pairs, c.size, covered, trials)
		}
		sum := 0.0
		for _, x := range thetas {
			sum += x * x
		}
		if w := stats.Median(halves) / math.Sqrt(sum/trials); w < 1.4 || w > 3.2 {
			t.Errorf("%d pairs of %d: half-width is %.2f times the scatter", c.pairs, c.size, w)
		}
	}
}
