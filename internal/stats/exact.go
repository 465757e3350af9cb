package stats

import (
	"golang.org/x/perf/benchmath"
)

// Count is an exact counter as several runs saw it.
type Count struct {
	Value  float64 // the value all agree on, or the most frequent
	Lo, Hi float64 // the range seen
	Steady bool    // all agree
}

// CountOf summarises the values of a counter (golang.org/x/perf/benchmath's
// assumption that a quantity is exact); ok is false without a value.
func CountOf(values []float64) (c Count, ok bool) {
	if len(values) == 0 {
		return Count{}, false
	}
	s := benchmath.AssumeExact.Summary(benchmath.NewSample(values, &benchmath.DefaultThresholds), 1)
	return Count{Value: s.Center, Lo: s.Lo, Hi: s.Hi, Steady: s.Lo == s.Hi}, true
}

// CompareCounts says whether new is certainly more (+1), certainly less (-1) or
// the same (0) as old; certain is false when the ranges overlap without being
// the same value, so that the counter is not exact after all. It is the order of
// intervals, and no test: an exact counter has no error to test against.
func CompareCounts(old, now Count) (sign int, certain bool) {
	switch {
	case now.Lo > old.Hi:
		return 1, true
	case now.Hi < old.Lo:
		return -1, true
	}
	return 0, old.Steady && now.Steady
}
