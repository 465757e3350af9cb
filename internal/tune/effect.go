package tune

import (
	"math"
	"slices"

	"github.com/gpuprof/gpuprof/internal/stats"
)

// equivalence is the margin within which a change does not matter: the same
// 2 % as for compare and gate.
const equivalence = 0.02

// fewestPairs is what a ratio within one process needs: with one degree of
// freedom an interval is as wide as the world.
const fewestPairs = 3

// seedOfDraws makes intervals reproducible; it has nothing to do with the
// seed of inputs.
const seedOfDraws = 1

// drawn is the ratio B/A of a set of blocks.
type drawn struct {
	ratio float64
	ci    [2]float64
	ok    bool
}

// ratioOf is the ratio B/A. Blocks within one process (one figure each) were
// measured in pairs: the median of their ratios counts, so that a burst of other
// work spoils a pair at most and hardly the answer. Processes (many figures
// each) are replicates: the mean over them by the paired hierarchical bootstrap.
// Costs that are the same in every block (bytes) are exact.
func ratioOf(bs *stats.Bootstrap, a, b [][]float64) drawn {
	if exact(a) && exact(b) {
		if !(a[0][0] > 0 && b[0][0] > 0) {
			return drawn{}
		}
		r := b[0][0] / a[0][0]
		return drawn{r, [2]float64{r, r}, true}
	}
	if single(a) && single(b) && len(a) == len(b) {
		if len(a) < fewestPairs {
			return drawn{}
		}
		r, ok := stats.PairedRatio(slices.Concat(b...), slices.Concat(a...))
		return drawn{r.Ratio, r.CI95, ok}
	}
	e, ok := bs.Paired(a, b)
	if !ok || math.IsNaN(e.SE) {
		return drawn{}
	}
	return drawn{math.Exp(e.Theta), [2]float64{math.Exp(e.Lower(.975)), math.Exp(e.Upper(.975))}, true}
}

// single says that every block has one figure.
func single(blocks [][]float64) bool {
	for _, b := range blocks {
		if len(b) != 1 {
			return false
		}
	}
	return true
}

func exact(runs [][]float64) bool {
	if len(runs) < 2 { // one block of a time says nothing of its spread
		return false
	}
	for _, r := range runs {
		if len(r) == 0 || r[0] != runs[0][0] {
			return false
		}
		for _, v := range r {
			if v != r[0] {
				return false
			}
		}
	}
	return true
}

// judge names a ratio of costs: below 1 is better.
func (d drawn) judge(g Goal) Verdict {
	better, worse := Faster, Slower
	if g == Energy || g == Memory {
		better, worse = Less, More
	}
	switch {
	case !d.ok:
		return Inconclusive
	case d.ci[0] >= 1-equivalence && d.ci[1] <= 1+equivalence:
		return None
	case d.ci[1] < 1:
		return better
	case d.ci[0] > 1:
		return worse
	}
	return Inconclusive
}

// Better reports whether a verdict is an improvement.
func (v Verdict) Better() bool { return v == Faster || v == Less }

// shown turns a ratio of costs into the ratio of the goal's own unit: that of
// throughput goes the other way.
func shown(g Goal, ratio float64, ci [2]float64) (float64, [2]float64) {
	if g != Throughput || ratio == 0 {
		return ratio, ci
	}
	return 1 / ratio, [2]float64{1 / ci[1], 1 / ci[0]}
}

// finite keeps what JSON cannot hold out of the result.
func finite(v float64) float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return 0
	}
	return v
}

// fewestBlocks is from when on the smallest and the largest of so many figures
// are an interval of 95 % for their median.
const fewestBlocks = 6

// medianOf is the median with its interval, in the goal's own unit: over the
// blocks of one process (one figure each), or over processes (many figures
// each), which then are the replicates. The interval is zero where the figures
// are too few for one.
func medianOf(g Goal, blocks [][]float64) (float64, [2]float64) {
	var runs [][]float64
	for _, b := range blocks {
		var run []float64
		for _, v := range b {
			if g == Throughput {
				v = 1 / v
			}
			run = append(run, v)
		}
		if len(run) > 0 {
			runs = append(runs, run)
		}
	}
	if len(runs) == 0 {
		return 0, [2]float64{}
	}
	n, least := len(runs), 2
	if single(runs) {
		if !exact(runs) {
			least = fewestBlocks
		}
		runs = [][]float64{slices.Concat(runs...)}
	}
	s := stats.Summarise("", runs...)
	if n < least {
		return finite(s.Median), [2]float64{}
	}
	return finite(s.Median), [2]float64{finite(s.CI95[0]), finite(s.CI95[1])}
}
