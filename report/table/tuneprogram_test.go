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

// TestStoppedAndEnergy: a stopped setting has its bound and no figure. The joules per step have a column where one is
// known, and else a line with the reason.
func TestStoppedAndEnergy(t *testing.T) {
	r := tunedProgram()
	r.Effects = append(r.Effects, tune.Effect{Knob: "threads", From: "16", To: "1", Verdict: tune.Stopped, Reason: "stopped by the budget after 40.0 s: at least 12.5 times slower"})
	r.Failed = append(r.Failed, tune.Failure{Knobs: gpuprof.Settings{"threads": "1"}, Error: r.Effects[3].Reason})
	r.Program.Device, r.Program.EnergyUnknown = "cuda", "NVML reports no energy of the GPU"
	out := tuneText(t, r, table.Options{Width: 200})
	for _, want := range []string{"stopped by the budget after 40.0 s: at least 12.5 times slower", "its energy", "unknown", "NVML reports no energy of the GPU"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if strings.Contains(out, "energy per step") {
		t.Errorf("a column of unknown energies in\n%s", out)
	}
	r.Program.Joules, r.Program.EnergyUnknown = 12.5, ""
	r.Effects[0].Joules, r.Effects[0].EnergyRatio = 9.75, 0.796
	r.Recommended.Joules, r.Recommended.EnergyRatio = 9.5, 0.78
	out = tuneText(t, r, table.Options{Width: 200})
	for _, want := range []string{"energy per step", "9.75 J", "12.5 J per step", "x0.78", "9.50 J per step"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

// TestClaimsBesideGains: each finding of the recording with its claim, the measured gain and the verdict.
func TestClaimsBesideGains(t *testing.T) {
	r := tunedProgram()
	r.Program.Findings = []tune.FindingGain{{Rule: "dataloader-stall", Setting: "num_workers=2", Claim: 2.5, Gain: 1.95, CI95: [2]float64{1.6, 2.3}, Verdict: tune.OverClaimed},
		{Rule: "optimizer-loop", Setting: "fused=True", Verdict: tune.NotMeasured}}
	out := tuneText(t, r, table.Options{Width: 160})
	for _, want := range []string{"Claims and gains", "dataloader-stall", "x2.50", "x1.950", "over-claimed", "optimizer-loop", "not measured"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

// TestClaimsOnProgram: the claims of guides on the user's program name the program and each setting, and recommend
// nothing.
func TestClaimsOnProgram(t *testing.T) {
	r := tunedProgram()
	r.Recommended, r.Conclusion = nil, tune.Conclusion{}
	r.Claims = []tune.ClaimRow{{ID: "ef-loader num_workers=2", Guide: "Energy Flow", Claim: "workers", Figure: "10-30 %", AB: "num_workers: 0 -> 2", Measured: 1.9, CI95: [2]float64{1.7, 2.1}, Verdict: tune.ClaimConfirmed},
		{ID: "ph-tf32", Claim: "TF32", Figure: "8x on Ampere", Verdict: tune.ClaimNotMeasurable, Reason: "it needs a GPU: no GPU computes"}}
	out := tuneText(t, r, table.Options{Width: 160})
	for _, want := range []string{"Claims of tuning guides on python train.py", "1 of 2 confirmed", "ef-loader num_workers=2", "x1.900", "num_workers: 0 -> 2", "it needs a GPU"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if strings.Contains(out, "change ") {
		t.Errorf("a line to change in\n%s", out)
	}
}
