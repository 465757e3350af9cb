package compare_test

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/compare"
)

// Another implementation has other stages: which knob did it is said, and what
// the stage took is a part of the step's change. Where no knob differs, a stage
// that is not there was lost.
func TestStageOfOneSide(t *testing.T) {
	rng := rand.New(rand.NewPCG(101, 1))
	with := func() *gpuprof.Run {
		return measured(rng, 6, map[string]float64{"copy": 1e-3, "gemm": 5e-3, "gap": 1e-5})
	}
	without := func(threads string) *gpuprof.Run {
		r := measured(rng, 6, map[string]float64{"copy": 1e-9, "gemm": 5e-3, "gap": 1e-5})
		r.Stages, r.Knobs["threads"] = r.Stages[1:], threads
		return r
	}
	cut := without("4")
	cut.Status, cut.Reason = gpuprof.Partial, "interrupted"
	allow := judged(compare.Options{AllowMismatch: []string{"threads"}})
	for name, c := range map[string]struct {
		old, now *gpuprof.Run
		o        compare.Options
		stage    compare.Verdict
		all      compare.Verdict
		reason   string
	}{
		"gone":                  {with(), without("4"), compare.Options{}, compare.Gone, compare.Improved, "only on the old side, 17 % of its step; explained by knob threads 2 -> 4"},
		"added":                 {without("4"), with(), compare.Options{}, compare.Added, compare.Regressed, "only on the new side, 17 % of its step; explained by knob threads 4 -> 2"},
		"lost":                  {with(), without("2"), compare.Options{}, compare.Inconclusive, compare.Inconclusive, "does not have this metric"},
		"a gate names the knob": {with(), without("4"), judged(compare.Options{}), compare.NotComparable, compare.NotComparable, "cannot be compared: knob threads"},
		"a gate may allow it":   {with(), without("4"), allow, compare.Gone, compare.Improved, "only on the old side"},
		"cut short":             {with(), cut, compare.Options{}, compare.Inconclusive, compare.Inconclusive, "does not have this metric"},
	} {
		g := files(t, fromRun(t, c.old), fromRun(t, c.now), c.o)
		m := metric(t, g, "step/copy")
		if m.Verdict != c.stage || g.Verdict != c.all || !strings.Contains(m.Reason, c.reason) {
			t.Errorf("%s: %s %q, in all %s", name, m.Verdict, m.Reason, g.Verdict)
		}
		if c.stage != compare.Gone && c.stage != compare.Added {
			continue
		}
		if len(g.Causes) == 0 || g.Causes[0].Stage != "copy" || math.Abs(g.Causes[0].ShareOfChange-1) > 0.1 || !strings.HasPrefix(g.Causes[0].ExplainedBy, "knob threads") {
			t.Errorf("%s: causes %+v", name, g.Causes)
		}
		if known, other := float64(m.Old), float64(m.New); (c.stage == compare.Gone) != math.IsNaN(other) || (c.stage == compare.Added) != math.IsNaN(known) {
			t.Errorf("%s: %v to %v", name, known, other)
		}
	}
}

// guess is a count that was taken for exact because it repeated.
func guess(values ...float64) compare.MetricData {
	m := counted("allocs", values...)
	m.Runs = nil
	for _, v := range values {
		m.Runs = append(m.Runs, []float64{v})
		m.Exact = m.Exact && v == values[0]
	}
	m.Guessed = m.Exact
	return m
}

// A count that repeats on one side and not on the other is no exact one; one
// that repeats on both is.
func TestGuessedCounts(t *testing.T) {
	for name, c := range map[string]struct {
		old, now compare.MetricData
		want     compare.Verdict
		exact    bool
	}{
		"steady":           {guess(41, 41, 41, 41, 41, 41), guess(41, 41, 41, 41, 41, 41), compare.Same, true},
		"one more":         {guess(41, 41, 41, 41, 41, 41), guess(42, 42, 42, 42, 42, 42), compare.Regressed, true},
		"new is unsteady":  {guess(4100, 4100, 4100, 4100, 4100, 4100), guess(4100, 4101, 4100, 4099, 4100, 4101), compare.Same, false},
		"old is unsteady":  {guess(4100, 4101, 4100, 4099, 4100, 4101), guess(4100, 4100, 4100, 4100, 4100, 4100), compare.Same, false},
		"unsteady, grown":  {guess(41, 41, 41, 41, 41, 41), guess(60, 61, 60, 60, 61, 60), compare.Regressed, false},
		"declared is kept": {counted("allocs", 41), guess(41, 42, 41, 41, 41, 41), compare.NotComparable, true},
	} {
		g := files(t, result("old", c.old), result("new", c.now), judged(compare.Options{}))
		if m := g.Metrics[0]; m.Verdict != c.want || m.Exact != c.exact {
			t.Errorf("%s: %s, exact %v: %q", name, m.Verdict, m.Exact, m.Reason)
		}
	}
	// In a gate every process shows the count once: it takes all of them to see
	// that it does not repeat.
	count := func(of func(k int) float64) func(int) []compare.MetricData {
		return func(k int) []compare.MetricData { return []compare.MetricData{guess(of(k))} }
	}
	steady, odd := count(func(int) float64 { return 4100 }), count(func(k int) float64 { return 4100 + float64(k%2) })
	c := stage1(t, compare.NewGate(compare.Options{}), blocksOf(compare.Stage1Blocks, steady, odd))
	if m := c.Metrics[0]; m.Verdict != compare.Same || m.Exact {
		t.Errorf("a gate: %s, exact %v: %q", m.Verdict, m.Exact, m.Reason)
	}
}

// What is inconclusive for want of runs says how the program that measured gets
// them.
func TestNextIsOfTheTool(t *testing.T) {
	rng := rand.New(rand.NewPCG(102, 1))
	for tool, want := range map[string]string{
		"gpuprof": "--runs 6", "go-bench": "-count 6", "hyperfine": "hyperfine --runs 6", "nvbench": "cat 1.json 2.json", "pytest-benchmark": "gpuprof gate --against",
	} {
		r, now := result("x", timed("a", noisy(rng, 2, 10, 1, 0.002))), result("y", timed("a", noisy(rng, 2, 10, 1, 0.002)))
		r.Tool, now.Tool = tool, tool
		if g := files(t, r, now, judged(compare.Options{})); g.ExitCode != 3 || !strings.Contains(strings.Join(g.Next, "\n"), want) {
			t.Errorf("%s: exit %d, next %v", tool, g.ExitCode, g.Next)
		}
	}
	a := noisy(rng, 6, 10, 1, 0.002)
	if g := files(t, result("x", timed("./old", a)), result("y", timed("./new", a)), judged(compare.Options{})); g.ExitCode != 3 || !strings.Contains(strings.Join(g.Next, "\n"), "same names on both sides") {
		t.Errorf("no metric in common: exit %d, next %v", g.ExitCode, g.Next)
	}
	wild := func() *compare.Result { return result("x", timed("a", noisy(rng, 6, 10, 1, 0.1))) }
	if g := files(t, wild(), wild(), judged(compare.Options{})); g.ExitCode != 3 || !strings.Contains(strings.Join(g.Next, "\n"), "besides, most of the noise is between") {
		t.Errorf("a wild machine: exit %d, next %v", g.ExitCode, g.Next)
	}
	one := blocksOf(1, process(rng, 1, 0.003), process(rng, 1, 0.003))
	if c := stage1(t, compare.NewGate(compare.Options{}), one); !strings.Contains(strings.Join(c.Next, "\n"), "--budget") {
		t.Errorf("a gate of one block: next %v", c.Next)
	}
}

// What was counted until a result broke off can break a budget, and not keep it.
func TestBudgetOfAPartialResult(t *testing.T) {
	r := result("trace", counted("sync_points", 3), counted("launches", 5))
	r.Status, r.Reason = gpuprof.Partial, "the trace ends early"
	for limit, want := range map[float64]int{2: 1, 3: 3} {
		c, err := compare.CheckBudgets(r, []compare.Budget{{Name: "sync_points", Max: limit}}, compare.Options{})
		if err != nil || c.ExitCode != want {
			t.Errorf("at most %g: %v, exit %d", limit, err, c.ExitCode)
		}
		if want == 3 && (!strings.Contains(c.Budgets[0].Reason, "3 so far, but the result is not whole: the trace ends early") || len(c.Next) == 0) {
			t.Errorf("%+v, next %v", c.Budgets[0], c.Next)
		}
	}
}

// Sides in different units are not comparable, and no option makes that a pass.
func TestNotComparable(t *testing.T) {
	seconds := compare.MetricData{Metric: compare.Metric{Name: "x", Unit: "s"}, Runs: [][]float64{{1}, {1}, {1}, {1}, {1}, {1}}}
	bytes := seconds
	bytes.Unit = "B"
	for inconclusive, exit := range map[string]int{"": 3, "pass": 3, "fail": 1} {
		g := files(t, result("old", seconds), result("new", bytes), judged(compare.Options{Inconclusive: inconclusive}))
		if g.Verdict != compare.NotComparable || g.Metrics[0].Verdict != compare.NotComparable || g.ExitCode != exit {
			t.Errorf("--inconclusive %q: %s, exit %d, want not comparable and %d", inconclusive, g.Verdict, g.ExitCode, exit)
		}
	}
}
