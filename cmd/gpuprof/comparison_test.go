//go:build !race

// Under the race detector one goroutine that reads files, writes pages and looks through them
// takes ten times as long; what reads in goroutines is tested there in packages of its own.

package main

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/cli"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/formats"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/schema"
	"github.com/gpuprof/gpuprof/internal/compare"
	"github.com/gpuprof/gpuprof/internal/document"
	"github.com/gpuprof/gpuprof/workloads"
)

func comparisonSchema(t *testing.T) *jsonschema.Resolved {
	t.Helper()
	b, err := schema.Schemas()["comparison"]()
	if err != nil {
		t.Fatal(err)
	}
	var s jsonschema.Schema
	if err := json.Unmarshal(b, &s); err != nil {
		t.Fatal(err)
	}
	r, err := s.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// benchLines are runs of one Go benchmark in their own files.
func benchLines(t *testing.T, dir, name string, ns ...string) string {
	t.Helper()
	var b strings.Builder
	for _, v := range ns {
		b.WriteString("BenchmarkA 100 " + v + " ns/op 3 allocs/op\n")
	}
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// What compare and gate print as JSON is of the published schema, is read back
// as it was written, and holds the samples.
func TestComparisonMatchesItsSchema(t *testing.T) {
	dir, schema := t.TempDir(), comparisonSchema(t)
	old := benchLines(t, dir, "old.txt", "1000", "1003", "998", "1001", "1002", "999")
	slow := benchLines(t, dir, "slow.txt", "1400", "1403", "1398", "1401", "1402", "1399")
	few := benchLines(t, dir, "few.txt", "1000")
	for _, args := range [][]string{
		{"compare", old, slow}, {"compare", old, few}, {"gate", old, slow}, {"gate", old, old, "--max", "A:allocs/op=2"}, {"gate", old, "--max", "A:allocs/op=2"}, {"gate", old, "--max", "A:allocs/op=3"},
	} {
		var out strings.Builder
		gpuprofRan(t, &out, io.Discard, append(args, "--format", "json")...)
		var v any
		if err := json.Unmarshal([]byte(out.String()), &v); err != nil {
			t.Errorf("%v: %v", args, err)
			continue
		}
		if err := schema.Validate(v); err != nil {
			t.Errorf("%v: %v", args, err)
		}
		var c compare.Comparison
		if err := json.Unmarshal([]byte(out.String()), &c); err != nil {
			t.Errorf("%v: %v", args, err)
		}
		var again strings.Builder
		if err := formats.EncodeVerdict(&again, &c, cli.Screen{}); err != nil || again.String() != out.String() {
			t.Errorf("%v: read and written again it differs (%v)", args, err)
		}
		if len(c.Metrics) > 0 && (c.Metrics[0].Samples == nil || len(c.Order) == 0 || c.Fingerprints.New == nil) {
			t.Errorf("%v: the evidence is missing: %s", args, out.String())
		}
	}
	m := map[string]any{"schema_version": "1.0.0", "a_later_field": 1.0}
	if err := schema.Validate(m); err == nil {
		t.Error("a comparison without metrics was accepted")
	}
}

// A process's samples are one line of the JSON, and texts that look like a list
// stay as they are.
func TestSamplesOnOneLine(t *testing.T) {
	c := &compare.Comparison{Next: []string{"[ 1, 2 ]"}, Metrics: []compare.MetricResult{{Samples: &compare.SideSamples{Old: compare.Samples{{1, 2.5e-6}, {}, {3}}}}}}
	var out strings.Builder
	if err := formats.EncodeVerdict(&out, c, cli.Screen{}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"[1,2.5e-06]", "[3]", `"[ 1, 2 ]"`} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %s in %s", want, out.String())
		}
	}
}

// madeRun is a run of e3nn in six processes, written to a file: what a knob does
// to scatter is made up, so that no machine's noise is in the test.
func madeRun(t *testing.T, path, deterministic string, scatterS float64) {
	t.Helper()
	w, err := (&cli.App{Tables: wired.tables()}).FindWorkload("e3nn", "compare")
	if err != nil {
		t.Fatal(err)
	}
	knobs, err := workloads.Resolve(w, "small", gpuprof.Settings{"deterministic": deterministic})
	if err != nil {
		t.Fatal(err)
	}
	series := func() *gpuprof.Series { return &gpuprof.Series{Unit: "s", Runs: make([][]float64, 6)} }
	r := &gpuprof.Run{
		Head: document.NewHead(document.Run, gpuprof.Tool{Name: "gpuprof", Version: "v1"}), Status: gpuprof.Complete, Started: time.Unix(1_700_000_000, 0).UTC(),
		Workload: "e3nn", Preset: "small", Seed: 1, Mode: gpuprof.Steady, Knobs: knobs, Step: series(),
		Device: gpuprof.Env{Kind: "host", Name: "made", Arch: "amd64", CPU: "made", CPUCores: 2},
		Stages: []gpuprof.StageResult{{Name: "radial", Parent: "step", Exposed: series()}, {Name: "scatter", Parent: "step", Exposed: series()}},
	}
	for k := range 6 {
		for i := range 12 {
			wobble := 1 + 1e-4*float64((5*k+7*i)%9)
			radial, scatter := 1e-3*wobble, scatterS*wobble
			r.Stages[0].Exposed.Runs[k] = append(r.Stages[0].Exposed.Runs[k], radial)
			r.Stages[1].Exposed.Runs[k] = append(r.Stages[1].Exposed.Runs[k], scatter)
			r.Step.Runs[k] = append(r.Step.Runs[k], radial+scatter)
		}
	}
	var b bytes.Buffer
	if err := document.EncodeRuns(&b, r); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Whichever way a regression comes to light, the knob that would close the gap
// is named, with a command that can be typed.
func TestKnobThatClosesTheGap(t *testing.T) {
	dir := t.TempDir()
	old, now, store := filepath.Join(dir, "old.json"), filepath.Join(dir, "new.json"), filepath.Join(dir, "store")
	madeRun(t, old, "off", 1e-3)
	madeRun(t, now, "on", 1.5e-3)
	if code := gpuprofRan(t, io.Discard, io.Discard, "history", "baseline", "add", old, "--dir", store); code != 0 {
		t.Fatalf("adding the baseline: exit %d", code)
	}
	for _, args := range [][]string{
		{"compare", old, now}, {"gate", old, now, "--allow-mismatch", "deterministic"}, {"gate", "auto", now, "--dir", store, "--allow-mismatch", "deterministic"},
	} {
		for format, wants := range map[string][]string{
			"table":    {"deterministic is on here and off in the baseline; scatter explains 100 % of the change", "set deterministic from on to off", "gpuprof run e3nn --preset small --device host --set deterministic=on,off", "use_deterministic_algorithms(False)"},
			"markdown": {"deterministic is on here and off in the baseline", "`gpuprof run e3nn --preset small --device host --set deterministic=on,off`"},
			"json":     {`"rule": "against-baseline"`, `"knob": "deterministic"`, `"from": "on"`, `"to": "off"`},
		} {
			var out strings.Builder
			gpuprofRan(t, &out, io.Discard, append(args, "--verbose", "--format", format)...)
			text := strings.Join(strings.Fields(out.String()), " ")
			for _, want := range wants {
				if !strings.Contains(text, want) {
					t.Errorf("%v as %s: no %q in\n%s", args, format, want, out.String())
				}
			}
		}
	}
	// Without the allowance a gate does not compare them at all, and says by name why.
	var out strings.Builder
	if code := gpuprofRan(t, &out, io.Discard, "gate", "auto", now, "--dir", store); code != cli.ExitInconclusive || !strings.Contains(out.String(), "deterministic") {
		t.Errorf("exit %d: %s", code, out.String())
	}
}
