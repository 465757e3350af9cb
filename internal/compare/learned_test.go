package compare_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/compare"
)

// TestLearnedSpread: the spread that a history shows takes the place of the assumed 1 %,
// in files and in baselines of few sessions, and the result says so; what the user set,
// and what a baseline of ten sessions shows, goes before it.
func TestLearnedSpread(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	runs := noisy(rng, 8, 5, 0.010, 0.001)
	old := result("old", timed("step", runs), timed("other", runs))
	slower := func(by float64) *compare.Result {
		other := noisy(rng, 8, 5, 0.010, 0.001)
		return result("new", timed("step", scaledRuns(other, by)), timed("other", other))
	}
	learned := func(sigma float64) compare.Learned {
		return compare.Learned{From: "41 sessions of perf", Spread: map[string]float64{"step": sigma, "other": sigma}}
	}
	for _, c := range []struct {
		name    string
		by      float64
		o       compare.Options
		want    compare.Verdict
		spread  float64
		assumed bool
	}{
		{"assumed, +5 %", 1.05, compare.Options{}, compare.Inconclusive, 0.01, true},
		{"a quiet history, +5 %", 1.05, compare.Options{Learned: learned(0.002)}, compare.Regressed, 0.002, false},
		{"a quiet history, unchanged", 1, compare.Options{Learned: learned(0.002)}, compare.Pass, 0.002, false},
		{"a wild history, +12 %", 1.12, compare.Options{Learned: learned(0.08)}, compare.Inconclusive, 0.08, false},
		{"set by the user", 1.05, compare.Options{Learned: learned(0.002), SessionSpread: 0.02}, compare.Inconclusive, 0.02, true},
		{"of one metric only", 1, compare.Options{Learned: compare.Learned{Spread: map[string]float64{"step": 0.002}}}, compare.Pass, 0.01, true},
	} {
		got := files(t, old, slower(c.by), judged(c.o))
		if got.Verdict != c.want || got.SpreadAssumed != c.assumed || got.SessionSpread != c.spread {
			t.Errorf("%s: %s, spread %g assumed %v; want %s %g %v", c.name, got.Verdict, got.SessionSpread, got.SpreadAssumed, c.want, c.spread, c.assumed)
		}
		said := slices.ContainsFunc(got.Warnings, func(w gpuprof.Warning) bool { return w.Code == "session-spread-learned" })
		if want := c.o.Learned.Spread != nil && c.o.SessionSpread == 0; said != want {
			t.Errorf("%s: that the spread was learned is said: %v", c.name, said)
		}
	}
	few, err := compare.CompareStored([]*compare.Result{old}, slower(1.05), judged(compare.Options{Learned: learned(0.002)}))
	if err != nil || few.Verdict != compare.Regressed || few.SpreadAssumed {
		t.Errorf("one stored session and a history: %+v, %v", few, err)
	}
}
