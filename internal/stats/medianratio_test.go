package stats

import (
	"math"
	"math/rand/v2"
	"testing"
)

// The median of few samples that were drawn is that of the samples put together, to the
// last bit: with ties, with blocks of different lengths, and empty ones.
func TestMedianOfDrawnBlocks(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 3))
	for range 300 {
		blocks := make([][]float64, 1+rng.IntN(6))
		for i := range blocks {
			for range rng.IntN(7) {
				blocks[i] = append(blocks[i], float64(rng.IntN(8))/3)
			}
		}
		d := newDrawable(blocks)
		picks := make([]int, len(blocks))
		for range 20 {
			var drawn []float64
			for i := range picks {
				picks[i] = rng.IntN(len(blocks))
				drawn = append(drawn, blocks[picks[i]]...)
			}
			if got, want := d.median(picks), Median(drawn); got != want && !(math.IsNaN(got) && math.IsNaN(want)) {
				t.Fatalf("the median of blocks %v of %v is %v, want %v", picks, blocks, got, want)
			}
		}
	}
}
