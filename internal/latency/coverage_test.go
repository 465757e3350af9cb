//go:build !race

// Thousands of bootstraps in one goroutine: there is nothing for the race detector to find.

package latency

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// Of 95 % intervals of independent blocks some 95 % hold the true percentile. The bootstrap
// of 20 blocks is known to be a little short, which 200 intervals show to 2 %.
func TestCoverage(t *testing.T) {
	const mean, trials = 1e-3, 200
	want := []float64{mean * math.Ln2, mean * math.Log(10), mean * math.Log(100)}
	held := make([]int, len(want))
	rng := rand.New(rand.NewPCG(5, 6))
	for i := range trials {
		all := New()
		var blocks []*Histogram
		for range 20 {
			b := New()
			for range 1000 {
				b.Record(time.Duration(rng.ExpFloat64() * mean * 1e9))
			}
			all.Merge(b)
			blocks = append(blocks, b)
		}
		s := Summary(all, []*Histogram{all}, blocks, uint64(i))
		for k, p := range s.Percentiles[:3] {
			// A histogram's value is up to 0.1 % above.
			if p.CI95[0] <= want[k]*1.001 && want[k] <= p.CI95[1] {
				held[k]++
			}
		}
	}
	for k, n := range held {
		if n < trials*88/100 {
			t.Errorf("%d of %d intervals of percentile %d hold it", n, trials, k)
		}
	}
}
