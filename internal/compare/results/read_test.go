package results

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/compare"
	"github.com/gpuprof/gpuprof/internal/document"
)

func TestReadForeign(t *testing.T) {
	rs, format, err := Read(filepath.Join("testdata", "google.json"), OS)
	if err != nil || format != FormatGoogle || len(rs) != 1 {
		t.Fatalf("%d results, %s, %v", len(rs), format, err)
	}
	r := rs[0]
	if r.Tool != FormatGoogle || r.Status != gpuprof.Complete || r.Env["format"] != FormatGoogle || len(r.Failed) != 3 || filepath.Base(r.Source) != "google.json" {
		t.Errorf("%+v", r)
	}
	if m := r.Metric("BM_sum/64:bytes_per_second"); m == nil || !m.HigherIsBetter || m.Unit != "B/s" {
		t.Errorf("%+v", m)
	}
}

func TestManySkipsAreOneWarning(t *testing.T) {
	states := `{"is_skipped":true,"skip_reason":"too large","axis_values":[{"name":"n","value":"1"}]},{"is_skipped":true,"skip_reason":"odd"},`
	for i := range 10 {
		states += fmt.Sprintf(`{"is_skipped":true,"skip_reason":"too large","axis_values":[{"name":"n","value":"%d"}]},`, i)
	}
	rs, _, err := Parse([]byte(`{"devices":[],"benchmarks":[{"name":"a","states":[`+states+`{"summaries":[{"tag":"nv/cold/time/gpu/mean","data":[{"name":"value","value":"1"}]}]}]}]}`), "x", noSideFiles)
	if err != nil || len(rs[0].Warnings) != 1 || !strings.Contains(rs[0].Warnings[0].Text, "11 benchmarks were skipped, such as a[n=1]") || len(rs[0].Failed) != 0 {
		t.Errorf("%v %+v", err, rs)
	}
}

// aRun is a small run as gpuprof writes it.
func aRun(batch string, shift float64) *gpuprof.Run {
	series := func(v float64) *gpuprof.Series {
		s := &gpuprof.Series{Unit: "s"}
		for p := range 6 {
			s.Runs = append(s.Runs, []float64{v, v * 1.01, v * (1 + float64(p)/1000)})
		}
		s.Median = v
		return s
	}
	return &gpuprof.Run{
		Head: document.NewHead(document.Run, gpuprof.Tool{Name: "gpuprof", Version: "v0"}), Status: gpuprof.Complete, Workload: "e3nn", Preset: "small",
		Device: gpuprof.Env{Kind: "host", Name: "Example CPU"}, Knobs: gpuprof.Settings{"batch": batch}, Mode: gpuprof.Steady,
		Step: series(0.01 + shift), Stages: []gpuprof.StageResult{{Name: "gemm", Parent: "step", Exposed: series(0.01 + shift)}},
		Counters: map[string]float64{"sync_points": 2},
	}
}

func TestReadRuns(t *testing.T) {
	encoded := func(runs ...*gpuprof.Run) string {
		var b bytes.Buffer
		if err := document.EncodeRuns(&b, runs...); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	first, second := encoded(aRun("1", 0)), encoded(aRun("2", 0.01))
	for name, text := range map[string]string{"a sweep": encoded(aRun("1", 0), aRun("2", 0.01)), "runs one after the other": first + second, "a list, as earlier versions wrote": "[" + first + "," + second + "]"} {
		rs, format, err := Parse([]byte(text), "sweep.json", noSideFiles)
		if err != nil || format != FormatRun || len(rs) != 2 {
			t.Fatalf("%s: %d results, %s, %v", name, len(rs), format, err)
		}
		if rs[1].Knobs["batch"].Value != "2" || rs[0].Source != "sweep.json" || rs[0].Metric("step/gemm") == nil || !rs[0].Metric("sync_points").Exact {
			t.Errorf("%s: %+v", name, rs[1])
		}
	}
	if _, _, err := Parse([]byte(`{"schema_version":"1.0.0","workload":"e3nn"}`), "empty.json", noSideFiles); !errors.Is(err, gpuprof.ErrInput) {
		t.Errorf("a run without samples: %v", err)
	}
}

func TestMissingFile(t *testing.T) {
	_, _, err := Read(filepath.Join(t.TempDir(), "no.json"), OS)
	if !errors.Is(err, gpuprof.ErrUsage) {
		t.Error(err)
	}
}

// TestOneProcess: what one command repeated inside itself is one run.
func TestOneProcess(t *testing.T) {
	rs, _, err := Read(filepath.Join("testdata", "hyperfine.json"), OS)
	if err != nil {
		t.Fatal(err)
	}
	one := Process(rs[0])
	if m := one.Metrics[0]; len(m.Runs) != 1 || len(m.Runs[0]) != 6 {
		t.Errorf("%v", m.Runs)
	}
	if m := rs[0].Metrics[0]; len(m.Runs) != 6 {
		t.Errorf("the result itself was changed: %v", m.Runs)
	}
}

func result(tool string, metrics ...compare.MetricData) *compare.Result {
	return &compare.Result{Tool: tool, Status: gpuprof.Complete, Env: map[string]string{"cpu": "A"}, Metrics: metrics}
}

func metric(name string, exact bool, runs ...[]float64) compare.MetricData {
	return compare.MetricData{Metric: compare.Metric{Name: name, Exact: exact}, Runs: runs}
}

func TestMerge(t *testing.T) {
	a := result("x", metric("time", false, []float64{1, 2}), metric("gone", false, []float64{5}), metric("allocs", true, []float64{3}))
	b := result("x", metric("time", false, []float64{3}), metric("new", false, []float64{6}), metric("allocs", true, []float64{4}))
	b.Env["cpu"], b.Failed, b.Status, b.Reason = "B", []string{"gone: boom"}, gpuprof.Partial, "stopped"
	m, err := Merge(a, b, a)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string][][]float64{}
	for _, d := range m.Metrics {
		got[d.Name] = d.Runs
	}
	want := map[string][][]float64{"time": {{1, 2}, {3}, {1, 2}}, "gone": {{5}, nil, {5}}, "new": {nil, {6}, nil}, "allocs": {{3}, {4}, {3}}}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if m.Env["cpu"] != "A; B" || len(m.Failed) != 1 || m.Status != gpuprof.Partial || m.Metric("allocs").Exact {
		t.Errorf("%+v", m)
	}
	if len(a.Metrics[0].Runs) != 1 || a.Env["cpu"] != "A" {
		t.Errorf("an input was changed: %+v", a)
	}
	same, err := Merge(result("x", metric("allocs", true, []float64{3})), result("x", metric("allocs", true, []float64{3})))
	if err != nil || !same.Metric("allocs").Exact {
		t.Error("a count that repeats stopped being exact")
	}
	ours, err := Merge(result("gpuprof", metric("launches", true, []float64{3})), result("gpuprof", metric("launches", true, []float64{4})))
	if err != nil || !ours.Metric("launches").Exact {
		t.Error("a counter of gpuprof stopped being exact")
	}
	if _, err := Merge(); !errors.Is(err, gpuprof.ErrInput) {
		t.Error(err)
	}
}

// check holds for whatever a reader returns.
func check(t *testing.T, rs []*compare.Result, err error) {
	t.Helper()
	if err != nil {
		if !errors.Is(err, gpuprof.ErrInput) || rs != nil {
			t.Errorf("%v is no input error, or came with results", err)
		}
		return
	}
	for _, r := range rs {
		var names []string
		for _, m := range r.Metrics {
			names = append(names, m.Name)
			if m.Unit != "s" {
				continue
			}
			for _, v := range slices.Concat(m.Runs...) {
				if r.Tool != "gpuprof" && (math.IsNaN(v) || v < 0) {
					t.Errorf("%s: %v is no time", m.Name, v)
				}
			}
		}
		slices.Sort(names)
		if len(slices.Compact(names)) != len(r.Metrics) {
			t.Errorf("a metric is there twice: %q", names)
		}
	}
	if len(rs) == 0 {
		t.Error("no result and no error")
	}
}

// fuzz feeds a reader its own fixtures, cut and changed, and a sample file.
func fuzz(f *testing.F, files ...string) {
	for _, name := range files {
		text, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text, []byte{0, 0, 128, 63})
	}
	f.Fuzz(func(t *testing.T, text, side []byte) {
		rs, _, err := Parse(text, "dir/x.json", func(string) ([]byte, error) { return side, nil })
		check(t, rs, err)
	})
}

func FuzzGo(f *testing.F)        { fuzz(f, "gobench.txt") }
func FuzzNVBench(f *testing.F)   { fuzz(f, "nvbench.json", "nvbench-means.json") }
func FuzzGoogle(f *testing.F)    { fuzz(f, "google.json") }
func FuzzPytest(f *testing.F)    { fuzz(f, "pytest.json", "pytest-no-rounds.json") }
func FuzzHyperfine(f *testing.F) { fuzz(f, "hyperfine.json") }
func FuzzForeign(f *testing.F) {
	fuzz(f, "bmf.json", "github-custom.json", "github-data.js", "asv.json", "jmh.json", "vllm.json", "aiperf.json", "guidellm.json")
}

func FuzzRun(f *testing.F) {
	var b bytes.Buffer
	if err := document.EncodeRuns(&b, aRun("1", 0)); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Add([]byte(`{"schema_version":"1.0.0","step_source":"","findings":[{"rule":"item","evidence":{"reads_step":2}}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		rs, _, err := Parse(text, "x.json", noSideFiles)
		check(t, rs, err)
	})
}
