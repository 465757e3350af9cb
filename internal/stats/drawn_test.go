package stats

import (
	"math"
	"testing"
)

func TestMediansAndBetween(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	got := Medians([]float64{3, nan, 1}, []float64{2, inf, 5, 9}, nil, []float64{nan})
	if got[0] != 2 || got[1] != 5 || !math.IsNaN(got[2]) || !math.IsNaN(got[3]) {
		t.Errorf("medians %v", got)
	}
	if lo, hi, ok := Between(0.25, 0.75, []float64{4, nan, 1}, []float64{3, 2}); lo != 1 || hi != 3 || !ok {
		t.Errorf("%g to %g, %v", lo, hi, ok)
	}
	if _, _, ok := Between(0.1, 0.9, nil, []float64{nan}); ok {
		t.Error("nothing has a range")
	}
}
