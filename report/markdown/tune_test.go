package markdown_test

import (
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/tune"
	"github.com/gpuprof/gpuprof/report/page"
)

func TestWriteTune(t *testing.T) {
	r := &tune.Result{Workload: "e3nn", Goal: tune.Time, Unit: "s per probe", Status: gpuprof.Complete,
		Recommended: &tune.Recommended{Knobs: gpuprof.Settings{"batch": "<faster>"}, Text: "batch=1024 is <faster>", Command: "gpuprof run e3nn --set batch=1024", PyTorch: []string{"batch_size=1024"}, OneTime: map[string]float64{"setup_s": 2}, PaybackSteps: 12, Error: 3e-7, MemoryRatio: 1.9},
		Conclusion:  tune.Conclusion{Text: "batch=1024 is <faster>", Command: "gpuprof run e3nn --set batch=1024"},
		Default:     &tune.Point{Median: 2e-6},
		Effects:     []tune.Effect{{Knob: "batch", From: "512", To: "1024", Ratio: 0.8, CI95: [2]float64{0.78, 0.82}, Verdict: tune.Faster, MemoryRatio: 1.9, Error: 1e-6}},
		Curves:      []tune.Curve{{Knob: "batch", Unit: "s per probe", Knee: "512", Points: []tune.CurvePoint{{Value: "512", Median: 2e-6}}}},
		Failed:      []tune.Failure{{Knobs: gpuprof.Settings{"mem": "huge"}, Error: "out of memory"}}}
	p, err := page.Tune(r)
	out := noted(t, p, err, 0)
	for _, want := range []string{"| batch | 512 | 1024 | x0.800 | 0.780 to 0.820 |", "gpuprof run e3nn --set batch=1024\n```", "paid once: 2.00 s of setting up (saved again after 12 steps)", "default: 2.00 us per probe (too few blocks for an interval)", "error: 3e-07", "memory: x1.90", "mem=huge", "&lt;faster&gt;"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	r = &tune.Result{Claims: []tune.ClaimRow{{ID: "dp-split", Claim: "shares", Measured: 0.5, CI95: [2]float64{0.4, 0.6}, What: "share of tp", Verdict: "smaller"}}}
	p, err = page.Tune(r)
	if out := noted(t, p, err, 0); !strings.Contains(out, "50.0 % (share of tp)") {
		t.Error(out)
	}
}
