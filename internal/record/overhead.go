package record

import (
	"slices"

	"gonum.org/v1/gonum/stat"
)

// Overhead compares the step times around a recording. Times are means in seconds
// of all but the fifth at either end (one step at least), 0 where there were no such steps: batches come
// in bursts, and the median of long and short steps in turn is one or the other.
type Overhead struct {
	BeforeS float64 `json:"before_s"`
	DuringS float64 `json:"during_s"`
	AfterS  float64 `json:"after_s"`
	// Ratio is the time of a recorded step by that of one that was not,
	// 0 unknown. The steps before and after count alike.
	Ratio float64 `json:"ratio"`
	// Uneven says that the program's own pace changed between the steps before
	// and those after, so that there is no ratio to tell.
	Uneven  bool    `json:"uneven,omitempty"`
	ExportS float64 `json:"export_s"` // the program stood still for so long
}

// fewest is how many steps a mean is made of at least.
const fewest = 3

// pace is how much the steps before and after may differ and still stand for
// what the recorded ones would have taken.
const pace = 1.5

// overheadOf is nil for a process whose steps were not timed.
func overheadOf(p *Process) *Overhead {
	if len(p.During) == 0 {
		return nil
	}
	o := &Overhead{BeforeS: middle(settled(p.Before)), DuringS: middle(settled(p.During)), AfterS: middle(p.Later), ExportS: p.ExportS}
	bare := bareSteps(p)
	o.Uneven = min(o.BeforeS, o.AfterS) > 0 && max(o.BeforeS, o.AfterS) > pace*min(o.BeforeS, o.AfterS)
	if m := middle(bare); len(p.During) >= fewest && len(bare) >= fewest && m > 0 && !o.Uneven {
		o.Ratio = o.DuringS / m
	}
	return o
}

// bareSteps are the times of the steps before and after the recording, s.
func bareSteps(p *Process) []float64 {
	return slices.Concat(settled(p.Before), p.Later)
}

// settled leaves out the first steps of a stretch, which are slower: the first
// of all for caches and allocations, the first recorded for the profiler.
func settled(v []float64) []float64 {
	if len(v) > fewest {
		return v[len(v)/3:]
	}
	if len(v) > 1 {
		return v[1:]
	}
	return v
}

// middle is the mean without the fifth of the values at either end, and without one at least: an evaluation
// among five recorded steps is not their pace.
func middle(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(v))
	cut := max(len(s)/5, 1)
	if len(s) < fewest {
		cut = 0
	}
	s = s[cut : len(s)-cut]
	return stat.Mean(s, nil)
}
