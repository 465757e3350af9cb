package figure_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/compare"
	"github.com/gpuprof/gpuprof/internal/document"
	"github.com/gpuprof/gpuprof/internal/testkit/fixture"
	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/trace/model"
	"github.com/gpuprof/gpuprof/internal/tune"
	"github.com/gpuprof/gpuprof/report/figure"
)

var evil = document.CleanText(strings.Repeat("</svg><script>alert(1)</script>\x00\u202e\xff", 300)) // 10 kB

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
	fixture.Watch(long)
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
	wild := fixture.Tuned()
	wild.Workload, wild.Device, wild.DeviceDoc, wild.Reason, wild.Status, wild.Recommended.Command = evil, evil, evil, evil, gpuprof.Partial, evil
	for _, v := range []float64{0, -1, math.NaN(), math.Inf(1), 1e300, 1e-300} {
		wild.Effects = append(wild.Effects, tune.Effect{Knob: evil, From: evil, To: evil, Ratio: v, CI95: [2]float64{v, -v}, Verdict: tune.Verdict(evil)}, tune.Effect{Ratio: 1, CI95: [2]float64{1 / v, v}})
		wild.Curves[0].Points = append(wild.Curves[0].Points, tune.CurvePoint{Value: evil, Median: v, CI95: [2]float64{v, v}})
	}
	for name, r := range map[string]*tune.Result{"wild": wild, "claims": fixture.Claimed(), "empty": {}} {
		for _, kind := range append(figure.Kinds(), "") {
			f, err := figure.OfTuning(r, kind)
			check("tuning "+name+" "+kind, f, err)
		}
	}
	a, xs := fixture.Study(t, "item-fires.json")
	strange := *a
	strange.Inputs = []analyze.Input{{Path: evil}}
	strange.Steps = []analyze.StepTime{{Name: "ProfilerStep#" + evil, DurNS: math.MaxInt64, StarvedNS: math.MaxInt64, Classes: map[model.Class]int64{"x": 1, model.GEMM: -5}}}
	strange.Devices = []analyze.DeviceAccount{{Name: evil, SpanNS: 1, StarvedNS: math.MaxInt64}}
	for name, s := range map[string]*analyze.Analysis{"strange": &strange, "empty": {}} {
		for _, kind := range append(figure.Kinds(), "") {
			f, err := figure.OfAnalysis(s, xs, kind)
			check("analysis "+name+" "+kind, f, err)
			f, err = figure.OfTraces(&analyze.Comparison{Old: s, New: a, StepOldNS: 1, StepNewNS: math.MaxInt64, Classes: []analyze.Change{{Name: evil, NewNS: math.MaxInt64}}}, nil, nil, kind)
			check("traces "+name+" "+kind, f, err)
		}
	}
}
