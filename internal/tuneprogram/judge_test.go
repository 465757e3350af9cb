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
