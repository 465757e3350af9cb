package figure

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// A short axis has two numbers too: from one alone nobody reads a scale.
func TestTwoTicks(t *testing.T) {
	for _, c := range []struct {
		hi   float64
		want []float64
	}{{36, []float64{0, 20}}, {47, []float64{0, 20, 40}}, {53, []float64{0, 50}}, {9.9, []float64{0, 5}}, {95, []float64{0, 50}}, {10, []float64{0, 5, 10}}} {
		if got := stepTicks(0, c.hi, 2); !slices.Equal(got, c.want) {
			t.Errorf("to %g: %v, want %v", c.hi, got, c.want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		hi, most := rapid.Float64Range(1e-9, 1e9).Draw(t, "hi"), rapid.IntRange(2, 9).Draw(t, "most")
		if got := stepTicks(0, hi, most); len(got) < 2 || len(got) > most+1 {
			t.Errorf("%v to %g, at most %d", got, hi, most)
		}
	})
}
