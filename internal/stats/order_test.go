package stats_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gpuprof/gpuprof/internal/stats"
)

// Orders of six blocks are many, none of them by turns, and any number of blocks begins as often
// with A as with B but for one.
func TestBalancedOrder(t *testing.T) {
	seen := map[string]int{}
	for seed := range uint64(2000) {
		for _, n := range []int{3, 6, 9} {
			ahead := 0
			for _, b := range stats.BalancedOrder(n, seed) {
				if b {
					ahead++
				}
			}
			if ahead < n/2 || ahead > n/2+n%2 {
				t.Fatalf("%d of %d blocks begin with B", ahead, n)
			}
		}
		seen[fmt.Sprint(stats.BalancedOrder(6, seed))]++
	}
	if len(seen) != 18 || seen["[true false true false true false]"] > 0 {
		t.Errorf("%d orders of six blocks: %v", len(seen), seen)
	}
}

// A wave is found in the processes of a stage, in noise no more often than the level allows.
func TestFindRhythm(t *testing.T) {
	rng := rand.New(rand.NewPCG(33, 34))
	waves, noise := 0, 0
	const trials = 400
	for range trials {
		a, b := make([]float64, 12), make([]float64, 12)
		phase := 2 * math.Pi * rng.Float64()
		for i := range a {
			b[i] = 0.01 * rng.NormFloat64()
			a[i] = b[i] + 0.1*math.Sin(phase+math.Pi/2*float64(i))
		}
		if stats.FindRhythm(a) <= 0.01 {
			waves++
		}
		if stats.FindRhythm(b) <= 0.05 {
			noise++
		}
	}
	if waves < trials*98/100 || noise > trials*9/100 {
		t.Errorf("found %d waves and %d in noise of %d", waves, noise, trials)
	}
	if p := stats.FindRhythm(make([]float64, 12)); p != 1 {
		t.Errorf("equal values: p %g", p)
	}
}

// Samples of a coarse clock count by their mean, those at two levels by their trimmed mean, and
// others, slow ones among them, by their median.
func TestCentre(t *testing.T) {
	source := rand.NewPCG(35, 36)
	rng := rand.New(source)
	side := func(sample func(i int) float64) (runs [][]float64) {
		for range 6 {
			var run []float64
			shift, turn := math.Exp(0.01*rng.NormFloat64()), rng.IntN(10)
			for i := range 10 {
				run = append(run, shift*sample((i+turn)%10))
			}
			runs = append(runs, run)
		}
		return runs
	}
	noise := func(v float64) float64 { return v * math.Exp(0.01*rng.NormFloat64()) }
	for want, sample := range map[string]func(i int) float64{
		"": func(i int) float64 {
			if i == 0 && rng.IntN(2) == 0 {
				return noise(1.6)
			}
			return noise(1)
		},
		"trimmed means": func(i int) float64 { return noise(1 + 0.3*float64(i%2)) }, // at two levels in equal parts
	} {
		source.Seed(35, 36) // a map has no order
		if x, ok := stats.NewBlocks(side(sample), side(sample), nil, 0.02); !ok || x.Centre() != want {
			t.Errorf("the centre is %q, want %q", x.Centre(), want)
		}
	}
	ticked := func() (runs [][]float64) {
		for range 6 {
			var run []float64
			for range 10 {
				run = append(run, 0.67*math.Floor(1/0.67+rng.Float64()))
			}
			runs = append(runs, run)
		}
		return runs
	}
	if x, ok := stats.NewBlocks(ticked(), ticked(), nil, 0.02); !ok || x.Centre() != "means" {
		t.Errorf("ticks: the centre is %q", x.Centre())
	}
}
