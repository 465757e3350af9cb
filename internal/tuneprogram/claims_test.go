package tuneprogram

import (
	"context"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/gpuprof/gpuprof/internal/document"
	"github.com/gpuprof/gpuprof/internal/tune"
)

// searchOptions are those of a search on the machine, whose clock begins at zero.
func (m *machine) searchOptions(seed uint64, budget time.Duration) Options {
	m.random, m.now = rand.New(rand.NewPCG(seed, 1)), time.Unix(0, 0)
	return Options{Runner: m, Command: []string{"python", "train.py"}, MaxError: 0.01, Budget: budget, CPUs: 2,
		Getenv: func(string) string { return "" }, Now: func() time.Time { return m.now }}
}

func guidePromise(id string, speedup float64, settings ...string) Claim {
	return Claim{Promise: tune.Promise{ID: id, Guide: "a guide", Claim: "it is faster", Figure: "10 %", Speedup: speedup}, Settings: settings}
}

func testedClaims() []Claim {
	reversed := guidePromise("collect", 0, "gc.collect")
	reversed.Reversed = true
	return []Claim{guidePromise("loader", 1.1, "num_workers"), guidePromise("anomaly", 2, "anomaly_detection"), guidePromise("zeros", 1.1, "set_to_none"), reversed,
		guidePromise("rounds", 0, "fused"), guidePromise("tf32", 8, "tf32"), guidePromise("sync", 0, "torch.cuda.synchronize")}
}

// TestClaims: each verdict comes from the gain that the machine has; a setting that the program cannot take has the
// reason, and nothing is recommended.
func TestClaims(t *testing.T) {
	m := &machine{noise: 0.002, gains: map[string]float64{"num_workers=2": 1.5, "anomaly_detection=off": 1.3, "gc.collect=removed": 2, "fused=True": 3},
		changes: map[string]bool{"fused=True": true}}
	r, err := RunClaims(context.Background(), m.searchOptions(1, time.Hour), testedClaims())
	if err != nil || r.Kind != document.Claims || r.Recommended != nil || r.Conclusion.Text != "" {
		t.Fatalf("kind %s, recommended %v, %q (%v)", r.Kind, r.Recommended, r.Conclusion.Text, err)
	}
	want := map[string][2]string{
		"a/a": {tune.ClaimNone, "as expected"}, "loader": {tune.ClaimConfirmed, ""}, "anomaly": {tune.ClaimSmaller, "promises x2"}, "zeros": {tune.ClaimNone, "within 2 %"},
		"collect": {tune.ClaimOpposite, "slower here"}, "rounds": {tune.ClaimHarmful, "changes the training"}, "tf32": {tune.ClaimNotMeasurable, "it needs a GPU"},
		"sync": {tune.ClaimNotHere, "the steps do not call it"},
	}
	for _, row := range r.Claims {
		verdict, known := want[row.ID]
		if !known {
			continue // a second value of a knob has the setting in its name
		}
		delete(want, row.ID)
		if row.Verdict != verdict[0] || !strings.Contains(row.Reason, verdict[1]) {
			t.Errorf("%s: x%.3f %.3f, %s: %s", row.ID, row.Measured, row.CI95, row.Verdict, row.Reason)
		}
	}
	if len(want) > 0 {
		t.Errorf("no rows for %v in %+v", want, r.Claims)
	}
}

// TestClaimsOnShortBudget: each setting has its first pair before any has its second, and a claim without an interval
// has no verdict. The values of --try are rows too.
func TestClaimsOnShortBudget(t *testing.T) {
	m := &machine{gains: map[string]float64{"num_workers=2": 1.5}}
	o := m.searchOptions(1, 75*time.Second)
	o.Tries = []Try{{Name: "CHUNK", Values: []string{"8"}}}
	r, err := RunClaims(context.Background(), o, testedClaims())
	if err != nil {
		t.Fatal(err)
	}
	tried := false
	for _, row := range r.Claims {
		tried = tried || row.ID == "CHUNK=8" && row.Guide == "--try"
		if row.Verdict != tune.ClaimOpen && row.Verdict != tune.ClaimNotMeasurable && row.Verdict != tune.ClaimNotHere || row.CI95 != [2]float64{} {
			t.Errorf("%s: %s with %v", row.ID, row.Verdict, row.CI95)
		}
	}
	if !tried || len(r.Program.Runs) < 5 {
		t.Errorf("%d runs, rows %+v", len(r.Program.Runs), r.Claims)
	}
}

// TestFindingGains: a finding is tried first, and its claim is compared with the gain of the setting that removes its cause.
func TestFindingGains(t *testing.T) {
	m := &machine{noise: 0.002, gains: map[string]float64{"num_workers=2": 2, "fused=True": 1.5, "anomaly_detection=off": 1.2, "set_to_none=True": 1.5}}
	o := m.searchOptions(2, time.Hour)
	asked := 0
	o.Findings = func(context.Context, time.Duration) ([]Finding, error) {
		asked++
		return []Finding{{Rule: "dataloader-stall", Share: 0.5}, {Rule: "anomaly-mode"}, {Rule: "optimizer-loop", Share: 0.8}, {Rule: "zero-grad", Share: 0.1}, {Rule: "item", Share: 0.2}}, nil
	}
	r, err := Run(context.Background(), o)
	if err != nil || asked != 1 {
		t.Fatalf("asked %d times (%v)", asked, err)
	}
	if r.Effects[0].Knob != "fused" && r.Effects[0].Knob != "foreach" {
		t.Errorf("%s was tried first, and the largest claim is of the optimizer", r.Effects[0].Knob)
	}
	want := map[string]tune.Claimed{"num_workers=2": tune.ClaimHeld, "anomaly_detection=off": tune.NoTime, "fused=True": tune.OverClaimed, "set_to_none=True": tune.UnderClaimed}
	for _, g := range r.Program.Findings {
		if verdict, known := want[g.Setting]; known && g.Verdict != verdict {
			t.Errorf("%s: claim x%.3f, gain %.3f: %s", g.Setting, g.Claim, g.CI95, g.Verdict)
		}
		delete(want, g.Setting)
	}
	if len(want) > 0 {
		t.Errorf("no rows for %v", want)
	}
	resumed := earlierFindings(r.Program.Findings)
	if len(resumed) != 4 || resumed[0].Rule != "dataloader-stall" || resumed[0].Share != 0.5 {
		t.Errorf("the findings of the search that is resumed: %v", resumed)
	}
}

// TestRecordingFails: a program that cannot be recorded is tuned all the same, with the reason.
func TestRecordingFails(t *testing.T) {
	m := &machine{noise: 0.002, gains: map[string]float64{"gc.collect=removed": 2}}
	o := m.searchOptions(2, time.Hour)
	o.Findings = func(context.Context, time.Duration) ([]Finding, error) { return nil, errStarved }
	r, err := Run(context.Background(), o)
	if err != nil || recommended(r) != "gc.collect=removed" {
		t.Fatalf("recommended %q (%v)", recommended(r), err)
	}
	for _, l := range r.Program.Left {
		if l.Setting == "findings" && strings.Contains(l.Reason, errStarved.Error()) {
			return
		}
	}
	t.Errorf("the reason is missing: %v", r.Program.Left)
}
