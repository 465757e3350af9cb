package health

import (
	"math"
	"testing"

	"github.com/gpuprof/gpuprof"
)

// TestBest: of each judged figure the better one counts, of others the last.
func TestBest(t *testing.T) {
	card := func(copies, launch, power float64) []Card {
		return []Card{{Device: "cuda:0", Metrics: []Metric{{Name: "copy", Value: gpuprof.Number(copies)}, {Name: "launch", Value: gpuprof.Number(launch)}, {Name: "power", Value: gpuprof.Number(power)}}}}
	}
	failed := card(1, math.NaN(), 300)
	failed[0].Error = "it fell off the bus"
	got := Best(Best(card(3e12, 5e-6, 500), card(2e12, 4e-6, 400)), failed)
	for name, want := range map[string]float64{"copy": 3e12, "launch": 4e-6, "power": 300} {
		if m, _ := got[0].Metric(name); float64(m.Value) != want {
			t.Errorf("%s is %v, want %g", name, m.Value, want)
		}
	}
	if got[0].Error == "" {
		t.Error("the error is gone")
	}
}
