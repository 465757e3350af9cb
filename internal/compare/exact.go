package compare

import (
	"fmt"
	"slices"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/stats"
)

func (e *entry) exactVerdict() {
	if e.blocked != "" {
		return
	}
	was, now := e.exactCounts()
	a, ok1 := stats.CountOf(was)
	b, ok2 := stats.CountOf(now)
	if !ok1 || !ok2 {
		e.blockVerdict(blameData, "a side has no value of it")
		return
	}
	r := &e.result
	r.Old, r.New, r.Ratio = gpuprof.Number(a.Value), gpuprof.Number(b.Value), nan
	if a.Value != 0 {
		r.Ratio = r.New / r.Old
	}
	sign, certain := stats.CompareCounts(a, b)
	// A counter that varies between steps is unchanged if both sides hold the same values.
	certain = certain || !e.paired && slices.Equal(was, now)
	if e.HigherIsBetter {
		sign = -sign
	}
	switch {
	case !certain:
		e.blockVerdict(blameCounter, fmt.Sprintf("the counter is not exact: %g to %g on the old side, %g to %g on the new one", a.Lo, a.Hi, b.Lo, b.Hi))
	case sign > 0:
		r.Verdict = Regressed
	case sign < 0:
		r.Verdict = Improved
	default:
		r.Verdict = Same
	}
}

// exactCounts returns the sorted values of a counter on both sides. It rounds them to the digits of the side that was
// stored with fewer digits.
func (e *entry) exactCounts() (old, now []float64) {
	digits := 0
	for _, m := range e.sides {
		if m.Digits > 0 && (digits == 0 || m.Digits < digits) {
			digits = m.Digits
		}
	}
	old, now = slices.Concat(e.old...), slices.Concat(e.new...)
	for _, values := range [][]float64{old, now} {
		for i, v := range values {
			if digits > 0 {
				values[i] = stats.Significant(v, digits)
			}
		}
		slices.Sort(values)
	}
	return old, now
}
