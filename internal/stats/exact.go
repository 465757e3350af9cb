package stats

import (
	"golang.org/x/perf/benchmath"
)

// Count summarises an exact counter over several runs.
type Count struct {
	Value  float64 // the value of all runs, or the most frequent
	Lo, Hi float64 // the observed range
	Steady bool    // all runs agree
}

// CountOf summarises an exact counter's values, as golang.org/x/perf/benchmath does; ok is false without any.
func CountOf(values []float64) (c Count, ok bool) {
	if len(values) == 0 {
		return Count{}, false
	}
	s := benchmath.AssumeExact.Summary(benchmath.NewSample(values, &benchmath.DefaultThresholds), 1)
	return Count{Value: s.Center, Lo: s.Lo, Hi: s.Hi, Steady: s.Lo == s.Hi}, true
}

// CompareCounts returns whether now is certainly more (+1), certainly less (-1) or the same (0) as old. certain is
// false if the ranges overlap without being the same value: then the counter is not exact. It compares ranges
// without a test: an exact counter has no error to test against.
func CompareCounts(old, now Count) (sign int, certain bool) {
	switch {
	case now.Lo > old.Hi:
		return 1, true
	case now.Hi < old.Lo:
		return -1, true
	}
	return 0, old.Steady && now.Steady
}
