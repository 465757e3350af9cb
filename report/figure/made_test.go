package figure_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/compare"
	"github.com/gpuprof/gpuprof/internal/document"
	"github.com/gpuprof/gpuprof/internal/trace"
	"github.com/gpuprof/gpuprof/internal/tune"
	"github.com/gpuprof/gpuprof/report/figure"
	"github.com/gpuprof/gpuprof/report/internal/fixture"
)

var evil = document.CleanText(strings.Repeat("</svg><script>alert(1)</script>\x00\u202e\xff", 300)) // 10 kB

// watched gives a made-up run the telemetry of a made-up GPU, which throttles
// and has one reading missing.
func watched(r *gpuprof.Run) {
	track := func(unit string, f func(i int) float64) gpuprof.Track {
		t := gpuprof.Track{Unit: unit}
		for i := range 60 {
			t.TimeS, t.Value = append(t.TimeS, 0.02*float64(i)), append(t.Value, gpuprof.Number(f(i)))
		}
		return t
	}
	r.Telemetry = map[string]gpuprof.Track{
		"gpu_power": track("W", func(i int) float64 {
			if i == 30 {
				return math.NaN()
			}
			return 300 + 100*math.Sin(float64(i)/8)
		}),
		"gpu_sm_clock":        track("Hz", func(i int) float64 { return 1.98e9 - 3e6*float64(i) }),
		"gpu_temperature":     track("C", func(i int) float64 { return 50 + float64(i)/4 }),
		"gpu_memory_used":     track("B", func(int) float64 { return 3 << 30 }),
		"process_cpu_time":    track("s", func(i int) float64 { return 0.03 * float64(i) }),
		"rss":                 track("B", func(i int) float64 { return float64(i) * (1 << 22) }),
		"page_faults":         track("1", func(i int) float64 { return float64(i * i) }),
		"gpu_throttled_power": track("s", func(i int) float64 { return 0.02 * float64(max(i-40, 0)) }),
	}
	r.Order, r.Flags = nil, nil
	for i := range 90 {
		r.Order, r.Flags = append(r.Order, gpuprof.Order{Block: i / 10, Side: i / 10 % 2, StartS: 0.1 + 0.011*float64(i)}), append(r.Flags, nil)
		if i%7 == 3 {
			r.Flags[i] = []string{"power-capped"}
		}
	}
}

func tuned() *tune.Result {
	return &tune.Result{Head: document.NewHead(document.Tune, gpuprof.Tool{Name: "gpuprof", Version: "v0-test"}), Workload: "e3nn", Preset: "small", Device: "host", DeviceDoc: "a CPU", Goal: tune.Time,
		Unit: "s per probe", Status: gpuprof.Complete, Started: time.Date(2026, 3, 14, 15, 9, 26, 0, time.UTC),
		Recommended: &tune.Recommended{Knobs: gpuprof.Settings{"batch": "1024"}, Command: "gpuprof run e3nn --set batch=1024", Ratio: 0.8, CI95: [2]float64{0.78, 0.82}, Processes: 3, Confirmed: true},
		Effects: []tune.Effect{
			{Knob: "batch", From: "512", To: "256", Ratio: 1.5, CI95: [2]float64{1.4, 1.6}, Verdict: tune.Slower},
			{Knob: "batch", From: "512", To: "1024", Ratio: 0.8, CI95: [2]float64{0.78, 0.82}, Verdict: tune.Faster},
			{Knob: "sync", From: "never", To: "step", Ratio: 1.002, CI95: [2]float64{0.995, 1.009}, Verdict: tune.None},
			{Knob: "item_reads", From: "packed", To: "16", Ratio: 1.1, CI95: [2]float64{0.2, 9}, Verdict: tune.Inconclusive},
			{Knob: "precision", From: "fp32", To: "bf16", Verdict: tune.Refused, Reason: "its error against float64, 0.05, is above --max-error 0.01"}},
		Curves: []tune.Curve{{Knob: "batch", Unit: "s per probe", Knee: "512", Points: []tune.CurvePoint{
			{Value: "256", Median: 3e-6, CI95: [2]float64{2.8e-6, 3.2e-6}}, {Value: "512", Median: 2e-6, CI95: [2]float64{1.9e-6, 2.1e-6}}, {Value: "1024", Median: 1.6e-6, CI95: [2]float64{1.5e-6, 1.7e-6}}}}}}
}

func claimed() *tune.Result {
	r := tuned()
	r.Workload, r.Preset, r.Effects, r.Curves, r.Recommended = "", "", nil, nil, nil
	r.Claims = []tune.ClaimRow{
		{ID: "ph-async", Claim: "non_blocking copies", Figure: "20-30 %", Measured: 1.25, CI95: [2]float64{1.2, 1.3}, Verdict: "holds"},
		{ID: "a/a", Claim: "nothing is changed", Figure: "x1", Measured: 1.001, CI95: [2]float64{0.99, 1.01}, Verdict: "none"},
		{ID: "dp-split", Measured: 0.5, CI95: [2]float64{0.49, 0.51}, What: "share of tp", Verdict: "smaller"}}
	return r
}

// hostileRuns are the fixtures and what a stranger's file may hold.
func hostileRuns() map[string]*gpuprof.Run {
	out := fixture.Every()
	out["one sample"] = fixture.Complete(fixture.Options{Samples: 1})
	none := fixture.One()
	none.Stages = nil
	out["no stages"] = none
	many := fixture.Complete(fixture.Options{Samples: 2})
	for i := range 10_000 {
		s := many.Stages[i%5]
		s.Name = fmt.Sprintf("stage %d", i)
		many.Stages = append(many.Stages, s)
	}
	out["10,000 stages"] = many
	long := fixture.One()
	watched(long)
	long.Workload, long.Preset, long.Device.Name = evil, evil, evil
	for i := range long.Stages {
		long.Stages[i].Name += evil
	}
	long.Telemetry[evil] = gpuprof.Track{Unit: evil, TimeS: []float64{1, 0, 1, math.Inf(1)}, Value: []gpuprof.Number{1, 2}}
	long.Telemetry["rss"] = gpuprof.Track{TimeS: []float64{math.NaN(), 0, 0, 0}, Value: []gpuprof.Number{1e308, -1e308, 1e308, 1}}
	long.Telemetry["throttled"] = gpuprof.Track{TimeS: []float64{0, math.Inf(1)}, Value: []gpuprof.Number{0, 1}}
	long.Flags = append(long.Flags, []string{evil})
	out["10 kB names"] = long
	return out
}

// TestHostileDocuments: no comparison, tuning or analysis breaks a picture.
func TestHostileDocuments(t *testing.T) {
	check := func(name string, f *figure.Figure, err error) {
		t.Helper()
		if err != nil {
			checkSVG(t, name, "", err)
			return
		}
		checkAll(t, name, f)
	}
	nan := gpuprof.Number(math.NaN())
	odd := fixture.GateRegressed()
	odd.Causes[0].Change, odd.Causes[1].Stage = nan, evil
	odd.Metrics[0].CI95 = [2]gpuprof.Number{nan, gpuprof.Number(math.Inf(1))}
	odd.Metrics[0].Samples = &compare.SideSamples{Old: compare.Samples{{math.NaN()}, nil, {0}}}
	for i := range 10_000 {
		odd.Causes = append(odd.Causes, compare.Cause{Stage: fmt.Sprint(evil[:100], i), ShareOfChange: math.NaN(), Change: gpuprof.Number(i) * 1e-6})
	}
	for name, c := range map[string]*compare.Comparison{"hostile": fixture.GateHostile(), "odd": odd, "empty": {}, "many": fixture.GateMany(10_000, 3), "unsure": fixture.GateUnsure()} {
		for _, kind := range append(figure.Kinds(), "") {
			f, err := figure.OfComparison(c, kind)
			check("comparison "+name+" "+kind, f, err)
		}
	}
	wild := tuned()
	wild.Workload, wild.Device, wild.DeviceDoc, wild.Reason, wild.Status, wild.Recommended.Command = evil, evil, evil, evil, gpuprof.Partial, evil
	for _, v := range []float64{0, -1, math.NaN(), math.Inf(1), 1e300, 1e-300} {
		wild.Effects = append(wild.Effects, tune.Effect{Knob: evil, From: evil, To: evil, Ratio: v, CI95: [2]float64{v, -v}, Verdict: tune.Verdict(evil)}, tune.Effect{Ratio: 1, CI95: [2]float64{1 / v, v}})
		wild.Curves[0].Points = append(wild.Curves[0].Points, tune.CurvePoint{Value: evil, Median: v, CI95: [2]float64{v, v}})
	}
	for name, r := range map[string]*tune.Result{"wild": wild, "claims": claimed(), "empty": {}} {
		for _, kind := range append(figure.Kinds(), "") {
			f, err := figure.OfTuning(r, kind)
			check("tuning "+name+" "+kind, f, err)
		}
	}
	a, xs := fixture.Study(t, "item-fires.json")
	strange := *a
	strange.Inputs = []trace.Input{{Path: evil}}
	strange.Steps = []trace.StepTime{{Name: "ProfilerStep#" + evil, DurNS: math.MaxInt64, StarvedNS: math.MaxInt64, Classes: map[trace.Class]int64{"x": 1, trace.GEMM: -5}}}
	strange.Devices = []trace.DeviceAccount{{Name: evil, SpanNS: 1, StarvedNS: math.MaxInt64}}
	for name, s := range map[string]*trace.Analysis{"strange": &strange, "empty": {}} {
		for _, kind := range append(figure.Kinds(), "") {
			f, err := figure.OfAnalysis(s, xs, kind)
			check("analysis "+name+" "+kind, f, err)
			f, err = figure.OfTraces(&trace.Comparison{Old: s, New: a, StepOldNS: 1, StepNewNS: math.MaxInt64, Classes: []trace.Change{{Name: evil, NewNS: math.MaxInt64}}}, nil, nil, kind)
			check("traces "+name+" "+kind, f, err)
		}
	}
}
