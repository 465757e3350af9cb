package stats_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/gpuprof/gpuprof/internal/stats"
)

// known is a spread between sessions that was not estimated; far slack has no outliers.
func known(sigma float64) stats.Spread { return stats.Spread{Sigma: sigma, Nu: math.Inf(1)} }

const far = 100

func TestUnpaired(t *testing.T) {
	unpaired := func(a [][]float64, b []float64, sigma float64) (stats.Effect, bool) {
		e, rule, ok := stats.Unpaired(a, b, known(sigma), stats.Autocorrelation{}, far, 1)
		if rule != stats.PairedMean {
			t.Errorf("the rule is %s", rule)
		}
		return e, ok
	}
	a, b := []float64{0, 0.01, 0.02, 0.01, 0.03, -0.01}, []float64{0.1, 0.12, 0.11, 0.09, 0.1, 0.13}
	e, ok := unpaired([][]float64{a}, b, 0)
	// Welch's test by hand: means 0.01 and 0.108333, variances 2.0e-4 and 2.16667e-4.
	if !ok || !near(e.Theta, 0.0983333, 1e-6) || !near(e.SE, math.Sqrt((2.0e-4+2.16667e-4)/6), 1e-5) || !near(e.Nu, 9.984, 1e-3) {
		t.Errorf("%+v %v", e, ok)
	}
	with, _ := unpaired([][]float64{a}, b, 0.01)
	if !near(with.SE*with.SE, e.SE*e.SE+2e-4, 1e-9) || with.Nu <= e.Nu {
		t.Errorf("with a session term %+v", with)
	}
	if _, ok := unpaired([][]float64{{1}}, b, 0.01); ok {
		t.Error("one run has no spread")
	}
	if _, ok := unpaired([][]float64{a}, []float64{1}, 0.01); ok {
		t.Error("one run has no spread")
	}
	rapid.Check(t, func(t *rapid.T) {
		runs := rapid.SliceOfN(rapid.Float64Range(-1, 1), 2, 12)
		a, b := runs.Draw(t, "a"), runs.Draw(t, "b")
		sigma := rapid.Float64Range(0, 0.1).Draw(t, "sigma")
		e, ok := unpaired([][]float64{a}, b, sigma)
		back, ok2 := unpaired([][]float64{b}, a, sigma)
		if !ok || !ok2 || !near(back.Theta, -e.Theta, 1e-9) || !near(back.SE, e.SE, 1e-9) {
			t.Fatalf("%+v, swapped %+v", e, back)
		}
		// Sessions seen twice halve the old side's session term.
		if two, _ := unpaired([][]float64{a, a}, b, 10); !near(two.SE, 10*math.Sqrt(1.5), 1e-2) {
			t.Fatalf("two sessions: %+v", two)
		}
	})
}

// A prediction interval must contain the next session with its stated probability.
func TestPredictCoverage(t *testing.T) {
	rng := rand.New(rand.NewPCG(21, 22))
	held := 0
	const trials = 4000
	for range trials {
		x := make([]float64, 11)
		for i := range x {
			x[i] = 0.01 * rng.NormFloat64()
		}
		e, ok := predict(x[:10], x[10])
		if !ok {
			t.Fatal("no prediction")
		}
		if e.Lower(0.975) <= 0 && 0 <= e.Upper(0.975) {
			held++
		}
	}
	if share := float64(held) / trials; math.Abs(share-0.95) > 0.015 { // four standard errors
		t.Errorf("held %.3f of the time, promised 0.95", share)
	}
	rapid.Check(t, func(t *rapid.T) {
		x := rapid.SliceOfN(rapid.Float64Range(-1, 1), 2, 20).Draw(t, "x")
		next, shift := rapid.Float64Range(-1, 1).Draw(t, "next"), rapid.Float64Range(-5, 5).Draw(t, "shift")
		e, _ := predict(x, next)
		moved := make([]float64, len(x))
		for i := range x {
			moved[i] = x[i] + shift
		}
		if m, ok := predict(moved, next+shift); !ok || !near(m.Theta, e.Theta, 1e-9) || !near(m.SE, e.SE, 1e-6) {
			t.Fatalf("%+v, in another unit %+v", e, m)
		}
	})
}

// predict compares one session with others whose spread they show themselves, two equal runs each.
func predict(sessions []float64, next float64) (stats.Effect, bool) {
	var runs [][]float64
	for _, x := range sessions {
		runs = append(runs, []float64{x, x})
	}
	e, _, ok := stats.Unpaired(runs, []float64{next, next}, stats.SessionSpread(sessions), stats.Autocorrelation{}, far, 1)
	return e, ok
}

// Slow runs on either side do not carry the ranks away; the session term is in their interval,
// and runs that cannot reach the level have the mean.
func TestUnpairedOfSlowRuns(t *testing.T) {
	a := []float64{0, 0.01, 0.02, 0.4, 0.01, 0.03, -0.01, 0, 0.02, 0.01}
	b := []float64{0.1, 0.12, 0.11, 0.09, 0.6, 0.1, 0.13, 0.1, 0.11, 0.12}
	width := func(e stats.Effect) float64 { return e.Upper(0.975) - e.Lower(0.975) }
	var last float64
	for _, sigma := range []float64{0, 0.001, 0.01, 0.1} {
		e, rule, ok := stats.Unpaired([][]float64{a}, b, known(sigma), stats.Autocorrelation{}, 0.02, 0.05)
		if !ok || rule != stats.ProcessRanks || math.Abs(e.Theta-0.1) > 0.011 {
			t.Fatalf("session term %g: %s %+v", sigma, rule, e)
		}
		if w := width(e); w < 0.9*last || w < 3.9*sigma*math.Sqrt2 || w > 0.12+4.2*sigma*math.Sqrt2 {
			t.Errorf("session term %g: interval of %g after %g", sigma, w, last)
		}
		last = width(e)
		if p := e.PNotAbove(e.Lower(0.975)); math.Abs(p-0.025) > 0.02 {
			t.Errorf("session term %g: p at the lower bound is %g", sigma, p)
		}
		back := e.Negate()
		if !near(back.Upper(0.975), -e.Lower(0.975), 1e-6) {
			t.Errorf("session term %g: swapped bound %g", sigma, back.Upper(0.975))
		}
	}
	if _, rule, _ := stats.Unpaired([][]float64{a[:6]}, b[:6], known(0.01), stats.Autocorrelation{}, 0.02, 1e-4); rule != stats.PairedMean {
		t.Errorf("6 runs a side do not reach p = 0.0001 by ranks, and the rule is %s", rule)
	}
}

// Runs that walk have a correlation that independent ones show once in twenty, and they tell
// less of their mean than as many independent runs.
func TestNeighbours(t *testing.T) {
	rng := rand.New(rand.NewPCG(23, 24))
	const trials = 2000
	found := map[bool]int{}
	wider := 0
	for range trials {
		for _, walks := range []bool{false, true} {
			var lists [2][]float64
			for i := range lists {
				at := 0.0
				for range 10 {
					x := rng.NormFloat64()
					if at += x; walks {
						x = at
					}
					lists[i] = append(lists[i], x)
				}
			}
			alike := stats.Neighbours(lists[:]...)
			if alike.P > 0.05 {
				continue
			}
			found[walks]++
			alone, _, _ := stats.Unpaired(lists[:1], lists[1], known(0), stats.Autocorrelation{}, far, 1)
			alike.Found = true
			if e, _, _ := stats.Unpaired(lists[:1], lists[1], known(0), alike, far, 1); e.SE > alone.SE && e.Nu < alone.Nu {
				wider++
			}
		}
	}
	if n := found[false]; n < trials*3/100 || n > trials*7/100 {
		t.Errorf("independent runs are found alike %d times of %d", n, trials)
	}
	if n := found[true]; n < trials*85/100 || wider < n {
		t.Errorf("runs that walk are found alike %d times of %d, with a wider interval %d times", n, trials, wider)
	}
	if a := stats.Neighbours([]float64{1, 2, 3}, []float64{1, 1, 1, 1}); a.P != 1 || a.Rho != 0 {
		t.Errorf("nothing to tell, and it is %+v", a)
	}
}
