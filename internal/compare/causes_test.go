package compare_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/compare"
	"github.com/gpuprof/gpuprof/internal/document"
)

// measured is a run of three stages, the given seconds each, in n processes.
func measured(rng *rand.Rand, n int, stages map[string]float64) *gpuprof.Run {
	const samples = 12
	series := func() *gpuprof.Series { return &gpuprof.Series{Unit: "s", Runs: make([][]float64, n)} }
	run := &gpuprof.Run{
		Status: gpuprof.Complete, Started: time.Unix(1_700_000_000, 0), Workload: "e3nn", Preset: "small", Mode: gpuprof.Steady,
		Head:   document.NewHead(document.Run, gpuprof.Tool{Name: "gpuprof", Version: "1.0", Commit: "aaa"}),
		Device: gpuprof.Env{Kind: "cuda", Name: "H200", CPU: "big", CPUCores: 16, Load: rng.Float64(), DeviceInfo: map[string]string{"driver": "550", "power_limit_w": "700", "pcie_link": "gen5 x16"}},
		Knobs:  gpuprof.Settings{"hidden": "64", "threads": "2"}, ModelKnobs: []string{"hidden"},
		Step: series(), Throughput: &gpuprof.Throughput{Unit: "probes/s", Series: &gpuprof.Series{Unit: "probes/s", Runs: make([][]float64, n)}},
		PeakMemory: 1 << 20, Counters: map[string]float64{"launches": 4, "sync_points": 1, "bytes_h2d_pageable": 0},
	}
	for _, name := range []string{"copy", "gemm", "gap"} {
		run.Stages = append(run.Stages, gpuprof.StageResult{Name: name, Parent: "step", Exposed: series()})
	}
	run.Stages = append(run.Stages, gpuprof.StageResult{Name: "kernel", Parent: "gemm", Device: series()})
	for k := range n {
		shift := math.Exp(0.002 * rng.NormFloat64())
		for i := range samples {
			total := 0.0
			for s := range 3 {
				v := stages[run.Stages[s].Name] * shift * math.Exp(0.002*rng.NormFloat64())
				run.Stages[s].Exposed.Runs[k] = append(run.Stages[s].Exposed.Runs[k], v)
				total += v
			}
			run.Step.Runs[k] = append(run.Step.Runs[k], total)
			run.Throughput.Series.Runs[k] = append(run.Throughput.Series.Runs[k], 512/total)
			run.Order = append(run.Order, gpuprof.Order{Block: k, Side: gpuprof.SideProbed, StartS: float64(100*k + i)}, gpuprof.Order{Block: k, Side: gpuprof.SideBare, StartS: float64(100*k+i) + 0.5})
			run.Flags = append(run.Flags, []string{}, []string{"timed-out"})
		}
	}
	return run
}

func fromRun(t *testing.T, r *gpuprof.Run) *compare.Result {
	t.Helper()
	out, err := compare.FromRun(r)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestFromRun(t *testing.T) {
	rng := rand.New(rand.NewPCG(81, 1))
	run := measured(rng, 6, map[string]float64{"copy": 1e-3, "gemm": 5e-3, "gap": 1e-5})
	run.Flags[0] = []string{"throttled"} // a probed sample of the first process
	run.EnergyStep = &gpuprof.Series{Unit: "J", Runs: [][]float64{{1}, {2}}}
	r := fromRun(t, run)
	var got []string
	for _, m := range r.Metrics {
		name := m.Name
		if m.Exact {
			name += "!"
		}
		if m.HigherIsBetter {
			name += "+"
		}
		got = append(got, name)
	}
	if want := "step step/copy step/gemm step/gap throughput+ peak_memory! energy_step bytes_h2d_pageable! launches! sync_points!"; strings.Join(got, " ") != want {
		t.Errorf("metrics %v", got)
	}
	if !slices.Equal(r.Stages, []string{"step/copy", "step/gemm", "step/gap"}) || r.Total != "step" {
		t.Errorf("stages %v of %s", r.Stages, r.Total)
	}
	for key, want := range map[string]string{"driver": "550", "power_limit_w": "700", "device": "H200", "cpu": "big", "workload": "e3nn", "preset": "small", "mode": "steady"} {
		if r.Env[key] != want {
			t.Errorf("hard key %s is %q", key, r.Env[key])
		}
	}
	if r.Facts["pcie_link"] != "gen5 x16" || r.Code["commit"] != "aaa" || !r.Knobs["hidden"].Model || r.Knobs["threads"] != (compare.Knob{Value: "2"}) {
		t.Errorf("facts %v code %v knobs %v", r.Facts, r.Code, r.Knobs)
	}
	if len(r.RunInfo) != 6 || r.RunInfo[0].Flagged != 1.0/12 || r.RunInfo[0].Codes[0] != "throttled" || r.RunInfo[1].Flagged != 0 || r.RunInfo[1].StartS != 1_700_000_100 {
		t.Errorf("runs %+v", r.RunInfo)
	}
	failed := *run
	failed.Status, failed.Checks = gpuprof.Invalid, []gpuprof.Check{{Stage: "gemm", RelativeError: 1, Tolerance: 1e-3}}
	failed.Step, failed.Stages, failed.Throughput, failed.Counters, failed.PeakMemory, failed.EnergyStep = nil, nil, nil, nil, 0, nil
	bad := fromRun(t, &failed)
	if c, err := compare.Compare(r, bad, judged(compare.Options{})); err != nil || c.ExitCode != 4 || !strings.Contains(c.Failed[0], "gemm") {
		t.Errorf("a failed check: %v %+v", err, c)
	}
	failed.Status, failed.Checks = gpuprof.Partial, nil
	for _, nothing := range []*gpuprof.Run{nil, &failed} {
		if _, err := compare.FromRun(nothing); !errors.Is(err, gpuprof.ErrInput) {
			t.Errorf("nothing measured: %v", err)
		}
	}
}

func TestCauses(t *testing.T) {
	rng := rand.New(rand.NewPCG(82, 1))
	before := map[string]float64{"copy": 1e-3, "gemm": 5e-3, "gap": 1e-5}
	old := fromRun(t, measured(rng, 6, before))
	for name, c := range map[string]struct {
		after  map[string]float64
		change func(*gpuprof.Run)
		first  string // the stage named first
		share  float64
		by     string
	}{
		"gemm, by a commit":         {map[string]float64{"copy": 1e-3, "gemm": 6.5e-3, "gap": 1e-5}, func(r *gpuprof.Run) { r.Tool.Commit = "bbb" }, "gemm", 1, "commit aaa -> bbb"},
		"knob before environment":   {map[string]float64{"copy": 1e-3, "gemm": 6.5e-3, "gap": 1e-5}, func(r *gpuprof.Run) { r.Knobs["threads"], r.Device.Governor = "4", "powersave" }, "gemm", 1, "knob threads 2 -> 4"},
		"environment before code":   {map[string]float64{"copy": 1e-3, "gemm": 6.5e-3, "gap": 1e-5}, func(r *gpuprof.Run) { r.Tool.Commit, r.Device.Governor = "bbb", "powersave" }, "gemm", 1, "governor unknown -> powersave"},
		"several knobs":             {map[string]float64{"copy": 1e-3, "gemm": 6.5e-3, "gap": 1e-5}, func(r *gpuprof.Run) { r.Knobs["threads"], r.Knobs["depth"] = "4", "2" }, "gemm", 1, "one of knob depth unknown -> 2, knob threads 2 -> 4 (change one at a time to tell which)"},
		"nothing differs":           {map[string]float64{"copy": 1.5e-3, "gemm": 6e-3, "gap": 1e-5}, nil, "gemm", 2.0 / 3, "nothing recorded differs"},
		"one better, one worse":     {map[string]float64{"copy": 0.5e-3, "gemm": 6.5e-3, "gap": 1e-5}, nil, "gemm", 1.5, ""},
		"faster":                    {map[string]float64{"copy": 1e-3, "gemm": 4e-3, "gap": 1e-5}, nil, "gemm", 1, ""},
		"a stage nobody saw before": {map[string]float64{"copy": 1e-3, "gemm": 5e-3, "gap": 1e-3}, nil, "gap", 1, ""},
		"a small stage grows":       {map[string]float64{"copy": 1e-3, "gemm": 5e-3, "gap": 6e-4}, nil, "gap", 1, ""},
	} {
		run := measured(rng, 6, c.after)
		if c.change != nil {
			c.change(run)
		}
		g, err := compare.Compare(old, fromRun(t, run), compare.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if len(g.Causes) == 0 || g.Causes[0].Stage != c.first || math.Abs(g.Causes[0].ShareOfChange-c.share) > 0.05 || c.by != "" && g.Causes[0].ExplainedBy != c.by {
			t.Errorf("%s: %+v", name, g.Causes)
		}
		sum := 0.0
		for _, x := range g.Causes {
			sum += x.ShareOfChange
		}
		if math.Abs(sum-1) > 0.03 { // stages under 1 % are not listed
			t.Errorf("%s: the shares add up to %v", name, sum)
		}
	}
	if g, err := compare.Compare(old, fromRun(t, measured(rng, 6, before)), compare.Options{}); err != nil || len(g.Causes) != 0 || g.Verdict != compare.Pass {
		t.Errorf("unchanged: %v %s %+v", err, g.Verdict, g.Causes)
	}
}

// Of one run a side there is no verdict; where a difference that would matter
// comes from is said all the same.
func TestCausesOfARunASide(t *testing.T) {
	rng := rand.New(rand.NewPCG(84, 1))
	side := func(gemm float64) *compare.Result {
		return fromRun(t, measured(rng, 1, map[string]float64{"copy": 1e-3, "gemm": gemm, "gap": 1e-5}))
	}
	for gemm, want := range map[float64]int{5.1e-3: 0, 7e-3: 1} {
		g, err := compare.Compare(side(5e-3), side(gemm), compare.Options{})
		if err != nil || g.Verdict != compare.Inconclusive || len(g.Causes) != want || want > 0 && g.Causes[0].Stage != "gemm" {
			t.Errorf("gemm %v: %v, %s, %+v", gemm, err, g.Verdict, g.Causes)
		}
	}
}

// A stage of a thousandth of the step may double without being a regression;
// one that grows past a twentieth of it is one.
func TestSmallStages(t *testing.T) {
	rng := rand.New(rand.NewPCG(83, 1))
	side := func(gap float64) *compare.Result {
		return fromRun(t, measured(rng, 6, map[string]float64{"copy": 1e-3, "gemm": 5e-3, "gap": gap}))
	}
	for _, c := range []struct {
		old, now float64
		want     compare.Verdict
		reason   string
	}{
		{6e-6, 12e-6, compare.TooSmall, "too little to judge"},
		{0, 0, compare.TooSmall, "too little to judge"},
		{0, 6e-6, compare.TooSmall, "too little to judge"},
		{6e-6, 9e-4, compare.Regressed, "judged from 5 %"},
		{9e-4, 0, compare.Improved, "judged from 5 %"},
		{9e-4, 9e-4, compare.Same, ""},
	} {
		g, err := compare.Compare(side(c.old), side(c.now), compare.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if m := metric(t, g, "step/gap"); m.Verdict != c.want || !strings.Contains(m.Reason, c.reason) {
			t.Errorf("%g to %g: %s %q", c.old, c.now, m.Verdict, m.Reason)
		}
	}
}

func TestBudgets(t *testing.T) {
	r := result("trace", counted("sync_points", 3, 3), counted("launches", 10, 12), counted("odd", math.NaN()))
	r.Tool = "trace"
	r.Metrics[0].Sites = []gpuprof.Site{{Where: "train.py:41", Count: 2}, {Where: "train.py:9", Count: 1}}
	r.Metrics = append(r.Metrics, timed("step", [][]float64{{1}}))
	for name, c := range map[string]struct {
		budget compare.Budget
		exit   int
		text   string
	}{
		"kept":     {compare.Budget{Name: "sync_points", Max: 3}, 0, ""},
		"over":     {compare.Budget{Name: "sync_points", Max: 2}, 1, "3 is over the limit of 2"},
		"largest":  {compare.Budget{Name: "launches", Max: 11}, 1, "12 is over"},
		"by less":  {compare.Budget{Name: "launches", Max: 11.999999}, 1, "12 is over"},
		"missing":  {compare.Budget{Name: "kernels", Max: 2}, 3, "does not have this counter"},
		"no count": {compare.Budget{Name: "odd", Max: 2}, 3, "not a number"},
	} {
		g, err := compare.CheckBudgets(r, []compare.Budget{c.budget}, compare.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if g.ExitCode != c.exit || !strings.Contains(g.Budgets[0].Reason, c.text) || g.Sides != "budget" || g.Kind != document.Comparison {
			t.Errorf("%s: exit %d %+v", name, g.ExitCode, g.Budgets[0])
		}
		if (g.Budgets[0].Where != nil) != (name == "over") {
			t.Errorf("%s: sites %v", name, g.Budgets[0].Where)
		}
	}
	for _, b := range []compare.Budget{{Name: "sync_point", Max: 2}, {Name: "step", Max: 1}, {Name: "launches", Max: math.Inf(1)}, {Name: "launches", Max: -1}, {Name: "launches", Max: math.NaN()}} {
		if _, err := compare.CheckBudgets(r, []compare.Budget{b}, compare.Options{}); !errors.Is(err, gpuprof.ErrUsage) {
			t.Errorf("%+v: %v", b, err)
		}
	}
	// Beside a comparison.
	rng := rand.New(rand.NewPCG(84, 1))
	x := timed("x", noisy(rng, 6, 5, 1, 0.002))
	now := result("new", x, counted("launches", 5))
	g, err := compare.Compare(result("old", x, counted("launches", 5)), now, judged(compare.Options{}))
	if err != nil || g.ExitCode != 0 {
		t.Fatal(err, g.ExitCode)
	}
	with, err := g.WithBudgets(now, []compare.Budget{{Name: "launches", Max: 4}}, judged(compare.Options{}))
	if err != nil || with.ExitCode != 1 || with.Verdict != compare.Regressed {
		t.Errorf("a budget beside a comparison: %v, %+v", err, with)
	}
	if g.ExitCode != 0 || g.Verdict != compare.Pass || len(g.Budgets) > 0 || len(g.WithBudget("x").Next) != len(g.Next)+1 {
		t.Errorf("the comparison itself changed: %+v", g)
	}
}
