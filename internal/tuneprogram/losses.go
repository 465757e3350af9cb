package tuneprogram

import (
	"math"
	"strconv"

	"github.com/gpuprof/gpuprof/internal/tune"
)

// lossDeviation returns the largest difference between two lists of losses, relative to the first loss, and the number
// of compared losses. Differences relative to each loss would be too large for losses near zero. dev is -1 if a loss is
// not a number, or if one of two differing losses is not finite.
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

// checkRepeats returns the largest deviation between the losses of the unchanged program's runs, which is the
// tolerance for other runs. Above limit the losses cannot be compared.
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

// checkLosses compares the losses of a tuned run with a plain run's. Exact settings may deviate as much as two plain
// runs do (own), settings that change rounding up to limit.
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
