package table_test

import (
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/tune"
	"github.com/gpuprof/gpuprof/report/table"
)

func tunedProgram() *tune.Result {
	return &tune.Result{Goal: tune.Throughput, Unit: "steps/s", BudgetS: 600, SpentS: 100, Status: gpuprof.Complete, MaxError: 0.01,
		Default: &tune.Point{Median: 50, CI95: [2]float64{49, 51}},
		Recommended: &tune.Recommended{Knobs: gpuprof.Settings{"num_workers": "2"}, Ratio: 1.97, CI95: [2]float64{1.8, 2.1}, Processes: 12, Confirmed: true, MemoryRatio: 1.01,
			PyTorch: []string{"DataLoader(..., num_workers=2)"}},
		Conclusion: tune.Conclusion{Verdict: tune.Recommends, Text: "num_workers=2: x1.97 faster", Command: "python train.py"},
		Effects: []tune.Effect{
			{Knob: "num_workers", From: "0", To: "2", Ratio: 1.95, CI95: [2]float64{1.6, 2.3}, Verdict: tune.Faster, Losses: &tune.LossCheck{Verdict: tune.SameBits, Compared: 64}, MemoryRatio: 1.01, CPURatio: 0.6},
			{Knob: "fused", From: "None", To: "True", Verdict: tune.Inconclusive, Reason: "not faster in its first pair", Losses: &tune.LossCheck{Verdict: tune.Within, Compared: 64, Deviation: 2e-6}},
			{Knob: "compile", From: "off", To: "default", Verdict: tune.Failed, Reason: "no C++ compiler"}},
		Failed: []tune.Failure{{Knobs: gpuprof.Settings{"compile": "default"}, Error: "no C++ compiler"}},
		Program: &tune.Program{Command: []string{"python", "train.py"}, Metric: tune.PerStep, Warm: 8, Steps: 75, CPUs: 2, Copied: true, Losses: tune.LossCheck{Verdict: tune.SameBits, Compared: 64},
			Patch: []string{"DataLoader(..., num_workers=2)"}, Left: []tune.LeftOut{{Setting: "anomaly_detection=off", Reason: "it is off"}}},
	}
}

// TestTuneProgram: the lines to change, each setting with its losses, and no figure where too few pairs were run.
func TestTuneProgram(t *testing.T) {
	for _, width := range []int{80, 160} {
		out := tuneText(t, tunedProgram(), table.Options{Width: width})
		for _, want := range []string{"Tuning python train.py", "recommended", "DataLoader(..., num_workers=2)", "x1.95", "same bits", "within lim", "failed", "no C++ compiler", "50.0 steps/s"} {
			if !strings.Contains(out, want) {
				t.Errorf("width %d: no %q in\n%s", width, want, out)
			}
		}
	}
	r := tunedProgram()
	r.Recommended, r.Conclusion = nil, tune.Conclusion{}
	r.Status, r.Reason = gpuprof.Partial, "interrupted"
	out := tuneText(t, r, table.Options{Width: 80})
	for _, want := range []string{"[not ended]", "interrupted", "did not come to its end"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}
