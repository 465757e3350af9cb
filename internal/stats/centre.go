package stats

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"
)

// centre is how the samples of one process become one value; the zero value is their median.
type centre struct {
	name string
	of   func(sorted []float64) float64
}

var (
	byTrimmed = centre{"trimmed means", func(sorted []float64) float64 {
		cut := (len(sorted) + 5) / 10 // a tenth on either side: of fewer than five samples none
		return stat.Mean(sorted[cut:len(sorted)-cut], nil)
	}}
	byMean = centre{"means", func(sorted []float64) float64 { return stat.Mean(sorted, nil) }}
)

const (
	// sharper is by how much less the blocks' ratios must scatter by trimmed means than by
	// medians: medians of samples at two levels lie at either, and in normal noise of samples
	// alone trimmed means scatter 0.82 times as much.
	sharper = 0.7
	// mostTicks is how many different values a clock that ticks coarsely leaves.
	mostTicks = 10
)

// logs are the logarithms of the centres of processes.
func (c centre) logs(runs [][]float64) []float64 {
	out := make([]float64, len(runs))
	for i, r := range runs {
		out[i] = math.Log(c.of(slices.Sorted(slices.Values(r))))
	}
	return out
}

// ticks reports whether a clock that ticks by more than slack, a logarithm, made the samples:
// there are few values, each far from the next, and several of each.
func ticks(runs [][]float64, slack float64) bool {
	all := slices.Sorted(slices.Values(slices.Concat(runs...)))
	values := slices.Compact(slices.Clone(all))
	if len(values) < 2 || len(values) > mostTicks || len(all) < 4*len(values) {
		return false
	}
	for i := 1; i < len(values); i++ {
		if math.Log(values[i]/values[i-1]) <= slack {
			return false
		}
	}
	return true
}

// levels reports whether the samples of at least half of the processes lie at two levels further
// apart than slack, a logarithm: a clock that is slow for a part of each process.
func levels(runs [][]float64, slack float64) bool {
	found := 0
	for _, r := range runs {
		logs := make([]float64, len(r))
		for i, v := range r {
			logs[i] = math.Log(v)
		}
		if _, ok := FindModes(logs, slack); ok {
			found++
		}
	}
	return 2*found >= len(runs)
}

// meanDistance is the mean distance from the median.
func meanDistance(xs []float64) float64 { return distances(xs) / float64(len(xs)) }
