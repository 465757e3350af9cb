package compare_test

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/compare"
)

// ratioOf is a metric of seconds with its ratio and interval.
func ratioOf(name string, v compare.Verdict, old, ratio, low, high float64) compare.MetricResult {
	nan := gpuprof.Number(math.NaN())
	return compare.MetricResult{Name: name, Unit: "s", Verdict: v, Old: gpuprof.Number(old), New: gpuprof.Number(old * ratio), Ratio: gpuprof.Number(ratio),
		CI95: [2]gpuprof.Number{gpuprof.Number(low), gpuprof.Number(high)}, Threshold: 0.05, PBetterAdjusted: nan}
}

func TestAnswers(t *testing.T) {
	nan := math.NaN()
	launches := ratioOf("launches", compare.Regressed, 1200, 1.5, nan, nan)
	launches.Unit, launches.Exact = "count", true
	first := ratioOf("allocations", compare.Regressed, 0, nan, nan, nan)
	first.Unit, first.Exact, first.New = "count", true, 12345
	kept := launches
	kept.Verdict, kept.New, kept.Ratio = compare.Same, kept.Old, 1
	rate := ratioOf("throughput", compare.Regressed, 1000, 0.8, 0.78, 0.83)
	rate.Unit, rate.HigherIsBetter = "probes/s", true
	once := ratioOf("step", compare.Inconclusive, 0.01, 1.3, nan, nan)
	once.Reason = "1 run on the old side and 1 on the new one"
	unconfirmed := ratioOf("step", compare.Inconclusive, 0.01, 2.15, 1.4, 3.3)
	unconfirmed.Reason = "stage 2 has not been measured"
	lessUnconfirmed := ratioOf("served", compare.Inconclusive, 10, 0.8, 0.78, 0.82)
	lessUnconfirmed.Unit, lessUnconfirmed.HigherIsBetter, lessUnconfirmed.Reason = "req/s", true, unconfirmed.Reason
	faster := ratioOf("step", compare.Same, 0.01, 0.31, 0.2, 0.5)
	faster.PBetterAdjusted = 0.01
	one := ratioOf("step", compare.Same, 0.01, 1, nan, nan)
	one.Reason = "both sides hold the same samples: they are one measurement, and nothing can have changed"
	rateApart := ratioOf("p99", compare.NotComparable, 0.01, nan, nan, nan)
	rateApart.Reason = "requests came at 10/s and at 20/s"
	small := ratioOf("step/gap", compare.TooSmall, 1e-6, 1.646, nan, nan)

	for name, c := range map[string]struct {
		doc      compare.Comparison
		verdict  string
		tone     gpuprof.Tone
		sentence string
		ratio    float64 // of the bar, 0 without one
	}{
		"regressed, with its cause": {compare.Comparison{Verdict: compare.Regressed,
			Metrics: []compare.MetricResult{ratioOf("step/copy", compare.Inconclusive, 1e-3, 1.2, 0.8, 1.6), ratioOf("step", compare.Regressed, 0.01, 1.285, 1.251, 1.32)},
			Causes:  []compare.Cause{{Stage: "gemm", ShareOfChange: 0.92}}, Differences: []compare.Difference{{Kind: "knob", Field: "impl", Old: "fused", New: "csr"}}},
			"regressed", gpuprof.ToneBad, "step takes 28.5 % longer (95 % +25.1 % to +32.0 %): 12.8 ms, was 10.0 ms; gemm makes 92 % of the change, with impl fused -> csr.", 1.285},
		"regressed by factors": {compare.Comparison{Verdict: compare.Regressed, Metrics: []compare.MetricResult{ratioOf("step", compare.Regressed, 0.00795, 4.3, 3.9, 5.6)}},
			"regressed", gpuprof.ToneBad, "step takes 4.300 times as long (95 % x3.900 to x5.600): 34.2 ms, was 7.95 ms.", 4.3},
		"a rate fell, and a counter rose": {compare.Comparison{Verdict: compare.Regressed, Metrics: []compare.MetricResult{rate, launches}},
			"regressed", gpuprof.ToneBad, "launches is 50.0 % higher: 1,800, was 1,200; 1 more metric regressed too.", 1.5},
		"a counter from zero": {compare.Comparison{Verdict: compare.Regressed, Metrics: []compare.MetricResult{first}},
			"regressed", gpuprof.ToneBad, "allocations is 12,345, was 0.", 0},
		"a broken budget alone": {compare.Comparison{Verdict: compare.Regressed, Budgets: []compare.BudgetResult{{Name: "sync_points", Unit: "count", Value: 1234, Max: 2, Over: true, Verdict: compare.Regressed}}},
			"regressed", gpuprof.ToneBad, "sync_points is 1,234, above its budget of 2.", 0},
		"improved": {compare.Comparison{Verdict: compare.Improved, Metrics: []compare.MetricResult{ratioOf("step", compare.Improved, 0.01, 0.8, 0.78, 0.83)}},
			"improved", gpuprof.ToneGood, "step takes 20.0 % less time (95 % -22.0 % to -17.0 %): 8.00 ms, was 10.0 ms.", 0.8},
		"faster, not confirmed": {compare.Comparison{Verdict: compare.Pass, Metrics: []compare.MetricResult{faster}},
			"improved, not certain", gpuprof.ToneGood, "step takes 69.0 % less time (95 % -80.0 % to -50.0 %): 3.10 ms, was 10.0 ms; that it is faster was not confirmed, that it is not slower was.", 0.31},
		"pass": {compare.Comparison{Verdict: compare.Pass, Metrics: []compare.MetricResult{ratioOf("step", compare.Same, 0.01, 1.004, 0.996, 1.012), kept}},
			"pass", gpuprof.ToneGood, "step is not slower by 5 % or more (95 % -0.4 % to +1.2 %): 10.0 ms, was 10.0 ms; the same holds for 1 more metric.", 1.004},
		"counters only": {compare.Comparison{Verdict: compare.Pass, Metrics: []compare.MetricResult{kept}},
			"pass", gpuprof.ToneGood, "1 counter did not change: launches is 1,200 on both sides.", 1},
		"budgets kept": {compare.Comparison{Verdict: compare.Pass, Budgets: []compare.BudgetResult{{Name: "launches", Unit: "count", Value: 12, Max: 20, Verdict: compare.Same}}},
			"pass", gpuprof.ToneGood, "The budget is kept: launches is 12 of at most 20.", 0},
		"one measurement": {compare.Comparison{Verdict: compare.Pass, Metrics: []compare.MetricResult{one}},
			"same measurement", gpuprof.TonePlain, "Both sides hold the same samples: they are one measurement, so nothing can have changed.", 1},
		"too small": {compare.Comparison{Verdict: compare.Pass, Metrics: []compare.MetricResult{small}},
			"nothing judged", gpuprof.TonePlain, "No metric of these results is large enough to be judged.", 0},
		"undecided": {compare.Comparison{Verdict: compare.Inconclusive, Metrics: []compare.MetricResult{ratioOf("step", compare.Inconclusive, 0.01, 1.03, 0.979, 1.084)}},
			"not decided", gpuprof.ToneUnsure, "step: the change is not known well enough (95 % -2.1 % to +8.4 %): one of 5 % is neither shown nor ruled out; 10.3 ms, was 10.0 ms.", 1.03},
		"slower in one stage": {compare.Comparison{Verdict: compare.Inconclusive, Metrics: []compare.MetricResult{unconfirmed}},
			"not decided", gpuprof.ToneUnsure, "step takes 2.150 times as long (95 % x1.400 to x3.300): 21.5 ms, was 10.0 ms; not decided yet: stage 2 has not been measured.", 2.15},
		"a slower rate in one stage": {compare.Comparison{Verdict: compare.Inconclusive, Metrics: []compare.MetricResult{lessUnconfirmed}},
			"not decided", gpuprof.ToneUnsure, "served is 20.0 % lower (95 % -22.0 % to -18.0 %): 8.00 req/s, was 10.0 req/s; not decided yet: stage 2 has not been measured.", 0.8},
		"one run": {compare.Comparison{Verdict: compare.Inconclusive, Metrics: []compare.MetricResult{once}},
			"not decided", gpuprof.ToneUnsure, "step is not decided: 1 run on the old side and 1 on the new one.", 1.3},
		"empty": {compare.Comparison{Verdict: compare.Inconclusive},
			"not decided", gpuprof.ToneUnsure, "No metric of these results can be judged, so nothing is decided.", 0},
		"a budget not known": {compare.Comparison{Verdict: compare.Inconclusive, Budgets: []compare.BudgetResult{{Name: "launches", Verdict: compare.Inconclusive}}},
			"not decided", gpuprof.ToneUnsure, "The budget of launches is not judged: it was not counted.", 0},
		"another driver": {compare.Comparison{Verdict: compare.NotComparable, Metrics: []compare.MetricResult{ratioOf("step", compare.NotComparable, 0.01, 1.2, nan, nan)},
			Differences: []compare.Difference{{Kind: "environment", Field: "driver", Old: "550", New: "560", Hard: true}, {Kind: "code", Field: "commit", Old: "a", New: "b"}}},
			"not comparable", gpuprof.ToneUnsure, "The two sides are not the same measurement, so there is no verdict: driver 550 -> 560.", 0},
		"another rate": {compare.Comparison{Verdict: compare.NotComparable, Metrics: []compare.MetricResult{rateApart}},
			"not comparable", gpuprof.ToneUnsure, "The two sides are not the same measurement, so there is no verdict: p99: requests came at 10/s and at 20/s.", 0},
		"failed": {compare.Comparison{Verdict: compare.Inconclusive, Failed: []string{"new: BenchmarkX: exit status 2"}},
			"failed", gpuprof.ToneBad, "1 benchmark gave no figure, so nothing is decided: new: BenchmarkX: exit status 2.", 0},
	} {
		a := c.doc.Answer()
		if a.Verdict != c.verdict || a.Tone != c.tone || a.Sentence != c.sentence {
			t.Errorf("%s:\n got %s (%s): %s\nwant %s (%s): %s", name, a.Verdict, a.Tone, a.Sentence, c.verdict, c.tone, c.sentence)
		}
		got := 0.0
		if a.Bar != nil {
			got = a.Bar.Ratio.Value
		}
		if got != c.ratio {
			t.Errorf("%s: the bar has %g, want %g", name, got, c.ratio)
		}
	}
}

// What is open beside a regression is no next step of it: the cause comes first.
func TestNextOfARegressionIsItsCause(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 9))
	side := func(gemm float64) *compare.Result {
		return fromRun(t, measured(rng, 6, map[string]float64{"gemm": gemm, "copy": 1e-3}))
	}
	c, err := compare.Compare(side(4e-3), side(8e-3), judged(compare.Options{}))
	if err != nil {
		t.Fatal(err)
	}
	if c.Verdict != compare.Regressed || len(c.Next) != 1 || c.Next[0] != "look at gemm first" {
		t.Errorf("%s: %q", c.Verdict, c.Next)
	}
	if m := metric(t, c, "step"); c.Attribution == nil || c.Attribution.Old != m.Old || c.Attribution.New != m.New {
		t.Errorf("the change has two sizes: %v beside %g to %g", c.Attribution, m.Old, m.New)
	}
}

// A figure that holds zeros has no ratio, not even that of its medians.
func TestZerosHaveNoRatio(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 10))
	holes := noisy(rng, 6, 9, 1, 0.01)
	for _, run := range holes {
		run[3] = 0
	}
	c := files(t, result("old", timed("x", noisy(rng, 6, 9, 1, 0.01))), result("new", timed("x", holes)), judged(compare.Options{}))
	if m := metric(t, c, "x"); !math.IsNaN(float64(m.Ratio)) || !strings.Contains(m.Reason, "zeros") {
		t.Errorf("ratio %g beside %q", m.Ratio, m.Reason)
	}
	if a := c.Answer(); a.Verdict != "not decided" || a.Bar != nil {
		t.Errorf("%+v", a)
	}
}

func TestNoiseAnswers(t *testing.T) {
	m := compare.MachineNoise{Metrics: []compare.MetricNoise{{Name: "step", Spread: 0.012}}}
	for name, c := range map[string]struct {
		p       compare.NoisePlan
		verdict string
		tone    gpuprof.Tone
		text    string
	}{
		"quiet":   {compare.NoisePlan{MachineNoise: m, BudgetS: 600, Smallest: 0.031}, "finds 3.1 %", gpuprof.TonePlain, "A gate of 10 min finds slowdowns of 3.1 % and more on this machine; its processes differ by 1.2 %."},
		"noisy":   {compare.NoisePlan{MachineNoise: m, BudgetS: 60, Smallest: gpuprof.Number(math.NaN())}, "too noisy", gpuprof.ToneUnsure, "No slowdown is found here within 60 s: its processes differ by 1.2 %."},
		"no time": {compare.NoisePlan{}, "nothing measured", gpuprof.ToneUnsure, "No metric of this program was measured, so the noise is unknown."},
	} {
		if a := c.p.Answer(); a.Verdict != c.verdict || a.Tone != c.tone || a.Sentence != c.text {
			t.Errorf("%s: got %+v", name, a)
		}
	}
}
