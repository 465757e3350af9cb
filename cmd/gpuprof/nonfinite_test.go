//go:build !race

// Under the race detector one goroutine that reads files, writes pages and looks through them
// takes ten times as long; what reads in goroutines is tested there in packages of its own.

package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/cli"
)

// A figure that is no number is an error that names it, in every verb that reads
// it and in every format: encoding/json reads null as 0, which passes any budget.
func TestFiguresThatAreNoNumbers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	good := filepath.Join(dir, "good.json")
	madeRun(t, good, "off", 1e-3)
	whole := readRun(t, good)
	whole["counters"] = map[string]any{"launches": 3}
	whole["overhead"] = map[string]any{"ratio": 1, "ci95": []any{1, 1}}
	whole["throughput"] = map[string]any{"unit": "probes/s", "series": map[string]any{"unit": "probes/s", "runs": []any{[]any{1, 2}}}}
	writeJSONFile(t, good, whole)
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	const mark = 987654321.5
	for nth, c := range []struct {
		field    string
		set      func(map[string]any)
		negative bool // is refused below zero as well
	}{
		{"step.runs[1][2]", func(m map[string]any) { samples(m["step"], 1)[2] = mark }, true},
		{"throughput.series.runs[0][0]", func(m map[string]any) { samples(m["throughput"].(map[string]any)["series"], 0)[0] = mark }, true},
		{"counters.launches", func(m map[string]any) { m["counters"].(map[string]any)["launches"] = mark }, true},
		{"step.median", func(m map[string]any) { m["step"].(map[string]any)["median"] = mark }, false},
		{"step.ci95[1]", func(m map[string]any) { m["step"].(map[string]any)["ci95"].([]any)[1] = mark }, false},
		{"stages[1].exposed.runs[0][0]", func(m map[string]any) {
			samples(m["stages"].([]any)[1].(map[string]any)["exposed"], 0)[0] = mark
		}, false},
		{"overhead.ratio", func(m map[string]any) { m["overhead"].(map[string]any)["ratio"] = mark }, false},
	} {
		m := readRun(t, good)
		c.set(m)
		path := filepath.Join(dir, "run.json")
		writeJSONFile(t, path, m)
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		values := []string{"null", "NaN", "-Infinity", "Infinity", "1e999", "-1e400", `"NaN"`, `"5"`, "nan", "inf"}
		if c.negative {
			values = append(values, "-1e-3")
		}
		for i, v := range values {
			if !nightly && i > 1 && (i+nth)%3 != 0 {
				continue // by day null, NaN and a third of the others
			}
			bad := write("bad.json", strings.Replace(string(text), "987654321.5", v, 1))
			if data, _ := os.ReadFile(bad); strings.Contains(string(data), "987654321.5") {
				t.Fatalf("%s was not replaced", c.field)
			}
			verbs := [][]string{{"gate", bad, good}, {"report", bad}}
			if v == "null" || v == "NaN" {
				verbs = append(verbs, []string{"gate", good, bad}, []string{"compare", good, bad}, []string{"compare", bad, good}, []string{"gate", bad, "--max", "launches=100"},
					[]string{"history", "baseline", "add", bad, "--dir", dir}, []string{"gate", "auto", bad, "--dir", dir}, []string{"report", bad, "-o", filepath.Join(dir, "x.html")})
			}
			for _, args := range verbs {
				failsNaming(t, c.field, args...)
			}
		}
	}
	failsOfOtherFormats(t, good, write)
}

func samples(series any, process int) []any {
	return series.(map[string]any)["runs"].([]any)[process].([]any)
}

// failsNaming wants exit code 4 and the field in the one sentence.
func failsNaming(t *testing.T, field string, args ...string) {
	t.Helper()
	var stderr strings.Builder
	if code := gpuprofRan(t, io.Discard, &stderr, args...); code != cli.ExitFailed || !strings.Contains(stderr.String(), field) {
		t.Errorf("%v: exit %d, %s; want exit 4 and %s", args, code, stderr.String(), field)
	}
}

func failsOfOtherFormats(t *testing.T, good string, write func(name, text string) string) {
	t.Helper()
	for name, c := range map[string]struct{ text, field string }{
		"bench.txt":      {"BenchmarkA 100 NaN ns/op\n", "A"},
		"inf.txt":        {"BenchmarkA 100 +Inf ns/op\n", "A"},
		"rate.txt":       {"BenchmarkA 100 5 ns/op NaN MB/s\n", "A:B/s"},
		"count.txt":      {"BenchmarkA 100 5 ns/op Inf allocs/op\n", "A:allocs/op"},
		"huge.txt":       {"BenchmarkA 100 1e999 ns/op\n", "line 1"},
		"below.txt":      {"BenchmarkA 100 -5 ns/op\n", "A"},
		"hyperfine.json": {`{"results":[{"command":"x","times":[1,null,3]}]}`, `x is null, NaN or infinite (sample 1 of run 2)`},
		"h2.json":        {`{"results":[{"command":"x","times":[1,2,1e999]}]}`, `x is null, NaN or infinite (sample 1 of run 3)`},
		"h3.json":        {`{"results":[{"command":"x","times":[1,"NaN",3]}]}`, `x is null, NaN or infinite (sample 1 of run 2)`},
		"h4.json":        {`{"results":[{"command":"x","times":[1,-2,3]}]}`, `x is -2 s (sample 1 of run 2)`},
		"google.json":    {`{"context":{},"benchmarks":[{"name":"x","real_time":NaN,"cpu_time":1}]}`, "x"},
		"g2.json":        {`{"context":{},"benchmarks":[{"name":"x","real_time":1,"cpu_time":null}]}`, "x:cpu_time"},
		"g3.json":        {`{"context":{},"benchmarks":[{"name":"x","real_time":1,"items_per_second":1e999}]}`, "x:items_per_second"},
		"pytest.json":    {`{"machine_info":{},"benchmarks":[{"name":"x","stats":{"data":[1,null]}}]}`, "x is null, NaN or infinite (sample 2 of run 1)"},
		"p2.json":        {`{"machine_info":{},"benchmarks":[{"name":"x","stats":{"median":1e999}}]}`, "x is null, NaN or infinite (sample 1 of run 1)"},
		"nvbench.json": {`{"devices":[],"benchmarks":[{"name":"x","states":[{"summaries":[{"tag":"nv/cold/time/gpu/mean","data":[{"name":"value","value":"nan"}]}]}]}]}`,
			"x is null, NaN or infinite (sample 1 of run 1)"},
		"n2.json": {`{"devices":[],"benchmarks":[{"name":"x","states":[{"summaries":[{"tag":"nv/cold/time/gpu/mean","data":[{"name":"value","value":null}]}]}]}]}`,
			"x is null, NaN or infinite (sample 1 of run 1)"},
		"analysis.json": {`{"schema_version":"1.0.0","step_source":"x","findings":[],"steps":[{"name":"a","dur_ns":null}]}`, "steps[0].dur_ns"},
		"a2.json":       {`{"schema_version":"1.0.0","step_source":"x","findings":[],"syncs":{"s":{"count":1e999}}}`, "syncs.s.count"},
		"baseline.json": {`{"schema_version":"1.0.0", "kind": "baseline","sessions":[{"metrics":[{"name":"step","unit":"s","runs":[[1,null]]}]}]}`, "sessions[0].metrics[0].runs[0][1]"},
		"b2.json":       {`{"schema_version":"1.0.0", "kind": "baseline","sessions":[{"metrics":[{"name":"step","unit":"s","runs":[[1,-1]]}]}]}`, "runs[0][1] of step"},
	} {
		path := write(name, c.text)
		failsNaming(t, c.field, "compare", path, good)
		if strings.Contains(c.text, "baseline") {
			continue
		}
		failsNaming(t, c.field, "gate", path, path)
		failsNaming(t, c.field, "gate", path, "--max", "launches=3")
	}
}
