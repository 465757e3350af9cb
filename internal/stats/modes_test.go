package stats_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gpuprof/gpuprof/internal/stats"
)

// Two modes are found in nearly all sets of processes that have them, and in none of ordinary
// ones, of those with slow processes, and of those that walk.
func TestFindModes(t *testing.T) {
	// Maps have no order: each case has its own stream. Slow processes have modes in 0.7 % of 20,000 sets;
	// 25 of 2,000 is three standard errors above.
	source := rand.NewPCG(41, 42)
	rng := rand.New(source)
	const sets, processes = 2000, 20
	for name, c := range map[string]struct {
		log         func(i int) float64
		least, most int
	}{
		"two modes 30 % apart": {func(int) float64 { return math.Log(1.3) * float64(rng.IntN(2)) }, sets * 95 / 100, sets},
		"ordinary":             {func(int) float64 { return 0 }, 0, 0},
		"slow processes": {func(int) float64 {
			if rng.Float64() < 0.3 {
				return math.Log(1.2 + 0.8*rng.Float64())
			}
			return 0
		}, 0, 25},
		"a drift": {func(i int) float64 { return 0.01 * float64(i) }, 0, 0},
	} {
		source.Seed(41, 42)
		found := 0
		for range sets {
			logs := make([]float64, processes)
			for i := range logs {
				logs[i] = c.log(i) + 0.01*rng.NormFloat64()
			}
			m, ok := stats.FindModes(logs, 0.02)
			if !ok {
				continue
			}
			if found++; name == "two modes 30 % apart" && (math.Abs(m.High-m.Low-math.Log(1.3)) > 0.02 || m.Share <= 0 || m.Share >= 1) {
				t.Fatalf("%+v", m)
			}
		}
		if found < c.least || found > c.most {
			t.Errorf("%s: modes in %d of %d", name, found, sets)
		}
	}
	if _, ok := stats.FindModes(nil, 0.02); ok {
		t.Error("modes of nothing")
	}
}
