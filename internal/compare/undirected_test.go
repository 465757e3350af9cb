package compare_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof/internal/compare"
)

// A figure without a direction is shown with both values, and takes no part in the verdict, however it changes. Where
// it is missing on one side, or where there is nothing else, there is no pass.
func TestUndirectedIsNotJudged(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	shown := func(value float64) compare.MetricData {
		m := timed("accuracy", noisy(rng, 8, 1, value, 0.001))
		m.Unit, m.Undirected = "points", true
		return m
	}
	same := func() compare.MetricData { return timed("time", noisy(rng, 8, 10, 1, 0.001)) }
	slower := timed("time", noisy(rng, 8, 10, 1.5, 0.001))
	for name, c := range map[string]struct {
		old, now []compare.MetricData
		want     compare.Verdict
	}{
		"another value":    {[]compare.MetricData{same(), shown(1)}, []compare.MetricData{same(), shown(9)}, compare.Pass},
		"something slower": {[]compare.MetricData{same(), shown(1)}, []compare.MetricData{slower, shown(1)}, compare.Regressed},
		"gone":             {[]compare.MetricData{same(), shown(1)}, []compare.MetricData{same()}, compare.Inconclusive},
		"nothing else":     {[]compare.MetricData{shown(1)}, []compare.MetricData{shown(1)}, compare.Inconclusive},
	} {
		g := files(t, result("old", c.old...), result("new", c.now...), compare.Options{})
		if g.Verdict != c.want {
			t.Errorf("%s: %s, want %s", name, g.Verdict, c.want)
		}
		if len(c.now) == len(c.old) {
			m := metric(t, g, "accuracy")
			if m.Verdict != compare.Explains || !strings.Contains(m.Reason, "more or less of it is better") || !(m.Ratio > 0) {
				t.Errorf("%s: %+v", name, m)
			}
		}
		if next := strings.Join(g.Next, "\n"); strings.Contains(next, "no metric of these files has one") != (name == "nothing else") {
			t.Errorf("%s: next %s", name, next)
		}
	}
	g := stage1(t, compare.NewGate(compare.Options{}), blocksOf(compare.Stage1Blocks,
		func(int) []compare.MetricData { return []compare.MetricData{same(), shown(1)} },
		func(int) []compare.MetricData { return []compare.MetricData{same(), shown(9)} }))
	if m := metric(t, g, "accuracy"); m.Verdict != compare.Explains || g.Verdict != compare.Pass {
		t.Errorf("a gate: %s, %+v", g.Verdict, m)
	}
}
