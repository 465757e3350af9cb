package table_test

import (
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/tune"
	"github.com/gpuprof/gpuprof/report/page"
	"github.com/gpuprof/gpuprof/report/table"
)

func tuned() *tune.Result {
	return &tune.Result{Workload: "e3nn", Preset: "small", Device: "host", DeviceDoc: "a CPU", Goal: tune.Time, Unit: "s per probe", BudgetS: 120, SpentS: 100, Status: gpuprof.Complete,
		Default: &tune.Point{Median: 2e-6, CI95: [2]float64{1.9e-6, 2.1e-6}},
		Recommended: &tune.Recommended{Knobs: gpuprof.Settings{"batch": "1024"}, Command: "gpuprof run e3nn --set batch=1024", Ratio: 0.8, CI95: [2]float64{0.78, 0.82}, Processes: 3, Confirmed: true,
			Text: "batch=1024: time x0.800", PyTorch: []string{"loader = DataLoader(dataset, batch_size=1024)"}, OneTime: map[string]float64{"autotune_s": 0.5}, PaybackSteps: 1220, MemoryRatio: 1.9, Error: 3e-7},
		Conclusion: tune.Conclusion{Verdict: tune.Recommends, Text: "batch=1024: time x0.800", Command: "gpuprof run e3nn --set batch=1024"},
		Effects: []tune.Effect{
			{Knob: "batch", From: "512", To: "1024", Ratio: 0.8, CI95: [2]float64{0.78, 0.82}, Error: 3e-7, MemoryRatio: 1.9, Verdict: tune.Faster},
			{Knob: "precision", From: "fp32", To: "bf16", Verdict: tune.Refused, Reason: "its error against float64, 0.05, is above --max-error 0.01", Error: 0.05},
			{Knob: "graph", From: "off", To: "on", Verdict: tune.Inconclusive, Reason: "the budget ended"}},
		Curves: []tune.Curve{{Knob: "batch", Unit: "s per probe", Knee: "512", Points: []tune.CurvePoint{{Value: "256", Median: 3e-6, CI95: [2]float64{2.9e-6, 3.1e-6}}, {Value: "512", Median: 2e-6, CI95: [2]float64{1.9e-6, 2.1e-6}}}}},
		Peers:  []tune.Peer{{Name: "e3nn", Figure: "tensor_product/deepaw/csr", Unit: "s", Value: 0.02, Ours: 0.001, Recorded: "2026-01-02T03:04:05+00:00"}},
		Failed: []tune.Failure{{Knobs: gpuprof.Settings{"precision": "bf16"}, Error: "its error is above the limit"}}}
}

func tuneText(t testing.TB, r *tune.Result, o table.Options) string {
	t.Helper()
	p, err := page.Tune(r)
	return shown(t, p, err, o)
}

func TestTune(t *testing.T) {
	for _, width := range []int{80, 140} {
		out := tuneText(t, tuned(), table.Options{Width: width})
		for _, want := range []string{"batch_size=1024", "gpuprof run e3nn --set batch=1024", "refused", "knee", "saved again after 1220 steps",
			"2.00 us per probe", "precision=bf16", "No time was left for graph=on", "e3nn takes 20.0 ms"} {
			if !strings.Contains(out, want) {
				t.Errorf("width %d: no %q in\n%s", width, want, out)
			}
		}
		for _, l := range strings.Split(out, "\n") {
			if len([]rune(l)) > width {
				t.Errorf("width %d: %q", width, l)
			}
		}
	}
}

// What was not confirmed is not called recommended, in any width.
func TestTuneUnconfirmed(t *testing.T) {
	r := tuned()
	r.Recommended, r.Conclusion = nil, tune.Conclusion{Verdict: tune.Unconfirmed, Text: "nothing is recommended: batch=1024 was not confirmed: time x0.990", Command: "gpuprof run e3nn"}
	out := tuneText(t, r, table.Options{})
	if got := out; strings.Contains(got, "recommended  ") || !strings.Contains(got, "conclusion      nothing is recommended: batch=1024") || !strings.Contains(got, "the default     gpuprof run e3nn") {
		t.Errorf("in\n%s", got)
	}
}

func TestTuneClaims(t *testing.T) {
	r := &tune.Result{Device: "host", Claims: []tune.ClaimRow{
		{ID: "a/a", Measured: 1.001, CI95: [2]float64{0.99, 1.01}, Verdict: "none", Figure: "x1"},
		{ID: "dp-split", Measured: 0.5, CI95: [2]float64{0.49, 0.51}, Verdict: "smaller", What: "share of tp"},
		{ID: "ph-tf32", Figure: "8x", Verdict: "not measurable here", Reason: "it needs a GPU"}}}
	out := tuneText(t, r, table.Options{})
	for _, want := range []string{"x1.001", "0.990-1.010", "50.0 %", "49.0-51.0 %", "not measurable here", "it needs a GPU"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}
