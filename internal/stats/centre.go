package stats

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"
)

// centre reduces the samples of one process to one value: the mean after dropping the share trim at either end. The
// zero value takes the median.
type centre struct {
	name string
	trim float64
}

var (
	byMean    = centre{"means", 0}
	byTrimmed = centre{"trimmed means", 0.1} // none trimmed with fewer than five samples
)

const (
	// sharper: trimmed means replace medians if they make the ratios of the blocks scatter by less than this share of
	// the scatter with medians, which may jump between two levels of samples. In independent normal noise the share is
	// 0.82.
	sharper = 0.7
	// mostTicks is the largest number of different values that count as coarse clock ticks.
	mostTicks = 10
)

func (c centre) logCentres(runs [][]float64) []float64 {
	out := make([]float64, len(runs))
	for i, r := range runs {
		sorted := slices.Sorted(slices.Values(r))
		cut := int(math.Round(c.trim * float64(len(r))))
		out[i] = math.Log(stat.Mean(sorted[cut:len(r)-cut], nil))
	}
	return out
}

// hasClockTicks reports whether the samples come from a clock whose ticks are larger than slack (of the logarithm):
// few different values, far apart, each several times.
func hasClockTicks(runs [][]float64, slack float64) bool {
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

// hasTwoLevels reports whether the samples of at least half of the processes have two levels further apart than slack
// (of the logarithm), for example because the clock frequency is low for a part of the process.
func hasTwoLevels(runs [][]float64, slack float64) bool {
	found := 0
	for _, r := range runs {
		if _, ok := FindModes(logSamples(r), slack); ok {
			found++
		}
	}
	return 2*found >= len(runs)
}

func meanDistance(xs []float64) float64 { return distanceSum(xs) / float64(len(xs)) }
