package results

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/compare"
	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/trace/read/kineto"
	"github.com/gpuprof/gpuprof/internal/trace/rules"
)

func study(t testing.TB, texts map[string][]byte) (*analyze.Analysis, []*analyze.Index) {
	t.Helper()
	var xs []*analyze.Index
	for name, b := range texts {
		tr, err := kineto.Read(context.Background(), bytes.NewReader(b), name, 0)
		if err != nil {
			t.Fatal(err)
		}
		x, err := analyze.NewIndex(context.Background(), tr)
		if err != nil {
			t.Fatal(err)
		}
		xs = append(xs, x)
	}
	a, err := analyze.SummariseIndexes(context.Background(), xs, analyze.Options{Rules: rules.Rules})
	if err != nil {
		t.Fatal(err)
	}
	return a, xs
}

func traceFile(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "..", "..", "testdata", "traces", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// twoSteps is a trace whose counts are known by construction: a first step
// that is dropped, then one with a synchronisation, a pageable and a pinned
// copy and two kernels, and one with three synchronisations and an item().
func twoSteps() []byte {
	type ev map[string]any
	var out []ev
	corr := 0
	step := func(n int, from, dur float64) {
		out = append(out, ev{"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#" + string(rune('0'+n)), "pid": 1, "tid": 1, "ts": from, "dur": dur})
	}
	frame := func(name string, from, dur float64) {
		out = append(out, ev{"ph": "X", "cat": "python_function", "name": name, "pid": 1, "tid": 1, "ts": from, "dur": dur})
	}
	call := func(name string, from, dur float64) {
		corr++
		out = append(out, ev{"ph": "X", "cat": "cuda_runtime", "name": name, "pid": 1, "tid": 1, "ts": from, "dur": dur, "args": ev{"correlation": corr}})
	}
	gpu := func(cat, name string, from, dur float64, args ev) {
		all := ev{"correlation": corr, "device": 0, "stream": 7}
		for k, v := range args {
			all[k] = v
		}
		out = append(out, ev{"ph": "X", "cat": cat, "name": name, "pid": 0, "tid": 7, "ts": from, "dur": dur, "args": all})
	}
	kernel := func(at float64) {
		call("cudaLaunchKernel", at, 5)
		gpu("kernel", "my_kernel", at+6, 10, nil)
	}
	step(1, 0, 1000)
	kernel(100)
	call("cudaDeviceSynchronize", 200, 10) // warm-up: not counted
	step(2, 1000, 1000)
	frame("train.py(41): step", 1001, 900)
	kernel(1100)
	kernel(1200)
	call("cudaMemcpyAsync", 1300, 5)
	gpu("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", 1306, 20, ev{"bytes": 1000})
	call("cudaMemcpyAsync", 1400, 5)
	gpu("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", 1406, 20, ev{"bytes": 500})
	call("cudaStreamSynchronize", 1500, 10)
	step(3, 2000, 1000)
	frame("train.py(57): log", 2001, 900)
	for i := range 2 {
		call("cudaStreamSynchronize", 2100+100*float64(i), 10)
	}
	out = append(out, ev{"ph": "X", "cat": "cpu_op", "name": "aten::item", "pid": 1, "tid": 1, "ts": 2400, "dur": 100.0},
		ev{"ph": "X", "cat": "cpu_op", "name": "aten::_local_scalar_dense", "pid": 1, "tid": 1, "ts": 2401, "dur": 98.0})
	call("cudaMemcpyAsync", 2410, 5)
	gpu("gpu_memcpy", "Memcpy DtoH (Device -> Pageable)", 2416, 5, ev{"bytes": 4})
	call("cudaStreamSynchronize", 2420, 10)
	// item() of a tensor in host memory waits for nothing.
	out = append(out, ev{"ph": "X", "cat": "cpu_op", "name": "aten::_local_scalar_dense", "pid": 1, "tid": 1, "ts": 2600, "dur": 5.0})
	kernel(2700)
	b, _ := json.Marshal(map[string]any{"schemaVersion": 1, "deviceProperties": []ev{{"id": 0, "name": "Example GPU"}}, "traceEvents": out})
	return b
}

func TestFromIndexesCountsEveryStep(t *testing.T) {
	a, xs := study(t, map[string][]byte{"t.json": twoSteps()})
	r, err := FromIndexes(xs, a)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string][]float64{}
	for _, m := range r.Metrics {
		if m.Exact == (m.Name == "step") || len(m.Runs) != 1 {
			t.Errorf("%s: exact %v, %d runs", m.Name, m.Exact, len(m.Runs))
		}
		if m.Exact {
			got[m.Name] = m.Runs[0]
		}
	}
	if steps := r.Metric("step").Runs; len(steps) != 1 || len(steps[0]) != 2 || steps[0][0] < 0.5e-3 || steps[0][0] > 1e-3 {
		t.Errorf("step times %v, want one run of the two steps that count", steps)
	}
	want := map[string][]float64{
		"sync_points": {1, 3}, "launches": {2, 1}, "kernels": {2, 1}, "item_reads": {0, 1}, "allocations": {0, 0},
		"copies_h2d": {2, 0}, "bytes_h2d": {1500, 0}, "copies_h2d_pageable": {1, 0}, "bytes_h2d_pageable": {1000, 0},
		"copies_d2h": {0, 1}, "bytes_d2h": {0, 4}, "copies_d2h_pageable": {0, 1}, "bytes_d2h_pageable": {0, 4}, "copies_d2d": {0, 0}, "bytes_d2d": {0, 0},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("counts differ (-want +got):\n%s", d)
	}
	for name, where := range map[string]string{"bytes_h2d_pageable": "train.py(41): step", "item_reads": "train.py(57): log", "sync_points": "train.py(57): log"} {
		if sites := r.Metric(name).Sites; len(sites) == 0 || sites[0].Where != where {
			t.Errorf("%s: sites %v, want %s first", name, sites, where)
		}
	}
	if r.Source != "t.json" || r.Env["device"] != "Example GPU" || r.Status != gpuprof.Complete {
		t.Errorf("%+v", r)
	}
}

// TestUnknownMemoryIsNotCounted: a copy whose host memory the trace does not
// tell must not let a budget on pageable bytes pass.
func TestUnknownMemoryIsNotCounted(t *testing.T) {
	// json.Marshal writes > as an escape.
	text := bytes.ReplaceAll(twoSteps(), []byte("HtoD (Pinned -\\u003e Device)"), []byte("HtoD"))
	text = bytes.ReplaceAll(text, []byte("Memcpy HtoD (Pageable -\\u003e Device)"), []byte("Memcpy HtoD"))
	a, xs := study(t, map[string][]byte{"t.json": text})
	for name, from := range map[string]func() (*compare.Result, error){
		"indexes":  func() (*compare.Result, error) { return FromIndexes(xs, a) },
		"analysis": func() (*compare.Result, error) { return FromAnalysis(a), nil },
	} {
		r, err := from()
		if err != nil {
			t.Fatal(err)
		}
		if r.Metric("bytes_h2d_pageable") != nil || r.Metric("copies_h2d_pageable") != nil || r.Metric("bytes_h2d") == nil || r.Metric("bytes_d2h_pageable") == nil {
			t.Errorf("%s: a count that is not known is there, or one that is known is not", name)
		}
		if len(r.Warnings) != 1 || r.Warnings[0].Code != "memory-unknown" {
			t.Errorf("%s: warnings %v", name, r.Warnings)
		}
	}
}

// TestFromAnalysisAgrees: where every step does the same, totals over steps
// are what a step counts, but for the first step, which only the totals have:
// hence a tolerance of three tenths.
func TestFromAnalysisAgrees(t *testing.T) {
	for _, name := range []string{"item-fires.json", "pageable-h2d-fires.json", "explicit-sync-fires.json"} {
		a, xs := study(t, map[string][]byte{name: traceFile(t, name)})
		exact, err := FromIndexes(xs, a)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range FromAnalysis(a).Metrics {
			var sum, n float64
			if !m.Exact {
				continue // the step times, which both have from the analysis
			}
			for _, v := range exact.Metric(m.Name).Runs[0] {
				sum, n = sum+v, n+1
			}
			if got := m.Runs[0][0]; math.Abs(got-sum/n) > 0.3*math.Max(1, sum/n) {
				t.Errorf("%s %s: %v a step by the analysis, %v by the steps", name, m.Name, got, sum/n)
			}
		}
	}
}

func TestAnalysisFile(t *testing.T) {
	a, _ := study(t, map[string][]byte{"item-fires.json": traceFile(t, "item-fires.json")})
	a.Tool = gpuprof.Tool{Name: "gpuprof"}
	text, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	rs, format, err := Parse(text, "a.json", noSideFiles)
	if err != nil || format != FormatAnalysis || len(rs) != 1 || rs[0].Source != "a.json" || rs[0].Metric("item_reads") == nil || len(rs[0].Metric("item_reads").Sites) == 0 {
		t.Fatalf("%v %s %v", rs, format, err)
	}
	newer := bytes.Replace(text, []byte(`"schema_version":"2.`), []byte(`"schema_version":"3.`), 1)
	if _, _, err := Parse(newer, "a.json", noSideFiles); !errors.Is(err, gpuprof.ErrInput) || !strings.Contains(err.Error(), "newer") {
		t.Error(err)
	}
}

func TestNoTrace(t *testing.T) {
	if _, err := FromIndexes(nil, &analyze.Analysis{}); !errors.Is(err, gpuprof.ErrInput) {
		t.Error(err)
	}
	if r := FromAnalysis(&analyze.Analysis{}); r.Metric("sync_points") == nil {
		t.Error(r)
	}
}

// Without steps a counter is of the whole recording, and one that ran longer has
// no regression.
func TestRecordingsWithoutSteps(t *testing.T) {
	read := func(scale string) *compare.Result {
		text := bytes.ReplaceAll(bytes.ReplaceAll(twoSteps(), []byte("ProfilerStep#"), []byte("op")), []byte("user_annotation"), []byte("cpu_op"))
		text = bytes.ReplaceAll(text, []byte(`"ts":2706`), []byte(`"ts":`+scale))
		a, xs := study(t, map[string][]byte{"t.json": text})
		r, err := FromIndexes(xs, a)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	short, long := read("2706"), read("2806")
	c, err := compare.Compare(short, long, compare.Options{Judge: true})
	if err != nil || c.ExitCode != 3 || len(c.Differences) != 1 || c.Differences[0].Field != "recording" {
		t.Errorf("%v, exit %d, %+v", err, c.ExitCode, c.Differences)
	}
	if c, err := compare.Compare(short, read("2706"), compare.Options{Judge: true}); err != nil || c.Count(compare.Same) == 0 || c.Count(compare.Regressed) > 0 {
		t.Errorf("%v, %+v", err, c)
	}
}
