package metrics_test

import (
	"bytes"
	"encoding/json"
	"io"
	"math"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/compare"
	"github.com/gpuprof/gpuprof/internal/compare/results"
	"github.com/gpuprof/gpuprof/internal/testkit/fixture"
	"github.com/gpuprof/gpuprof/report/metrics"
	"github.com/gpuprof/gpuprof/report/runfile"
)

// aComparison is of a time, a rate, a counter and a figure that is no number.
func aComparison() *compare.Comparison {
	return &compare.Comparison{Metrics: []compare.MetricResult{
		{Name: "solve \"n\"\\x", Unit: "s", Old: 1, New: 2e-3, Samples: &compare.SideSamples{New: compare.Samples{{2e-3}, {1e-3, 1e-3}, {4e-3}}}},
		{Name: "rate", Unit: "items/s", New: 500, HigherIsBetter: true},
		{Name: "allocs", Unit: "count", New: 7, Exact: true},
		{Name: "gone", Unit: "s", Old: 1, New: gpuprof.Number(math.NaN())},
	}}
}

// gpuprof's own reader takes a file of Bencher's format back, with the same figures in base units.
func TestBMFIsReadBack(t *testing.T) {
	for name, write := range map[string]func(io.Writer) error{
		"a comparison": func(w io.Writer) error { return metrics.WriteComparisonBMF(w, aComparison()) },
		"runs":         func(w io.Writer) error { return metrics.WriteBMF(w, fixture.Sweep()) },
	} {
		var b bytes.Buffer
		if err := write(&b); err != nil {
			t.Fatal(name, err)
		}
		rs, format, err := results.Parse(b.Bytes(), "x.bmf.json", results.OS)
		if err != nil || format != results.FormatBMF {
			t.Fatalf("%s: %s, %v:\n%s", name, format, err, &b)
		}
		if name == "runs" {
			if n := len(rs[0].Metrics); n < 2*len(fixture.Sweep()) {
				t.Errorf("%d metrics of %d runs", n, len(fixture.Sweep()))
			}
			continue
		}
		want := map[string]float64{"gpuprof/solve \"n\"\\x": 2e-3, "gpuprof/rate:throughput": 500, "gpuprof/allocs:count": 7}
		if len(rs[0].Metrics) != len(want) {
			t.Errorf("%+v", rs[0].Metrics)
		}
		for _, m := range rs[0].Metrics {
			if v := want[m.Name]; math.Abs(m.Runs[0][0]-v) > 1e-12*v || m.Undirected != (m.Name == "gpuprof/allocs:count") || m.HigherIsBetter != (v == 500) {
				t.Errorf("%+v, want %v", m, v)
			}
		}
		var file map[string]map[string]map[string]float64
		if err := json.Unmarshal(b.Bytes(), &file); err != nil {
			t.Fatal(err)
		}
		if v := file["gpuprof/solve \"n\"\\x"]["latency"]; math.Abs(v["lower_value"]-1e6) > 1 || math.Abs(v["upper_value"]-4e6) > 1 {
			t.Errorf("the range of the processes is %+v", v)
		}
	}
}

// openMetricsLine is a line of a gauge by the grammar of OpenMetrics 1.0.
var openMetricsLine = regexp.MustCompile(`^(\w+)\{((?:\w+="(?:[^"\\\n]|\\[\\"n])*",?)*)\} (\S+)$`)

func TestOpenMetrics(t *testing.T) {
	var b bytes.Buffer
	if err := metrics.WriteComparisonOpenMetrics(&b, aComparison()); err != nil {
		t.Fatal(err)
	}
	want := map[string]float64{
		`gpuprof_result_seconds metric="solve \"n\"\\x",process="median"`:    2e-3,
		`gpuprof_result_seconds metric="solve \"n\"\\x",process="lowest"`:    1e-3,
		`gpuprof_result_seconds metric="solve \"n\"\\x",process="highest"`:   4e-3,
		`gpuprof_result_value metric="rate",process="median",unit="items/s"`: 500,
		`gpuprof_result_value metric="allocs",process="median",unit="count"`: 7,
	}
	lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
	family := ""
	for i, line := range lines {
		if words := strings.Fields(line); words[0] == "#" {
			if last := line == "# EOF"; last != (i == len(lines)-1) {
				t.Errorf("line %d: %s", i+1, line)
			}
			if words[1] == "TYPE" {
				family = words[2]
			}
			continue
		}
		m := openMetricsLine.FindStringSubmatch(line)
		if len(m) != 4 || m[1] != family {
			t.Errorf("line %d is no gauge of %s: %s", i+1, family, line)
			continue
		}
		v, err := strconv.ParseFloat(m[3], 64)
		if w, there := want[m[1]+" "+m[2]]; err != nil || there && v != w {
			t.Errorf("%s, want %v", line, w)
		}
		delete(want, m[1]+" "+m[2])
	}
	if len(want) > 0 {
		t.Errorf("missing %v in\n%s", want, &b)
	}
}

// Runs without times, and a comparison without figures, are errors, and a file of another program is not replaced.
func TestMetricsOfNothing(t *testing.T) {
	for name, err := range map[string]error{
		"no run":        metrics.WriteBMF(io.Discard, nil),
		"no times":      metrics.WriteOpenMetrics(io.Discard, []*gpuprof.Run{{Status: gpuprof.Invalid}}),
		"no comparison": metrics.WriteComparisonBMF(io.Discard, nil),
		"no figure":     metrics.WriteComparisonOpenMetrics(io.Discard, &compare.Comparison{}),
	} {
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	for _, ext := range []string{".bmf.json", ".openmetrics"} {
		path := filepath.Join(t.TempDir(), "x"+ext)
		for range 2 {
			if err := runfile.Write(path, false, func(w io.Writer) error {
				if ext == ".openmetrics" {
					return metrics.WriteComparisonOpenMetrics(w, aComparison())
				}
				return metrics.WriteComparisonBMF(w, aComparison())
			}); err != nil {
				t.Errorf("%s: %v", ext, err)
			}
		}
	}
}
