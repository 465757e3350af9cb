package search

import (
	"math"
	"slices"

	"github.com/gpuprof/gpuprof/internal/stats"
	"github.com/gpuprof/gpuprof/internal/tune"
)

// equivalence is the margin within which a change does not matter: 2 %, as for compare and gate.
const equivalence = 0.02

// fewestPairs is the least number of pairs for a ratio in one process: one degree of freedom gives useless intervals.
const fewestPairs = 3

const (
	// trimmed is the share of pairs dropped at each end: a burst of other work slows one block of a pair.
	trimmed = 0.2
	// sittingSpread is the standard deviation of the logarithm of the ratio of two equal sessions. Each time that both
	// are set up again (a sitting), their buffers get other addresses, which changes their speed. It was measured with
	// the row a/a of --claims on the host device.
	sittingSpread = 0.01
	// errorRate is the error rate of a table's intervals.
	errorRate = 0.05
)

// ratioEstimate is the ratio B/A of two settings' costs, as estimated from their blocks.
type ratioEstimate struct {
	ratio float64
	ci    [2]float64 // 95 %
	ok    bool
	e     stats.Effect
}

func newDrawn(e stats.Effect) ratioEstimate {
	d := ratioEstimate{ratio: math.Exp(e.Theta), ok: e.OK(), e: e}
	d.ci = d.interval(errorRate)
	return d
}

// interval returns the two-sided interval of level 1 - alpha.
func (d ratioEstimate) interval(alpha float64) [2]float64 {
	if !d.ok {
		return [2]float64{}
	}
	if d.e.SE == 0 {
		return [2]float64{d.ratio, d.ratio}
	}
	return [2]float64{math.Exp(d.e.Lower(1 - alpha/2)), math.Exp(d.e.Upper(1 - alpha/2))}
}

// pBetter returns the one-sided p-value of "B costs as much as A or more".
func (d ratioEstimate) pBetter() float64 { return d.e.Negate().PNotAbove(0) }

// pValue returns the two-sided p-value of "B costs as much as A"; NaN without a ratio.
func (d ratioEstimate) pValue() float64 {
	if !d.ok {
		return math.NaN()
	}
	return min(1, 2*min(d.pBetter(), d.e.PNotAbove(0)))
}

// ratioOf estimates the ratio B/A. Blocks with one figure each come from one process and were measured in pairs. The
// result is then the trimmed mean of the logarithms of their ratios, which bursts of other work affect little. Blocks
// with many figures are replicates: the result is the mean of their ratios (stats.Paired). Costs that are
// equal in all blocks (bytes) are exact.
func ratioOf(a, b [][]float64) ratioEstimate {
	if isExact(a) && isExact(b) {
		if !(a[0][0] > 0 && b[0][0] > 0) {
			return ratioEstimate{}
		}
		return newDrawn(stats.Effect{Theta: math.Log(b[0][0] / a[0][0]), Nu: math.Inf(1)})
	}
	if isSingle(a) && isSingle(b) && len(a) == len(b) {
		return newDrawn(trimmedMean(logRatios(a, b), trimmed))
	}
	e, ok := stats.Paired(a, b)
	if !ok || math.IsNaN(e.SE) {
		return ratioEstimate{}
	}
	return newDrawn(e)
}

func logRatios(a, b [][]float64) []float64 {
	logs := make([]float64, len(a))
	for i := range a {
		logs[i] = math.Log(b[i][0] / a[i][0])
	}
	return logs
}

// trimmedMean is stats.TrimmedMean of at least fewestPairs logs.
func trimmedMean(logs []float64, trim float64) stats.Effect {
	if len(logs) < fewestPairs {
		return stats.Effect{Theta: math.NaN()}
	}
	return stats.TrimmedMean(logs, trim)
}

// ratioSeen returns an outcome's ratio. It adds the spread between sittings to the standard error, because the blocks
// of one sitting cannot show this spread.
func ratioSeen(o *tune.Outcome) ratioEstimate {
	d := ratioOf(o.A, o.B)
	if !d.ok || isExact(o.A) && isExact(o.B) {
		return d
	}
	e := d.e
	e.SE = math.Hypot(e.SE, sittingSpread/math.Sqrt(float64(max(1, o.Sittings))))
	return newDrawn(e)
}

func isSingle(blocks [][]float64) bool {
	return !slices.ContainsFunc(blocks, func(b []float64) bool { return len(b) != 1 })
}

func isExact(runs [][]float64) bool {
	if len(runs) < 2 { // a single block has no spread
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

// judgeBy returns the verdict on a ratio of costs from its interval: below 1 is better.
func (d ratioEstimate) judgeBy(g tune.Goal, ci [2]float64) tune.Verdict {
	better, worse := tune.Faster, tune.Slower
	if g == tune.Energy || g == tune.Memory {
		better, worse = tune.Less, tune.More
	}
	switch {
	case !d.ok:
		return tune.Inconclusive
	case ci[0] >= 1-equivalence && ci[1] <= 1+equivalence:
		return tune.None
	case ci[1] < 1:
		return better
	case ci[0] > 1:
		return worse
	}
	return tune.Inconclusive
}

// jointIntervals returns an interval and an adjusted p-value for each ratio of a table. All verdicts by these intervals
// hold together with 95 % confidence (Holm, Scand. J. Statist. 6, 1979): an interval excludes 1 exactly if Holm's test
// rejects.
func jointIntervals(table []ratioEstimate) (ci [][2]float64, p []float64) {
	ps := make([]float64, 0, len(table))
	for _, d := range table {
		if d.ok {
			ps = append(ps, d.pValue())
		}
	}
	slices.Sort(ps)
	first := 0 // index of the first p-value that is not rejected; later ones get the same level
	for first < len(ps) && ps[first] <= errorRate/float64(len(ps)-first) {
		first++
	}
	adjusted := stats.Holm(ps)
	ci, p = make([][2]float64, len(table)), make([]float64, len(table))
	for i, d := range table {
		if !d.ok {
			p[i] = math.NaN()
			continue
		}
		rank, _ := slices.BinarySearch(ps, d.pValue())
		p[i] = adjusted[rank]
		ci[i] = d.interval(errorRate / float64(len(ps)-min(rank, first, len(ps)-1)))
	}
	return ci, p
}

// goalRatio converts a ratio of costs to the goal's unit: throughput is the inverse of a cost.
func goalRatio(g tune.Goal, ratio float64, ci [2]float64) (float64, [2]float64) {
	if g != tune.Throughput || ratio == 0 {
		return ratio, ci
	}
	return 1 / ratio, [2]float64{1 / ci[1], 1 / ci[0]}
}

// fewestBlocks is the least number of blocks for which the smallest and the largest figure bound a 95 % interval of the
// median.
const fewestBlocks = 6

// medianOf returns the median and its interval in the goal's unit. Blocks with one figure each come from one process;
// blocks with many figures are processes, which are then the replicates. The interval is zero if the figures are too
// few for one.
func medianOf(g tune.Goal, blocks [][]float64) (float64, [2]float64) {
	var runs [][]float64
	for _, b := range blocks {
		var run []float64
		for _, v := range b {
			if g == tune.Throughput {
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
	if isSingle(runs) {
		if !isExact(runs) {
			least = fewestBlocks
		}
		runs = [][]float64{slices.Concat(runs...)}
	}
	s := stats.Summarise("", runs...)
	if n < least {
		return tune.FiniteOrZero(s.Median), [2]float64{}
	}
	return tune.FiniteOrZero(s.Median), [2]float64{tune.FiniteOrZero(s.CI95[0]), tune.FiniteOrZero(s.CI95[1])}
}
