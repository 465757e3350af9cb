package tuneprogram

import (
	"math"
	"slices"
	"testing"

	"github.com/gpuprof/gpuprof/internal/tune"
)

// TestAllGain: the first ten pairs, if they agree, are a gain at p <= 0.001, whatever their spread; nine are not, and
// neither are ten of which one is within the margin.
func TestAllGain(t *testing.T) {
	if p := math.Pow(0.5, signTestPairs); p > 0.001 || 2*p <= 0.001 {
		t.Errorf("%d pairs have p %g", signTestPairs, p)
	}
	pairs := func(gains ...float64) (out []pair) {
		for _, g := range gains {
			out = append(out, pair{base: tune.ProgramRun{Cost: g}, tuned: tune.ProgramRun{Cost: 1}})
		}
		return out
	}
	agree := []float64{1.03, 5, 1.1, 2, 9, 1.2, 1.05, 3, 1.04, 1.5}
	for name, c := range map[string]struct {
		gains []float64
		want  bool
	}{
		"ten agree":     {agree, true},
		"nine agree":    {agree[1:], false},
		"one is small":  {append([]float64{1.01}, agree[1:]...), false},
		"one is slower": {append([]float64{0.5}, agree[1:]...), false},
		"eleven agree":  {append([]float64{1.3}, agree...), true},
		"a later loses": {append(slices.Clone(agree), 0.5), true},
		"none was made": {nil, false},
	} {
		if got := agreeOnGain(pairs(c.gains...)); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestOutlier: one slow block in ten does not hide a gain that the other nine have. The gains were measured beside other
// work: ten blocks of a setting that saves a quarter of the step. Without the other nine, or spread alike, there is none.
func TestOutlier(t *testing.T) {
	measured := []float64{1.66, 1.21, 1.07, 1.46, 1.57, 1.05, 0.42, 1.35, 1.26, 1.40}
	for name, c := range map[string]struct {
		ratios            []float64
		better, promising bool
	}{
		"measured":           {measured, true, true},
		"nine of them":       {measured[1:], false, true},
		"two outliers":       {append([]float64{0.42}, measured[1:]...), false, true},
		"no gain":            {[]float64{1.2, 0.9, 1.05, 0.95, 1.01, 0.99, 4, 0.97, 1.03, 0.94}, false, false},
		"a gain of 2 %":      {[]float64{1.02, 1.02, 1.021, 1.019, 1.02, 1.02, 1.018, 1.022, 1.02, 1.02}, false, false},
		"four without noise": {[]float64{1.2, 1.21, 1.2, 1.19}, true, true},
	} {
		var gains []float64
		for _, r := range c.ratios {
			gains = append(gains, math.Log(r))
		}
		if isBetter(gains) != c.better || isPromising(gains) != c.promising {
			t.Errorf("%s: better %t, promising %t", name, isBetter(gains), isPromising(gains))
		}
	}
}
