package health

import (
	"math"
	"testing"

	"github.com/gpuprof/gpuprof"
)

// TestBest: of each judged figure the two best count, of others the last.
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
	for name, want := range map[string]float64{"copy": 2e12, "launch": 5e-6, "power": 0} {
		if m, _ := got[0].Metric(name); float64(m.Second) != want {
			t.Errorf("the second best of %s is %v, want %g", name, m.Second, want)
		}
	}
	for _, s := range Scores(&got[0]) {
		if want := map[string]float64{"copy": math.Log(1.5), "launch": math.Log(1.25)}[s.Metric]; math.Abs(s.Apart-want) > 1e-12 {
			t.Errorf("%s: its rounds are %g apart, want %g", s.Metric, s.Apart, want)
		}
	}
	if got[0].Error == "" {
		t.Error("the error is gone")
	}
}
