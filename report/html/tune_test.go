package html_test

import (
	"io"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/document"
	"github.com/gpuprof/gpuprof/internal/tune"
	"github.com/gpuprof/gpuprof/report/page"
)

// tuned is a made-up search: nothing in it was measured.
func tuned() *tune.Result {
	return &tune.Result{
		Head: document.NewHead(document.Tune, gpuprof.Tool{Name: "gpuprof", Version: "0.0.0-test"}), Status: gpuprof.Complete,
		Started: time.Date(2026, 3, 14, 9, 26, 53, 0, time.UTC), Workload: "e3nn", Preset: "small", Device: "host", DeviceDoc: "Made-up CPU (test fixture)",
		Goal: tune.Time, Unit: "s per probe", BudgetS: 300, SpentS: 241, Seed: 1, MaxError: 1e-2, Set: gpuprof.Settings{"edges": "40"},
		Default: &tune.Point{Knobs: gpuprof.Settings{"batch": "128"}, Median: 12.4e-6, CI95: [2]float64{12.1e-6, 12.8e-6}},
		Recommended: &tune.Recommended{Knobs: gpuprof.Settings{"batch": "512", "sync": "never"}, Command: "gpuprof run e3nn --set batch=512 --set sync=never",
			Ratio: 0.712, CI95: [2]float64{0.698, 0.729}, Processes: 6, Confirmed: true, Text: "batch=512 sync=never: time x0.712 against the default", Error: 3.1e-7, MemoryRatio: 3.71,
			PyTorch: []string{"loader = DataLoader(dataset, batch_size=512)", "remove torch.cuda.synchronize()"}, OneTime: map[string]float64{"pin_s": 0.02}, PaybackSteps: 31},
		Conclusion:    tune.Conclusion{Verdict: tune.Recommends, Text: "batch=512 sync=never: time x0.712 against the default", Command: "gpuprof run e3nn --set batch=512 --set sync=never"},
		Confirmations: []tune.Confirmation{{Knobs: gpuprof.Settings{"batch": "512", "sync": "never"}, Ratio: 0.712, Interval: [2]float64{0.69, 0.735}, Level: 0.997, Processes: 6, Confirmed: true}},
		Effects: []tune.Effect{
			{Knob: "batch", From: "128", To: "512", Ratio: 0.76, CI95: [2]float64{0.74, 0.78}, Error: 3e-7, MemoryRatio: 3.71, Verdict: tune.Faster, Pairs: 12, PyTorch: "loader = DataLoader(dataset, batch_size=512)"},
			{Knob: "sync", From: "step", To: "never", Ratio: 0.94, CI95: [2]float64{0.92, 0.96}, Verdict: tune.Faster, Pairs: 12},
			{Knob: "impl", From: "csr", To: "unfused", Ratio: 1.61, CI95: [2]float64{1.55, 1.67}, Verdict: tune.Slower, Pairs: 12},
			{Knob: "deterministic", From: "off", To: "on", Ratio: 1.004, CI95: [2]float64{0.991, 1.017}, Verdict: tune.None, Pairs: 12},
			{Knob: "threads", From: "all", To: "1", Ratio: 1.1, CI95: [2]float64{0.2, 6.1}, Verdict: tune.Inconclusive, Pairs: 2, Reason: "the interval holds both"},
			{Knob: "batch", From: "128", To: "8192", Verdict: tune.Refused, Reason: "it would take 3.1 GiB"},
		},
		Curves: []tune.Curve{{Knob: "batch", Unit: "s per probe", Knee: "512", Points: []tune.CurvePoint{
			{Value: "64", Median: 15.1e-6, CI95: [2]float64{14.9e-6, 15.4e-6}}, {Value: "128", Median: 12.4e-6, CI95: [2]float64{12.1e-6, 12.8e-6}},
			{Value: "512", Median: 9.4e-6, CI95: [2]float64{9.2e-6, 9.6e-6}}, {Value: "2048", Median: 9.2e-6, CI95: [2]float64{1e-7, 9.2e-4}}}}},
		Peers:  []tune.Peer{{Name: "e3nn", Figure: "tensor_product", Unit: "s", Value: 0.02, Ours: 0.004, Recorded: "2026-03-01T10:00:00Z"}},
		Failed: []tune.Failure{{Knobs: gpuprof.Settings{"batch": "8192"}, Error: "out of memory"}},
	}
}

// claimed is a made-up test of claims that was cut short.
func claimed() *tune.Result {
	return &tune.Result{
		Head: document.NewHead(document.Tune, gpuprof.Tool{Name: "gpuprof"}), Status: gpuprof.Partial, Reason: "the budget ended", Device: "host", DeviceDoc: "Made-up CPU (test fixture)", BudgetS: 360, SpentS: 361,
		Claims: []tune.ClaimRow{
			{ID: "ef-sync", Guide: "Energy Flow", Claim: "synchronising blocks every step", Figure: "every step", AB: "sync=step -> sync=never", Measured: 1.12, CI95: [2]float64{1.08, 1.16}, Verdict: "confirmed", Details: []string{"sync points 1 -> 0"}},
			{ID: "ph-vec", Guide: "pharmagen", Claim: "vectorised preprocessing", Figure: "10-100x", AB: "impl=naive -> impl=bulk", Measured: 1.9, CI95: [2]float64{1.7, 2.1}, Verdict: "smaller"},
			{ID: "dp-split", Guide: "DeePAW", Claim: "where a batch's time goes", Figure: "63, 16, 8 %", Measured: 0.58, CI95: [2]float64{0.55, 0.61}, What: "of the largest stage", Verdict: "confirmed"},
			{ID: "rx-ddp", Guide: "RxVision", Claim: "DDP", Figure: "faster", Verdict: "not measurable here", Reason: "a tool at the level of the driver cannot measure it"},
		},
	}
}

var evil = document.CleanText("</script><script>window.hit=1</script><img src=x onerror=window.hit=1>\u202e\x00\xff")

// hostileTune is a result whose every text and number tries to break the page.
func hostileTune() *tune.Result {
	r, long, nan := tuned(), strings.Repeat("very-long-label-", 640), math.NaN()
	r.Workload, r.Preset, r.DeviceDoc, r.Reason, r.Status = evil, long, evil, evil, gpuprof.Status(evil)
	r.Tool.Version, r.Unit, r.Goal = evil, evil, tune.Goal(evil)
	r.Conclusion.Text, r.Conclusion.Command, r.Recommended.PyTorch = evil+long, long, []string{evil}
	r.Confirmations[0] = tune.Confirmation{Knobs: gpuprof.Settings{evil: long}, Ratio: nan, Interval: [2]float64{nan, math.Inf(1)}, Reason: evil}
	r.Effects[0] = tune.Effect{Knob: evil, From: evil, To: long, Ratio: nan, CI95: [2]float64{nan, math.Inf(1)}, Verdict: tune.Verdict(evil), Reason: evil}
	r.Effects[1].CI95 = [2]float64{math.Inf(-1), math.Inf(1)}
	r.Effects[2].Ratio = 1e300
	r.Curves[0].Knob, r.Curves[0].Points[1] = evil, tune.CurvePoint{Value: evil, Median: nan, CI95: [2]float64{nan, nan}}
	r.Curves = append(r.Curves, tune.Curve{Knob: long, Unit: evil})
	r.Failed[0] = tune.Failure{Knobs: gpuprof.Settings{evil: long}, Error: evil}
	return r
}

func tunePage(r *tune.Result) func(io.Writer) error {
	return func(w io.Writer) error { return writePage(w)(page.Tune(r)) }
}

func TestWhatATunePageSays(t *testing.T) {
	for name, c := range map[string]struct {
		page func(io.Writer) error
		want []string
		not  []string
	}{
		"search": {tunePage(tuned()), []string{"x0.712", "confirmed in 6 fresh processes", "confirmed: batch=512, sync=never", "gpuprof run e3nn --set batch=512 --set sync=never", "Effect of each knob", "knee at 512", "12.4 us per probe",
			"<strong>batch=8192</strong>: out of memory", "saved again after 31 steps", "tensor_product: e3nn takes", ">x0.8<", "us per probe", "it would take 3.1 GiB"}, []string{"Claims of tuning guides", "PARTIAL", "The data of this report is embedded"}},
		"claims":       {tunePage(claimed()), []string{"2 of 4 confirmed", "the budget ended", "4 claims of tuning guides were tested here: 2 confirmed, 1 not measurable here, 1 smaller", "x1.120", "58.0 % (of the largest stage)", "sync points 1 -> 0"}, []string{"Recommendation", "Effect of each knob"}},
		"default best": {tunePage(&tune.Result{Status: gpuprof.Complete, Conclusion: tune.Conclusion{Verdict: tune.DefaultBest, Text: "the default is best"}}), []string{"The default is best."}, []string{"x1.000"}},
		"nothing yet":  {tunePage(&tune.Result{Status: gpuprof.Partial}), []string{"nothing is recommended", "did not come to its end"}, nil},
	} {
		says(t, name, written(t, c.page), c.want, c.not)
	}
}
