//go:build !race

// It simulates gates in one goroutine, by the models of the files that the race detector leaves out.

package compare_test

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof/internal/compare"
)

// Processes that take one of two times are named so, with both times, and no verdict blames noise.
func TestTwoModesAreNamed(t *testing.T) {
	m := machine{shift: 0.005, sample: 0.002, samples: 1, modes: 0.5}
	rng := rand.New(rand.NewPCG(62, 1))
	g := files(t, m.run(20, 0, rng), m.run(20, 0, rng), judged(compare.Options{}))
	why, next := g.Metrics[0].Reason, strings.Join(g.Next, " ")
	if g.Verdict != compare.Inconclusive || !strings.Contains(why, "two modes, 1") || !strings.Contains(why, "1.3") || !strings.Contains(next, "two modes") {
		t.Errorf("%s %q, next %q", g.Verdict, why, next)
	}
}

// The ratio of a row is the ratio of the columns next to it, whatever rule estimated it.
func TestColumnsHaveTheRatio(t *testing.T) {
	rules := map[string]bool{}
	for _, m := range noiseModels() {
		rng := rand.New(rand.NewPCG(63, 1))
		blocks := m.stage(compare.Stage1Blocks, []float64{0.05}, nil, rng)
		gate, err := compare.NewGate(compare.Options{}).Stage1(blocks)
		if err != nil {
			t.Fatal(err)
		}
		for _, g := range []*compare.Comparison{gate, files(t, m.run(10, 0, rng), m.run(10, 0.05, rng), compare.Options{})} {
			r := g.Metrics[0]
			rules[r.Estimator] = true
			if got := float64(r.New / r.Old); math.Abs(got-float64(r.Ratio)) > 1e-9*got || !(float64(r.CI95[0]) <= got && got <= float64(r.CI95[1])) {
				t.Errorf("%s, %s: %g -> %g, x%g of %v", m.name, r.Estimator, r.Old, r.New, r.Ratio, r.CI95)
			}
		}
	}
	if len(rules) < 3 {
		t.Errorf("only the rules %v were met", rules)
	}
}
