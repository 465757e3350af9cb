package record

import (
	"slices"

	"gonum.org/v1/gonum/stat"
)

// Overhead compares the step times before, during and after a recording. Times are means in s without a fifth of the
// values at either end (at least one); 0 without such steps. A median would fail for alternating long and short steps,
// as with batches that arrive in bursts.
type Overhead struct {
	BeforeS float64 `json:"before_s"`
	DuringS float64 `json:"during_s"`
	AfterS  float64 `json:"after_s"`
	// Ratio is DuringS over the mean of all steps before and after the recording, computed in the same way; 0 if
	// unknown.
	Ratio float64 `json:"ratio"`
	// Uneven reports that the steps before and after differ too much for a Ratio.
	Uneven  bool    `json:"uneven,omitempty"`
	ExportS float64 `json:"export_s"` // time for which the program paused while the trace was written, s
}

// fewest is the minimum number of steps for a mean.
const fewest = 3

// mostUnevenness is the largest ratio between the mean step times before and after the recording for which there is a Ratio.
const mostUnevenness = 1.5

// overheadOf compares the step times of a process before, during and after its recording; nil if no recorded step was
// timed.
func overheadOf(p *Process) *Overhead {
	if len(p.During) == 0 {
		return nil
	}
	o := &Overhead{BeforeS: trimmedMean(dropWarmUp(p.Before)), DuringS: trimmedMean(dropWarmUp(p.During)), AfterS: trimmedMean(p.Later), ExportS: p.ExportS}
	bare := bareSteps(p)
	o.Uneven = min(o.BeforeS, o.AfterS) > 0 && max(o.BeforeS, o.AfterS) > mostUnevenness*min(o.BeforeS, o.AfterS)
	if m := trimmedMean(bare); len(p.During) >= fewest && len(bare) >= fewest && m > 0 && !o.Uneven {
		o.Ratio = o.DuringS / m
	}
	return o
}

// bareSteps returns the times of the steps before and after the recording, s.
func bareSteps(p *Process) []float64 {
	return slices.Concat(dropWarmUp(p.Before), p.Later)
}

// dropWarmUp drops the first steps, which are slower: at the program's start by caches and allocations, at the
// recording's start by the profiler.
func dropWarmUp(v []float64) []float64 {
	if len(v) > fewest {
		return v[len(v)/3:]
	}
	if len(v) > 1 {
		return v[1:]
	}
	return v
}

// trimmedMean is the mean without a fifth of the values at either end, at least one, so that an evaluation step does
// not count.
func trimmedMean(v []float64) float64 {
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
