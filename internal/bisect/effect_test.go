//go:build !race

// One goroutine searches, which takes ten times as long under the race detector.

package bisect

import (
	"math"
	"testing"
)

// effects counts, of searches that name the right commit, the intervals of its own change, those
// that hold the true one, the changes that are known, and those of the wrong sign.
func effects(c planted, searches int) (named, intervals, holds, known, wrong int) {
	for i := range searches {
		f, culprits := newFake(c, uint64(i+1))
		s := f.search()
		o := f.found(s)
		if o.Found != Culprit || o.To != culprits[0] {
			continue
		}
		named++
		lo, hi := float64(o.CI95[0]), float64(o.CI95[1])
		if math.IsNaN(lo) {
			continue
		}
		intervals++
		if lo <= c.effect && c.effect <= hi {
			holds++
		}
		if effect := float64(o.Effect); !math.IsNaN(effect) {
			known++
			if effect*c.effect < 0 {
				wrong++
			}
		}
	}
	return named, intervals, holds, known, wrong
}

// The commit's own change that is printed holds the true one nine times of ten, its sign is
// right, and where the quartets do not tell the sign it is not known.
func TestEffectOfTheCommit(t *testing.T) {
	t.Parallel()
	searches := 60
	if nightly {
		searches = 400
	}
	for _, c := range []planted{usual(64, 0.01, 0.05), usual(64, 0.01, 0.10), usual(64, 0.01, 0.20)} {
		for _, slow := range []float64{0, 0.15} {
			c.slow = slow
			named, intervals, holds, known, wrong := effects(c, searches)
			t.Logf("| %.0f %% | %.0f %% slow processes | %d of %d | %d of %d | %d of %d | %d |", 100*c.effect, 100*slow, named, searches, holds, intervals, known, named, wrong)
			// Below 90 % of so many only by three standard errors, and one wrong sign in a hundred.
			if least := 0.9*float64(intervals) - 3*math.Sqrt(0.09*float64(intervals)); float64(holds) < least || wrong > intervals/100 {
				t.Errorf("an effect of %g, %g slow: %d of %d hold it, %d of %d have the wrong sign", c.effect, slow, holds, intervals, wrong, known)
			}
		}
	}
}
