package tuneprogram

import (
	"math"
	"strconv"

	"github.com/gpuprof/gpuprof/internal/tune"
)

// lossDeviation is the largest difference of two lists of losses over the size of the first loss, and how many were
// compared; -1 where one is not finite and the other is. Losses near zero make a share of each loss useless.
func lossDeviation(a, b []string) (dev float64, compared int) {
	n := min(len(a), len(b))
	scale := 0.0
	for i := range n {
		x, errX := strconv.ParseFloat(a[i], 64)
		y, errY := strconv.ParseFloat(b[i], 64)
		if errX != nil || errY != nil {
			return -1, n
		}
		if i == 0 {
			scale = math.Abs(x)
			if scale == 0 {
				scale = 1
			}
		}
		switch d := math.Abs(x-y) / scale; {
		case a[i] == b[i] || x == y:
		case math.IsNaN(d) || math.IsInf(d, 0):
			return -1, n
		default:
			dev = max(dev, d)
		}
	}
	return dev, n
}

// checkRepeats returns the largest deviation of the other plain runs' losses from the first run's: the tolerance for every
// other run.
func checkRepeats(plain []tune.ProgramRun, limit float64) tune.LossCheck {
	out := tune.LossCheck{Verdict: tune.NotChecked}
	for _, r := range plain[1:] {
		d, n := lossDeviation(plain[0].Losses, r.Losses)
		out.Compared = max(out.Compared, n)
		if d < 0 || out.Deviation < 0 {
			out.Deviation = -1
		} else {
			out.Deviation = max(out.Deviation, d)
		}
	}
	switch {
	case out.Compared == 0:
	case out.Deviation == 0:
		out.Verdict = tune.SameBits
	case out.Deviation < 0 || out.Deviation > limit:
		out.Verdict = tune.Incomparable
	default:
		out.Verdict = tune.Within
	}
	return out
}

// checkLosses compares the losses of a run with settings to a plain run's losses. Settings that must not change the
// numbers may differ by the deviation of two plain runs, settings that round differently by limit.
func checkLosses(plain, tuned tune.ProgramRun, own tune.LossCheck, changes Change, limit float64) tune.LossCheck {
	d, n := lossDeviation(plain.Losses, tuned.Losses)
	out := tune.LossCheck{Compared: n, Deviation: d}
	allowed := own.Deviation
	if changes == Rounding {
		allowed = max(allowed, limit)
	}
	switch {
	case n == 0:
		out.Verdict = tune.NotChecked
	case own.Verdict == tune.Incomparable:
		out.Verdict = tune.Incomparable
	case d == 0:
		out.Verdict = tune.SameBits
	case d > 0 && d <= allowed:
		out.Verdict = tune.Within
	default:
		out.Verdict = tune.Changed
	}
	return out
}
