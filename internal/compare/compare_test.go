package compare_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/compare"
)

// noisy is n runs of samples around a value, a process shift of sigma each.
func noisy(rng *rand.Rand, n, samples int, value, sigma float64) [][]float64 {
	out := make([][]float64, n)
	for i := range out {
		shift := sigma * rng.NormFloat64()
		for range samples {
			out[i] = append(out[i], value*math.Exp(shift+sigma*rng.NormFloat64()))
		}
	}
	return out
}

func result(source string, metrics ...compare.MetricData) *compare.Result {
	return &compare.Result{Source: source, Tool: "test", Status: gpuprof.Complete, Metrics: metrics}
}

func timed(name string, runs [][]float64) compare.MetricData {
	return compare.MetricData{Metric: compare.Metric{Name: name, Unit: "s"}, Runs: runs}
}

func counted(name string, values ...float64) compare.MetricData {
	return compare.MetricData{Metric: compare.Metric{Name: name, Unit: "count", Exact: true}, Runs: [][]float64{values}}
}

func files(t *testing.T, old, now *compare.Result, o compare.Options) *compare.Comparison {
	t.Helper()
	c, err := compare.Compare(old, now, o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// judged is the gate on two files: a regression exits 1.
func judged(o compare.Options) compare.Options { o.Judge = true; return o }

func metric(t *testing.T, c *compare.Comparison, name string) compare.MetricResult {
	t.Helper()
	for _, m := range c.Metrics {
		if m.Name == name {
			return m
		}
	}
	t.Fatalf("no metric %s in %v", name, c.Metrics)
	return compare.MetricResult{}
}

func scaledRuns(runs [][]float64, by float64) [][]float64 {
	out := make([][]float64, len(runs))
	for i, r := range runs {
		for _, v := range r {
			out[i] = append(out[i], by*v)
		}
	}
	return out
}

// Two sessions of one program differ by a shift that neither shows. An
// unchanged program must mostly pass all the same and never fail, +12 % be
// found, +5 % be left open. The session term assumed, 1 % a side, leaves an
// estimate of up to 1.9 % to pass: that is 90 % of those that have an error of
// 0.7 % a session and 1 % a run, less the one in twenty whose runs seem alike by chance.
func TestTwoFiles(t *testing.T) {
	const trials = 400
	count := func(change float64) map[compare.Verdict]int {
		rng := rand.New(rand.NewPCG(51, uint64(1e6*change)))
		got := map[compare.Verdict]int{}
		for range trials {
			session := func() float64 { return math.Exp(0.007 * rng.NormFloat64()) }
			old := result("old", timed("x", noisy(rng, 6, 20, session(), 0.01)))
			now := result("new", timed("x", noisy(rng, 6, 20, change*session(), 0.01)))
			got[files(t, old, now, judged(compare.Options{})).Verdict]++
		}
		t.Logf("%+.0f %%: %v of %d", 100*(change-1), got, trials)
		return got
	}
	if same := count(1); same[compare.Pass] < trials*82/100 || same[compare.Regressed] > 0 {
		t.Errorf("unchanged: %v", same)
	}
	if more := count(1.05); more[compare.Inconclusive] < trials*90/100 {
		t.Errorf("+5 %%: %v", more)
	}
	if more := count(1.12); more[compare.Regressed] < trials*93/100 {
		t.Errorf("+12 %%: %v", more)
	}
	if less := count(1 / 1.12); less[compare.Improved] < trials*93/100 {
		t.Errorf("-11 %%: %v", less)
	}
}

// The same without any noise between the sessions, where it is all in the
// assumption.
func TestTwoQuietFiles(t *testing.T) {
	for change, want := range map[float64]compare.Verdict{1: compare.Pass, 1.05: compare.Inconclusive, 1.12: compare.Regressed, 0.88: compare.Improved} {
		rng := rand.New(rand.NewPCG(52, 1))
		a := noisy(rng, 6, 10, 1, 0.001)
		c := files(t, result("old", timed("x", a)), result("new", timed("x", scaledRuns(a, change))), judged(compare.Options{}))
		if c.Verdict != want || !c.SpreadAssumed || c.SessionSpread != 0.01 {
			t.Errorf("x%g: %s, want %s (%+v)", change, c.Verdict, want, c.Metrics[0])
		}
	}
}

func TestStoredBaseline(t *testing.T) {
	rng := rand.New(rand.NewPCG(53, 1))
	sessions := func(n int, sigma float64) []*compare.Result {
		out := make([]*compare.Result, n)
		for i := range out {
			out[i] = result("baseline", timed("x", noisy(rng, 6, 10, math.Exp(sigma*rng.NormFloat64()), 0.003)), counted("launches", 12))
		}
		return out
	}
	now := func(change float64, launches float64) *compare.Result {
		return result("new", timed("x", noisy(rng, 6, 10, change, 0.003)), counted("launches", launches))
	}
	stored := func(s []*compare.Result, n *compare.Result, o compare.Options) *compare.Comparison {
		c, err := compare.CompareStored(s, n, judged(o))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	for _, c := range []struct {
		name     string
		sessions int
		sigma    float64
		change   float64
		spread   float64
		want     compare.Verdict
		assumed  bool
	}{
		{"one session, unchanged", 1, 0, 1, 0, compare.Pass, true},
		{"one session, +12 %", 1, 0, 1.12, 0, compare.Regressed, true},
		{"one session, +5 %", 1, 0, 1.05, 0, compare.Inconclusive, true},
		{"one session on a wild machine, +12 %", 1, 0, 1.12, 0.08, compare.Inconclusive, true},
		{"nine sessions", 9, 0.004, 1, 0, compare.Pass, true},
		{"twelve sessions, unchanged", 12, 0.004, 1, 0, compare.Pass, false},
		{"twelve sessions, +5 %", 12, 0.004, 1.05, 0, compare.Regressed, false},
		{"twelve wild sessions, +5 %", 12, 0.05, 1.05, 0, compare.Inconclusive, false},
		{"twelve sessions, -10 %", 12, 0.004, 0.9, 0, compare.Improved, false},
	} {
		got := stored(sessions(c.sessions, c.sigma), now(c.change, 12), compare.Options{SessionSpread: c.spread})
		if got.Verdict != c.want || got.SpreadAssumed != c.assumed {
			t.Errorf("%s: %s assumed %v, want %s (%+v)", c.name, got.Verdict, got.SpreadAssumed, c.want, got.Metrics[0])
		}
		said := slices.ContainsFunc(got.Warnings, func(w gpuprof.Warning) bool { return w.Code == "session-spread-assumed" })
		if said != c.assumed {
			t.Errorf("%s: that the spread was assumed is said: %v", c.name, said)
		}
	}
	s := sessions(3, 0)
	s[0].Metrics[1] = counted("launches", 99) // an older program
	if got := stored(s, now(1, 12), compare.Options{}); metric(t, got, "launches").Verdict != compare.Same {
		t.Error("counters compare with the latest session")
	}
	if got := stored(s, now(1, 13), compare.Options{}); got.ExitCode != 1 {
		t.Error("one launch more is a regression")
	}
	if _, err := compare.CompareStored(nil, now(1, 1), compare.Options{}); !errors.Is(err, gpuprof.ErrInput) {
		t.Errorf("no session: %v", err)
	}
}

// Whatever is wrong with the figures has a verdict and a reason.
func TestUnusableFigures(t *testing.T) {
	rng := rand.New(rand.NewPCG(54, 1))
	good := noisy(rng, 6, 10, 1, 0.002)
	with := func(change func([][]float64)) [][]float64 {
		out := scaledRuns(good, 1)
		change(out)
		return out
	}
	zeros := make([][]float64, 6)
	for i := range zeros {
		zeros[i] = make([]float64, 10)
	}
	for name, c := range map[string]struct {
		old, now [][]float64
		want     compare.Verdict
		reason   string
	}{
		"not a number":  {good, with(func(r [][]float64) { r[2][3] = math.NaN() }), compare.Inconclusive, "sample 4 of run 3 of the new side is NaN"},
		"infinite":      {with(func(r [][]float64) { r[0][0] = math.Inf(1) }), good, compare.Inconclusive, "sample 1 of run 1 of the old side is +Inf"},
		"a zero":        {good, with(func(r [][]float64) { r[1][1] = 0 }), compare.Inconclusive, "zero"},
		"zeros":         {zeros, zeros, compare.Same, "zero on both sides"},
		"zeros in new":  {good, zeros, compare.Inconclusive, "zero"},
		"negative":      {good, with(func(r [][]float64) { r[1][1] = -1 }), compare.Inconclusive, "negative"},
		"empty":         {good, [][]float64{}, compare.Inconclusive, "no samples"},
		"empty runs":    {good, [][]float64{{}, {}}, compare.Inconclusive, "no samples"},
		"five runs":     {good, good[:5], compare.Inconclusive, "5 on the new one"},
		"one long run":  {noisy(rng, 1, 30, 1, 0.001), noisy(rng, 1, 30, 2, 0.001), compare.Inconclusive, "1 run on the old side"},
		"no noise":      {[][]float64{{1}, {1}, {1}, {1}, {1}, {1}}, [][]float64{{1}, {1}, {1}, {1}, {1}, {1}}, compare.Same, ""},
		"no noise, +30": {[][]float64{{1}, {1}, {1}, {1}, {1}, {1}}, [][]float64{{1.3}, {1.3}, {1.3}, {1.3}, {1.3}, {1.3}}, compare.Regressed, ""},
		"tiny values":   {scaledRuns(good, 1e-300), scaledRuns(good, 1e-300), compare.Same, ""},
	} {
		g := files(t, result("old", timed("x", c.old)), result("new", timed("x", c.now)), judged(compare.Options{}))
		m := metric(t, g, "x")
		if m.Verdict != c.want || !strings.Contains(m.Reason, c.reason) {
			t.Errorf("%s: %s %q, want %s %q", name, m.Verdict, m.Reason, c.want, c.reason)
		}
		if c.want == compare.Inconclusive && (g.ExitCode != 3 || len(g.Next) == 0) {
			t.Errorf("%s: exit %d, next %v", name, g.ExitCode, g.Next)
		}
		if _, err := json.Marshal(g); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Runs that scatter by much less than the sessions are assumed to are decided by that spread:
// Student's t then has more degrees of freedom than a library may bear.
func TestPreciseRuns(t *testing.T) {
	rng := rand.New(rand.NewPCG(54, 1))
	for _, spread := range []float64{0, 1e-300, 1e-15, 1e-9, 1e-6, 1e-4} {
		for change, want := range map[float64]compare.Verdict{1.15: compare.Regressed, 0.85: compare.Improved, 1.000001: compare.Same, 1.05: compare.Inconclusive} {
			old, now := noisy(rng, 10, 1, 6e8, spread), noisy(rng, 10, 1, 6e8*change, spread)
			m := metric(t, files(t, result("old", timed("x", old)), result("new", timed("x", now)), judged(compare.Options{})), "x")
			lo, hi := float64(m.CI95[0]), float64(m.CI95[1])
			if m.Verdict != want || !(lo > change*0.96 && lo < change && hi > change && hi < change*1.04) {
				t.Errorf("spread %g, times %g: %s, 95 %% %g to %g, %s", spread, change, m.Verdict, lo, hi, m.Reason)
			}
		}
	}
}

// Too few runs for a verdict still get an interval that allows for the sessions.
func TestFewRunsAllowForSessions(t *testing.T) {
	rng := rand.New(rand.NewPCG(56, 1))
	for _, n := range []int{2, 3, 5} {
		missed := 0
		const trials = 200
		for range trials {
			side := func() *compare.Result {
				return result("side", timed("x", noisy(rng, n, 1, 100*math.Exp(0.01*rng.NormFloat64()), 1e-3)))
			}
			m := metric(t, files(t, side(), side(), judged(compare.Options{})), "x")
			if lo, hi := float64(m.CI95[0]), float64(m.CI95[1]); lo > 1 || hi < 1 {
				missed++
			}
		}
		if missed > trials/10 {
			t.Errorf("%d runs a side: %d of %d intervals miss a ratio of 1", n, missed, trials)
		}
	}
}

func TestMissingMetric(t *testing.T) {
	rng := rand.New(rand.NewPCG(55, 1))
	a, b := timed("a", noisy(rng, 6, 10, 1, 0.002)), timed("b", noisy(rng, 6, 10, 1, 0.002))
	cut, failed := result("old", a), result("old", a)
	cut.Status, cut.Reason = gpuprof.Partial, "interrupted"
	failed.Failed = []string{"b: exit status 1"}
	for name, c := range map[string]struct {
		old, now *compare.Result
		want     compare.Verdict
		reason   string
		exit     int
	}{
		"removed":                     {result("old", a, b), result("new", a), compare.Inconclusive, "the new side does not have", 3},
		"added":                       {result("old", a), result("new", a, b), compare.Added, "only on the new side", 0},
		"added as a counter":          {result("old", a), result("new", a, counted("b", 3)), compare.Added, "only on the new side", 0},
		"added without samples":       {result("old", a), result("new", a, timed("b", nil)), compare.Inconclusive, "the old side does not have", 3},
		"the old side was cut short":  {cut, result("new", a, b), compare.Inconclusive, "the old side does not have", 3},
		"it failed on the old side":   {failed, result("new", a, b), compare.Inconclusive, "the old side does not have", 4},
		"nothing in common":           {result("old", timed("c", a.Runs)), result("new", b), compare.Inconclusive, "the old side does not have", 3},
		"another metric is regressed": {result("old", timed("a", scaledRuns(a.Runs, 0.5))), result("new", a, b), compare.Added, "only on the new side", 1},
	} {
		g := files(t, c.old, c.now, judged(compare.Options{}))
		if m := metric(t, g, "b"); m.Verdict != c.want || !strings.Contains(m.Reason, c.reason) || g.ExitCode != c.exit {
			t.Errorf("%s: %s %q, exit %d", name, m.Verdict, m.Reason, g.ExitCode)
		}
		if name == "removed" && metric(t, g, "a").Verdict != compare.Same {
			t.Error("the other metric has its verdict all the same")
		}
	}
	gate := compare.NewGate(compare.Options{})
	blocks := blocksOf(6, func(int) []compare.MetricData { return []compare.MetricData{timed("a", noisy(rng, 1, 10, 1, 0.002))} },
		func(int) []compare.MetricData {
			return []compare.MetricData{timed("a", noisy(rng, 1, 10, 1, 0.002)), timed("b", noisy(rng, 1, 10, 1, 0.002))}
		})
	if g := stage1(t, gate, blocks); g.Verdict != compare.Pass || metric(t, g, "b").Verdict != compare.Added {
		t.Errorf("a gate with a metric that was added: %s, %+v", g.Verdict, metric(t, g, "b"))
	}
	if g := files(t, result("old", a, b), result("new", a), judged(compare.Options{Only: []string{"a"}})); g.ExitCode != 0 || len(g.Metrics) != 1 {
		t.Errorf("left out: exit %d of %d metrics", g.ExitCode, len(g.Metrics))
	}
	other := b
	other.Unit = "B"
	if g := files(t, result("old", b), result("new", other), judged(compare.Options{})); g.ExitCode != 3 || !strings.Contains(g.Metrics[0].Reason, `"s"`) {
		t.Errorf("another unit: %+v", g.Metrics[0])
	}
	for _, c := range [][2]*compare.Result{{nil, result("new", a)}, {result("old"), result("new", a)}} {
		if _, err := compare.Compare(c[0], c[1], compare.Options{}); !errors.Is(err, gpuprof.ErrInput) {
			t.Errorf("nothing to compare: %v", err)
		}
	}
}

func TestMismatchIsNamed(t *testing.T) {
	rng := rand.New(rand.NewPCG(56, 1))
	runs := noisy(rng, 6, 10, 1, 0.002)
	side := func(change func(*compare.Result)) *compare.Result {
		r := result("file", timed("x", runs), counted("launches", 3))
		r.Env = map[string]string{"driver": "550.1", "device": "H200", "preset": "deepaw"}
		r.Facts = map[string]string{"governor": "powersave"}
		r.Code = map[string]string{"commit": "aaa"}
		r.Knobs = map[string]compare.Knob{"hidden": {Value: "64", Model: true}, "threads": {Value: "2"}}
		if change != nil {
			change(r)
		}
		return r
	}
	old := side(nil)
	for name, c := range map[string]struct {
		change             func(*compare.Result)
		field              string
		hard               bool // in compare
		exitFiles, exitAsG int
	}{
		"nothing":     {nil, "", false, 0, 0},
		"driver":      {func(r *compare.Result) { r.Env["driver"] = "560.2" }, "driver", true, 3, 3},
		"driver gone": {func(r *compare.Result) { delete(r.Env, "driver") }, "driver", true, 3, 3},
		"model knob":  {func(r *compare.Result) { r.Knobs["hidden"] = compare.Knob{Value: "128", Model: true} }, "hidden", true, 3, 3},
		"tuning knob": {func(r *compare.Result) { r.Knobs["threads"] = compare.Knob{Value: "4"} }, "threads", false, 0, 3},
		"governor":    {func(r *compare.Result) { r.Facts["governor"] = "performance" }, "governor", false, 0, 0},
		"commit":      {func(r *compare.Result) { r.Code["commit"] = "bbb" }, "commit", false, 0, 0},
	} {
		g := files(t, old, side(c.change), compare.Options{})
		j := files(t, old, side(c.change), judged(compare.Options{}))
		if g.ExitCode != c.exitFiles || j.ExitCode != c.exitAsG {
			t.Errorf("%s: compare exits %d, gate %d; want %d and %d", name, g.ExitCode, j.ExitCode, c.exitFiles, c.exitAsG)
		}
		if c.field == "" {
			if len(g.Differences) != 0 {
				t.Errorf("%s: %v", name, g.Differences)
			}
			continue
		}
		if len(g.Differences) != 1 || g.Differences[0].Field != c.field || g.Differences[0].Hard != c.hard {
			t.Errorf("%s: %+v", name, g.Differences)
		}
		if j.ExitCode != 3 {
			continue
		}
		for _, m := range j.Metrics {
			if m.Verdict != compare.NotComparable || !strings.Contains(m.Reason, c.field) {
				t.Errorf("%s: %s %s %q", name, m.Name, m.Verdict, m.Reason)
			}
		}
		if !strings.Contains(strings.Join(j.Next, "\n"), "--allow-mismatch "+c.field) {
			t.Errorf("%s: next %v", name, j.Next)
		}
		allowed := files(t, old, side(c.change), judged(compare.Options{AllowMismatch: []string{c.field}}))
		if allowed.ExitCode != 0 || !slices.ContainsFunc(allowed.Warnings, func(w gpuprof.Warning) bool { return strings.Contains(w.Text, c.field) }) {
			t.Errorf("%s allowed: exit %d, warnings %v", name, allowed.ExitCode, allowed.Warnings)
		}
	}
}

func TestExitCodes(t *testing.T) {
	rng := rand.New(rand.NewPCG(57, 1))
	good, slow := noisy(rng, 6, 10, 1, 0.002), noisy(rng, 6, 10, 1.5, 0.002)
	few := good[:2]
	for name, c := range map[string]struct {
		metrics []compare.MetricData // of the new side; the old side is good
		failed  bool
		o       compare.Options
		want    int
		verdict compare.Verdict
	}{
		"pass":                            {[]compare.MetricData{timed("a", good), timed("b", good)}, false, judged(compare.Options{}), 0, compare.Pass},
		"regressed":                       {[]compare.MetricData{timed("a", good), timed("b", slow)}, false, judged(compare.Options{}), 1, compare.Regressed},
		"compare describes":               {[]compare.MetricData{timed("a", good), timed("b", slow)}, false, compare.Options{}, 0, compare.Regressed},
		"inconclusive":                    {[]compare.MetricData{timed("a", good), timed("b", few)}, false, judged(compare.Options{}), 3, compare.Inconclusive},
		"inconclusive as a pass":          {[]compare.MetricData{timed("a", good), timed("b", few)}, false, judged(compare.Options{Inconclusive: "pass"}), 0, compare.Inconclusive},
		"inconclusive as a failure":       {[]compare.MetricData{timed("a", good), timed("b", few)}, false, judged(compare.Options{Inconclusive: "fail"}), 1, compare.Inconclusive},
		"regressed before inconclusive":   {[]compare.MetricData{timed("a", slow), timed("b", few)}, false, judged(compare.Options{}), 1, compare.Regressed},
		"improved":                        {[]compare.MetricData{timed("a", scaledRuns(good, 0.5)), timed("b", good)}, false, judged(compare.Options{}), 0, compare.Improved},
		"failed before regressed":         {[]compare.MetricData{timed("a", slow), timed("b", good)}, true, judged(compare.Options{}), 4, compare.Regressed},
		"failed, the rest passes":         {[]compare.MetricData{timed("a", good), timed("b", good)}, true, judged(compare.Options{}), 4, compare.Inconclusive},
		"failed counts despite a mapping": {[]compare.MetricData{timed("a", good), timed("b", good)}, true, judged(compare.Options{Inconclusive: "pass"}), 4, compare.Inconclusive},
	} {
		now := result("new", c.metrics...)
		if c.failed {
			now.Failed = []string{"c: crashed"}
		}
		g := files(t, result("old", timed("a", good), timed("b", good)), now, c.o)
		if g.ExitCode != c.want || g.Verdict != c.verdict {
			t.Errorf("%s: exit %d %s, want %d %s", name, g.ExitCode, g.Verdict, c.want, c.verdict)
		}
	}
	old, now := result("old"), result("new")
	for i := range 256 {
		name := fmt.Sprintf("m%d", i)
		old.Metrics, now.Metrics = append(old.Metrics, timed(name, good)), append(now.Metrics, timed(name, scaledRuns(good, 1.2)))
	}
	if g := files(t, old, now, judged(compare.Options{})); g.ExitCode != 1 || g.Count(compare.Regressed) != 256 {
		t.Errorf("256 regressions: exit %d, %d found", g.ExitCode, g.Count(compare.Regressed))
	}
	for _, status := range []gpuprof.Status{gpuprof.Partial, gpuprof.Invalid} {
		part := result("new", timed("a", slow))
		part.Status, part.Reason = status, "interrupted"
		if g := files(t, result("old", timed("a", good)), part, judged(compare.Options{})); g.ExitCode != 3 || !strings.Contains(g.Metrics[0].Reason, "interrupted") {
			t.Errorf("%s: exit %d %q", status, g.ExitCode, g.Metrics[0].Reason)
		}
	}
}

func TestOptions(t *testing.T) {
	rng := rand.New(rand.NewPCG(58, 1))
	a := noisy(rng, 6, 10, 1, 0.002)
	old := result("old", timed("step", a), timed("step/gemm", a), timed("x[1]", a))
	now := result("new", timed("step", scaledRuns(a, 1.15)), timed("step/gemm", scaledRuns(a, 1.15)), timed("x[1]", scaledRuns(a, 1.15)))
	regressed := func(o compare.Options) string {
		var out []string
		for _, m := range files(t, old, now, judged(o)).Metrics {
			if m.Verdict == compare.Regressed {
				out = append(out, m.Name)
			}
		}
		return strings.Join(out, " ")
	}
	for _, c := range []struct {
		o    compare.Options
		want string
	}{
		{compare.Options{}, "step step/gemm x[1]"},
		{compare.Options{Margins: compare.Margins{Threshold: 0.5}}, ""},
		{compare.Options{Metrics: []compare.MarginsFor{{"step*", compare.Margins{Threshold: 0.5}}}}, "x[1]"},
		{compare.Options{Metrics: []compare.MarginsFor{{"*", compare.Margins{Threshold: 0.5}}, {"step", compare.Margins{Threshold: 0.05}}}}, "step"},
		{compare.Options{Only: []string{"step/*"}}, "step/gemm"},
		{compare.Options{Only: []string{"*gemm", "x[1]"}}, "step/gemm x[1]"},
		{compare.Options{Only: []string{"s*/g*m"}}, "step/gemm"},
	} {
		if got := regressed(c.o); got != c.want {
			t.Errorf("%+v: %q, want %q", c.o, got, c.want)
		}
	}
	for name, o := range map[string]compare.Options{
		"negative threshold": {Margins: compare.Margins{Threshold: -0.1}},
		"no threshold":       {Metrics: []compare.MarginsFor{{"step", compare.Margins{}}}},
		"not a number":       {Margins: compare.Margins{Threshold: math.NaN()}},
		"equivalence":        {Margins: compare.Margins{Threshold: 0.05, Equivalence: 0.05}},
		"unknown metric":     {Only: []string{"stpe"}},
		"unknown pattern":    {Metrics: []compare.MarginsFor{{"z*", compare.Margins{Threshold: 0.1}}}},
		"inconclusive":       {Inconclusive: "maybe"},
		"spread":             {SessionSpread: 2},
	} {
		if _, err := compare.Compare(old, now, o); !errors.Is(err, gpuprof.ErrUsage) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := compare.Compare(old, now, compare.Options{Only: []string{"stpe"}}); !strings.Contains(err.Error(), `"step"`) {
		t.Errorf("no suggestion: %v", err)
	}
}

func TestFilesProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		change, sigma := rapid.Float64Range(0.8, 1.25).Draw(t, "change"), rapid.Float64Range(0.001, 0.03).Draw(t, "sigma")
		a, b := noisy(rng, 7, 9, 1, sigma), noisy(rng, 6, 11, change, sigma)
		run := func(x, y [][]float64) compare.MetricResult {
			c, err := compare.Compare(result("old", timed("x", x)), result("new", timed("x", y)), judged(compare.Options{}))
			if err != nil {
				t.Fatal(err)
			}
			return c.Metrics[0]
		}
		m, back, ms := run(a, b), run(b, a), run(scaledRuns(a, 1000), scaledRuns(b, 1000))
		if math.Abs(float64(m.Ratio*back.Ratio)-1) > 1e-9 {
			t.Fatalf("swapped: %v and %v", m.Ratio, back.Ratio)
		}
		if (m.Verdict == compare.Regressed) != (back.Verdict == compare.Improved) || (m.Verdict == compare.Improved) != (back.Verdict == compare.Regressed) {
			t.Fatalf("swapped: %s and %s", m.Verdict, back.Verdict)
		}
		if ms.Verdict != m.Verdict || math.Abs(float64(ms.Ratio/m.Ratio)-1) > 1e-9 {
			t.Fatalf("in milliseconds: %s %v, in seconds %s %v", ms.Verdict, ms.Ratio, m.Verdict, m.Ratio)
		}
	})
}

// All of A before all of B, in a session whose level changes once, inside a side: a step, which widens the interval.
func TestStep(t *testing.T) {
	rng := rand.New(rand.NewPCG(61, 1))
	for at, word := range map[int]string{4: "run 5 of 12", 8: "run 9 of 12"} {
		for change, want := range map[float64]compare.Verdict{1: compare.Inconclusive, 1.5: compare.Regressed, 0.5: compare.Improved} {
			runs := noisy(rng, 12, 10, 1, 0.001)
			for i := range runs {
				for j := range runs[i] {
					if i >= at {
						runs[i][j] *= 1.08
					}
				}
			}
			g := files(t, result("old", timed("x", runs[:6])), result("new", timed("x", scaledRuns(runs[6:], change))), judged(compare.Options{}))
			m := metric(t, g, "x")
			if m.Verdict != want || !strings.Contains(m.Reason, "its level changes by +") || !strings.Contains(m.Reason, word) || strings.Contains(m.Reason, "drifts") {
				t.Errorf("step at %d, times %g: %s %q", at, change, m.Verdict, m.Reason)
			}
			if lo, hi := float64(m.CI95[0]), float64(m.CI95[1]); !(lo < change && change < hi) {
				t.Errorf("step at %d, times %g: 95 %% %g to %g", at, change, lo, hi)
			}
		}
	}
}

// All of A before all of B, in a session that drifts.
func TestTrend(t *testing.T) {
	rng := rand.New(rand.NewPCG(60, 1))
	drift := func(from int) [][]float64 {
		out := noisy(rng, 6, 10, 1, 0.001)
		for i := range out {
			for j := range out[i] {
				out[i][j] *= math.Exp(0.01 * float64(from+i))
			}
		}
		return out
	}
	for change, want := range map[float64]compare.Verdict{1: compare.Inconclusive, 1.5: compare.Regressed, 0.5: compare.Improved} {
		now := timed("x", scaledRuns(drift(6), change))
		g := files(t, result("old", timed("x", drift(0)), counted("n", 1)), result("new", now, counted("n", 1)), judged(compare.Options{}))
		m := metric(t, g, "x")
		if m.Verdict != want || !strings.Contains(m.Reason, "drifts") || want == compare.Inconclusive && !strings.Contains(strings.Join(g.Next, " "), "in turn") {
			t.Errorf("times %g: %s %q, next %v", change, m.Verdict, m.Reason, g.Next)
		}
		// The drift makes 6 % of the difference, and the interval reaches the change without it.
		if lo, hi := float64(m.CI95[0]), float64(m.CI95[1]); !(lo < change && change < hi) {
			t.Errorf("times %g: 95 %% %g to %g", change, lo, hi)
		}
		if metric(t, g, "n").Verdict != compare.Same {
			t.Error("a counter does not drift")
		}
	}
	// Interleaved by their times the same drift is harmless.
	a, b := result("old", timed("x", drift(0))), result("new", timed("x", drift(0)))
	for i := range 6 {
		first, second := float64(2*i+1), float64(2*i+2)
		if i%2 == 1 {
			first, second = second, first
		}
		a.RunInfo, b.RunInfo = append(a.RunInfo, compare.RunInfo{StartS: first}), append(b.RunInfo, compare.RunInfo{StartS: second})
	}
	if g := files(t, a, b, judged(compare.Options{})); g.Verdict != compare.Pass {
		t.Errorf("interleaved: %s %q", g.Verdict, g.Metrics[0].Reason)
	}
}

func TestFlaggedSamples(t *testing.T) {
	rng := rand.New(rand.NewPCG(61, 1))
	runs := noisy(rng, 6, 10, 1, 0.002)
	side := func(share float64) *compare.Result {
		r := result("file", timed("x", runs), counted("n", 1))
		for range runs {
			r.RunInfo = append(r.RunInfo, compare.RunInfo{Flagged: share, Codes: []string{"throttled"}})
		}
		return r
	}
	for _, c := range []struct {
		old, now float64
		exit     int
		warned   bool
	}{{0, 0, 0, false}, {0.05, 0.1, 0, false}, {0, 0.2, 3, false}, {0.5, 0.3, 3, false}, {0.5, 0.45, 0, true}} {
		g := files(t, side(c.old), side(c.now), judged(compare.Options{}))
		warned := slices.ContainsFunc(g.Warnings, func(w gpuprof.Warning) bool { return w.Code == "flagged-samples" })
		if g.ExitCode != c.exit || warned != c.warned {
			t.Errorf("%g and %g flagged: exit %d, warned %v", c.old, c.now, g.ExitCode, warned)
		}
		if c.exit == 3 && (!strings.Contains(metric(t, g, "x").Reason, "throttled") || metric(t, g, "n").Verdict != compare.Same) {
			t.Errorf("%+v", g.Metrics)
		}
	}
	b := compare.Block{A: side(0), B: side(0.2)}
	for attempt, want := range []bool{true, true, false} {
		b.Attempt = attempt
		if again, why := compare.Rerun(b); again != want || want && !strings.Contains(why, "new side's samples are flagged throttled") {
			t.Errorf("attempt %d: %v %q", attempt, again, why)
		}
	}
	if again, _ := compare.Rerun(compare.Block{A: side(0.1), B: side(0)}); again {
		t.Error("a tenth is not more than a tenth")
	}
}
