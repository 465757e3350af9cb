package compare_test

import (
	"bytes"
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/compare"
)

// throughJSON is what a reader of the written comparison gets, which writes the
// same bytes again.
func throughJSON(t *testing.T, c *compare.Comparison) *compare.Comparison {
	t.Helper()
	text, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	var back compare.Comparison
	if err := json.Unmarshal(text, &back); err != nil {
		t.Fatal(err)
	}
	again, err := json.Marshal(&back)
	if err != nil || !bytes.Equal(text, again) {
		t.Errorf("read and written again it differs: %v", err)
	}
	return &back
}

// Whoever doubts a verdict must be able to draw it again from the JSON alone.
func TestJSONHoldsTheEvidence(t *testing.T) {
	rng := rand.New(rand.NewPCG(91, 1))
	runs := noisy(rng, 6, 10, 1, 0.002)
	runs[2][3] = math.NaN()
	old, now := result("old", timed("x", runs), counted("n", 3)), result("new", timed("x", scaledRuns(runs, 1.3)), counted("n", 3))
	old.Env, old.Knobs = map[string]string{"driver": "550"}, map[string]compare.Knob{"hidden": {Value: "64", Model: true}}
	for k := range 6 {
		old.RunInfo = append(old.RunInfo, compare.RunInfo{StartS: float64(100 + 2*k)})
		now.RunInfo = append(now.RunInfo, compare.RunInfo{StartS: float64(101 + 2*k), Flagged: 0.05, Codes: []string{"throttled"}})
	}
	c := throughJSON(t, files(t, old, now, compare.Options{Seed: 9}))
	m := metric(t, c, "x")
	if m.Samples == nil || len(m.Samples.Old) != 6 || m.Samples.Old[1][2] != runs[1][2] || !math.IsNaN(m.Samples.Old[2][3]) || m.Samples.New[5][9] != 1.3*runs[5][9] {
		t.Errorf("samples %+v", m.Samples)
	}
	if n := metric(t, c, "n"); n.Samples == nil || n.Samples.New[0][0] != 3 {
		t.Errorf("a counter's values: %+v", n.Samples)
	}
	if len(c.Order) != 12 || c.Seed != 9 {
		t.Fatalf("seed %d, order %v", c.Seed, c.Order)
	}
	for i, turn := range c.Order {
		if turn.Run != i/2 || turn.StartS != float64(100+i) || (turn.Side == "new") != (i%2 == 1) || (turn.Flagged > 0) != (i%2 == 1) {
			t.Errorf("turn %d: %+v", i, turn)
		}
	}
	if f := c.Fingerprints.Old; f == nil || f.Env["driver"] != "550" || !f.Knobs["hidden"].Model || c.Fingerprints.New.Env == nil {
		t.Errorf("fingerprint %+v", c.Fingerprints)
	}
}

func TestGateHoldsBothStages(t *testing.T) {
	rng := rand.New(rand.NewPCG(92, 1))
	g := compare.NewGate(compare.Options{})
	stage1(t, g, blocksOf(compare.Stage1Blocks, process(rng, 1, 0.003), process(rng, 1.045, 0.003)))
	c := throughJSON(t, stage2(t, g, blocksOf(compare.Stage2Blocks, process(rng, 1, 0.003), process(rng, 1.045, 0.003))))
	m := metric(t, c, "x")
	if len(m.Samples.Old) != compare.Stage2Blocks || len(m.Stage1.Samples.New) != compare.Stage1Blocks || len(m.Samples.New[0]) != 10 {
		t.Errorf("%d runs of stage 2, %d of stage 1", len(m.Samples.Old), len(m.Stage1.Samples.New))
	}
	for name, p := range map[string]gpuprof.Number{"p": m.P, "p_adjusted": m.PAdjusted, "p_better": m.PBetter, "p_better_adjusted": m.PBetterAdjusted, "stage 1": m.Stage1.P} {
		if math.IsNaN(float64(p)) {
			t.Errorf("%s is missing", name)
		}
	}
	if m.PBetter < 0.9 || m.P > 0.05 {
		t.Errorf("p %g, mirrored %g", m.P, m.PBetter)
	}
	stages := map[int]int{}
	for i, turn := range c.Order {
		stages[turn.Stage]++
		if before := i - i%2; turn.Run != c.Order[before].Run || turn.Side == c.Order[before+1-i%2].Side {
			t.Errorf("turn %d is no half of a block: %v", i, c.Order)
		}
	}
	if stages[1] != 2*compare.Stage1Blocks || stages[2] != 2*compare.Stage2Blocks {
		t.Errorf("turns by stage: %v", stages)
	}
}

// Where stage events cost too much, the step is timed in passes without them:
// stages and step are then of other samples, and the causes come from the stages.
func TestCausesWithoutTheStepsSamples(t *testing.T) {
	rng := rand.New(rand.NewPCG(93, 1))
	apart := func(gemm float64) *compare.Result {
		run := measured(rng, 6, map[string]float64{"copy": 1e-3, "gemm": gemm, "gap": 1e-5})
		run.ProbedStep = &gpuprof.Series{Unit: "s", Runs: run.Step.Runs}
		run.Step = &gpuprof.Series{Unit: "s", Runs: make([][]float64, 6)}
		for k, samples := range run.ProbedStep.Runs {
			for range 2 {
				run.Step.Runs[k] = append(run.Step.Runs[k], samples...)
			}
		}
		return fromRun(t, run)
	}
	c := files(t, apart(5e-3), apart(6.5e-3), compare.Options{})
	if len(c.Causes) == 0 || c.Causes[0].Stage != "gemm" || math.Abs(c.Causes[0].ShareOfChange-1) > 0.05 {
		t.Errorf("causes %+v", c.Causes)
	}
}

func TestWarningsOfSides(t *testing.T) {
	rng := rand.New(rand.NewPCG(94, 1))
	old, now := result("old", timed("x", noisy(rng, 6, 10, 1, 0.002)), counted("n", 3)), result("new", timed("x", noisy(rng, 6, 10, 1, 0.002)), counted("n", 3))
	for _, text := range []string{"process 1: it shook", "process 2: it shook more", "process 3: it shook", "no device was asked"} {
		now.Warnings = append(now.Warnings, gpuprof.Warning{Code: "shaky", Text: text})
	}
	var got []string
	for _, w := range files(t, old, now, compare.Options{}).Warnings {
		got = append(got, w.Text)
	}
	want := []string{"new side: process 1: it shook (and so in 2 more of its processes)", "new side: no device was asked"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	// Budgets on exact counters have no noise; what bears on the counters stays.
	now.Tool = "gpuprof"
	now.Warnings = append(now.Warnings, gpuprof.Warning{Code: "counters-incomplete", Text: "process 1: some were not counted"})
	c, err := compare.CheckBudgets(now, []compare.Budget{{Name: "n", Max: 3}}, compare.Options{})
	if err != nil || len(c.Warnings) != 1 || !strings.Contains(c.Warnings[0].Text, "not counted") {
		t.Errorf("warnings %v, %v", c.Warnings, err)
	}
}

// A budget that a run breaks names the stages that counted most.
func TestBudgetNamesTheStage(t *testing.T) {
	run := measured(rand.New(rand.NewPCG(95, 1)), 6, map[string]float64{"copy": 1e-3, "gemm": 5e-3, "gap": 1e-5})
	run.Stages[0].Counters, run.Stages[1].Counters = map[string]float64{"launches": 1}, map[string]float64{"launches": 3}
	c, err := compare.CheckBudgets(fromRun(t, run), []compare.Budget{{Name: "launches", Max: 3}, {Name: "sync_points", Max: 0}}, compare.Options{})
	if err != nil || !slices.Equal(c.Budgets[0].Where, []string{"stage gemm", "stage copy"}) || c.Budgets[1].Where != nil {
		t.Errorf("%+v, %v", c.Budgets, err)
	}
}
