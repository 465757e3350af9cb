package stats_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/gpuprof/gpuprof/internal/stats"
)

// stepRule is how history looks at a series once.
func stepRule(seed uint64) stats.StepRule {
	return stats.StepRule{Margin: math.Log(1.02), Alpha: 0.01, Draws: 199, Seed: seed}
}

// sequence is made-up logarithms of session medians: noise with correlated
// neighbours, one value in 33 that is 10 to 100 % slow, and a step.
func sequence(rng *rand.Rand, n int, noise, rho, step float64, at int) []float64 {
	out := make([]float64, n)
	e := noise * rng.NormFloat64()
	for i := range out {
		out[i] = e
		e = rho*e + math.Sqrt(1-rho*rho)*noise*rng.NormFloat64()
		if rng.Float64() < 0.03 {
			out[i] += math.Log(1.1 + 0.9*rng.Float64())
		}
		if i >= at {
			out[i] += math.Log1p(step)
		}
	}
	return out
}

// stepRates is what simulated series of 100 come to.
type stepRates struct {
	falsely       float64 // series without a change in which one is found
	five, ten     float64 // steps of 5 and 10 % at 60 that are found within five places
	exact, nearly float64 // of those of 5 % at their very place, within two places
}

func simulated(series int, noise, rho float64) (r stepRates) {
	one := 1 / float64(series)
	for i := range series {
		rng := rand.New(rand.NewPCG(uint64(i), 1))
		for _, step := range []float64{0, 0.05, 0.10} {
			found := stats.FindSteps(sequence(rng, 100, noise, rho, step, 60), stepRule(uint64(i)))
			nearest := 100
			for _, s := range found {
				nearest = min(nearest, max(s.At-60, 60-s.At))
			}
			switch {
			case step == 0 && len(found) > 0:
				r.falsely += one
			case step == 0.10 && nearest <= 5:
				r.ten += one
			case step == 0.05 && nearest <= 5:
				r.five += one
				if nearest == 0 {
					r.exact += one
				}
				if nearest <= 2 {
					r.nearly += one
				}
			}
		}
	}
	return r
}

// BenchmarkStepsTable gives the whole table of the design, 300 series a row.
func BenchmarkStepsTable(b *testing.B) {
	for range b.N {
		for _, c := range [][2]float64{{0.01, 0}, {0.02, 0.3}, {0.03, 0.3}, {0.02, 0.6}} {
			b.Logf("noise %g rho %g: %+.3f", c[0], c[1], simulated(300, c[0], c[1]))
		}
	}
}

func BenchmarkFindSteps250(b *testing.B) {
	y := sequence(rand.New(rand.NewPCG(1, 1)), 250, 0.02, 0.3, 0.05, 150)
	for b.Loop() {
		stats.FindSteps(y, stepRule(1))
	}
}

func TestStepsOneSpikeIsNoStep(t *testing.T) {
	called := 0
	for i := range 100 {
		y := sequence(rand.New(rand.NewPCG(uint64(i), 2)), 60, 0.01, 0, 0, 0)
		y[30] += math.Log(2)
		if len(stats.FindSteps(y, stepRule(uint64(i)))) > 0 {
			called++
		}
	}
	if called > 4 {
		t.Errorf("a spike in one value is called a step in %d of 100", called)
	}
}

func TestStepsExact(t *testing.T) {
	level := func(values ...float64) (out []float64) {
		for _, v := range values {
			for range 10 {
				out = append(out, v)
			}
		}
		return out
	}
	for _, c := range []struct {
		name string
		y    []float64
		at   []int
	}{
		{"nothing", nil, nil},
		{"one value", []float64{1}, nil},
		{"one level", level(1), nil},
		{"too short", []float64{0, 0, 0, 1, 1, 1, 1}, nil},
		{"one step", level(0, 0.1), []int{10}},
		{"up and down", level(0, 0, 0.1, 0.1, 0, 0, 0.2, 0.2), []int{20, 40, 60}},
		{"below the margin", level(0, 0.019), nil},
	} {
		var at []int
		for _, s := range stats.FindSteps(c.y, stepRule(1)) {
			at = append(at, s.At)
			if s.First > s.At || s.Last < s.At || !(s.P > 0) || s.P > 0.01 {
				t.Errorf("%s: %+v", c.name, s)
			}
		}
		if !slices.Equal(at, c.at) {
			t.Errorf("%s: %v, want %v", c.name, at, c.at)
		}
	}
}

// TestStepsLaws: the same values give the same steps, a shift of all values changes
// none, no level is shorter than four, and neighbouring levels differ by the margin.
func TestStepsLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 3))
		n := rapid.IntRange(0, 60).Draw(t, "n")
		y := sequence(rng, n, 0.01, 0, rapid.Float64Range(0, 0.2).Draw(t, "step"), rapid.IntRange(0, 60).Draw(t, "at"))
		found := stats.FindSteps(y, stepRule(7))
		if again := stats.FindSteps(slices.Clone(y), stepRule(7)); !slices.Equal(found, again) {
			t.Fatalf("%v, then %v", found, again)
		}
		bounds := []int{0}
		for _, s := range found {
			bounds = append(bounds, s.At)
		}
		bounds = append(bounds, n)
		for i := 1; i < len(bounds); i++ {
			if len(found) > 0 && bounds[i]-bounds[i-1] < 4 {
				t.Fatalf("a level of %d values: %v", bounds[i]-bounds[i-1], bounds)
			}
			if i > 1 {
				apart := stats.Median(y[bounds[i-1]:bounds[i]]) - stats.Median(y[bounds[i-2]:bounds[i-1]])
				if math.Abs(apart) < math.Log(1.02) {
					t.Fatalf("levels apart by %g", apart)
				}
			}
		}
	})
}
