package benchfmt_test

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"golang.org/x/perf/benchfmt"
	"golang.org/x/perf/benchmath"

	"github.com/gpuprof/gpuprof/internal/compare"
	ours "github.com/gpuprof/gpuprof/report/benchfmt"
)

// benchstat reads both sides: a line a process, the median of each side within
// 0.1 % of ours, the direction and the exactness of every unit.
func TestComparisonForBenchstat(t *testing.T) {
	old, now := compare.Samples{}, compare.Samples{}
	for k := range 6 {
		x := 1e-3 * (1 + 0.01*float64(k))
		old, now = append(old, []float64{x, x * 1.1, x * 0.9}), append(now, []float64{2 * x, math.NaN()})
	}
	hostile := "a b/c=d\n\"-8"
	c := &compare.Comparison{Workload: "e3nn", Preset: "small", Metrics: []compare.MetricResult{
		{Name: "step", Unit: "s", Old: 1.025e-3, New: 2.05e-3, Samples: &compare.SideSamples{Old: old, New: now}},
		{Name: "throughput", Unit: "probes/s", HigherIsBetter: true, Samples: &compare.SideSamples{Old: compare.Samples{{5}}, New: compare.Samples{{6}}}},
		{Name: "sync_points", Unit: "count", Exact: true, Samples: &compare.SideSamples{Old: compare.Samples{{2}}, New: compare.Samples{{3}}}},
		{Name: hostile, Unit: hostile, Samples: &compare.SideSamples{Old: compare.Samples{{1}, {}}}},
		{Name: "gone", Unit: "s"},
	}}
	var b bytes.Buffer
	if err := ours.WriteComparison(&b, c); err != nil {
		t.Fatal(err)
	}
	values := map[string][]float64{}
	r := benchfmt.NewReader(strings.NewReader(b.String()), "x.bench")
	for r.Scan() {
		switch rec := r.Result().(type) {
		case *benchfmt.SyntaxError:
			t.Error(rec)
		case *benchfmt.Result:
			for _, v := range rec.Values {
				key := string(rec.Name) + " " + v.Unit
				values[key] = append(values[key], v.Value)
			}
		}
	}
	for side, want := range map[string]float64{"old": 1.025e-3, "new": 2.05e-3} {
		got := values["E3nn/preset=small/metric=step/side="+side+" sec/op"]
		s := benchmath.AssumeNothing.Summary(benchmath.NewSample(got, &benchmath.DefaultThresholds), 0.95)
		if len(got) != 6 || math.Abs(s.Center/want-1) > 1e-3 {
			t.Errorf("%s: %v, centre %g, want %g", side, got, s.Center, want)
		}
	}
	if len(values) != 7 {
		t.Errorf("%d sides of metrics: %v", len(values), values)
	}
	if u := r.Units(); u.GetBetter("probes/s") != 1 || u.GetAssumption("sync-points/op") != benchmath.AssumeExact || u.GetAssumption("sec/op") == benchmath.AssumeExact {
		t.Errorf("units %v", u)
	}
	if err := ours.WriteComparison(&b, nil); err == nil {
		t.Error("nothing was written without an error")
	}
}
