package document_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/document"
)

func TestRunRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		samples := rapid.SliceOfN(rapid.Float64Range(1e-9, 1e3), 1, 20).Draw(t, "samples")
		run := &gpuprof.Run{
			Head: document.NewHead(document.Run, gpuprof.Tool{}), Status: gpuprof.Complete, Workload: "w" + rapid.String().Draw(t, "name"),
			Step:   &gpuprof.Series{Unit: "s", Runs: [][]float64{samples}},
			Order:  []gpuprof.Order{{Block: rapid.IntRange(0, 1000).Draw(t, "block"), Side: gpuprof.SideBare, StartS: samples[0]}},
			Checks: []gpuprof.Check{{Stage: "a", RelativeError: gpuprof.Number(samples[0])}},
		}
		var b bytes.Buffer
		if err := document.EncodeRuns(&b, run, run); err != nil {
			t.Fatal(err)
		}
		got, err := document.Runs(b.Bytes(), "x.json")
		if err != nil || len(got) != 2 {
			t.Fatalf("%d runs, %v", len(got), err)
		}
		run.Workload = document.CleanText(run.Workload) // as every text that is decoded
		if d := cmp.Diff(run, got[1]); d != "" {
			t.Fatal(d)
		}
		cut := b.Bytes()[:rapid.IntRange(1, b.Len()-2).Draw(t, "cut")]
		if _, err := document.Runs(cut, "x.json"); !errors.Is(err, gpuprof.ErrInput) || !strings.Contains(err.Error(), "damaged") {
			t.Fatalf("a sweep cut to %d of %d bytes: %v", len(cut), b.Len(), err)
		}
	})
}

func TestDecodeRefusals(t *testing.T) {
	for text, want := range map[string]string{
		`{"schema_version":"2.0.0"}`: "newer than this gpuprof's",
		`{}`:                         "has no schema_version",
		`[]`:                         "holds no run",
		`{"kind":"sweep","schema_version":"1.0.0","tool":{"name":"gpuprof"},"runs":[]}`:                                           "holds no run",
		`{"kind":"sweep","schema_version":"1.0.0","tool":{"name":"gpuprof"}}`:                                                     "it is a sweep",
		`{"kind":"sweep","schema_version":"2.0.0","tool":{"name":"gpuprof"},"runs":[]}`:                                           "newer than this gpuprof's",
		`{"kind":"sweep","schema_version":"1.0.0","tool":{"name":"gpuprof"},"runs":[{"kind":"run","schema_version":"1.0.0"},{}]}`: "names no workload",
		`{"schema_version":"1.0.0","workload":"w","order":[[1]]`:                                                                  "damaged",
		`{"schema_version":"1.0.0","workload":"w","step":"slow"}`:                                                                 "damaged",
		``: "the file is empty",
	} {
		if _, err := document.Runs([]byte(text), "x.json"); !errors.Is(err, gpuprof.ErrInput) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want input error with %q", text, err, want)
		}
	}
	// A later minor version with fields of its own is read.
	if runs, err := document.Runs([]byte(`{"schema_version":"1.9.0","news":1,"workload":"w"}`), "x.json"); err != nil || runs[0].Workload != "w" {
		t.Errorf("a newer minor: %v", err)
	}
}

// Runs of a schema before 1.5 have no roles; their stages had these names.
func TestRolesOfOldRuns(t *testing.T) {
	text := `{"kind":"run","schema_version":"1.4.0","tool":{"name":"gpuprof","version":"v0"},"workload":"e3nn","stages":[{"name":"h2d","parent":"step"},{"name":"radial","parent":"step"},{"name":"sync","parent":"radial"},{"name":"backpressure","parent":"step"}]}`
	for old, want := range map[string][4]string{text: {"transfer", "", "", "slot"}, strings.Replace(text, `"name":"radial",`, `"name":"radial","role":"compute",`, 1): {"", "compute", "", ""}} {
		runs, err := document.Runs([]byte(old), "old.json")
		if err != nil {
			t.Fatal(err)
		}
		for i, s := range runs[0].Stages {
			if s.Role != want[i] {
				t.Errorf("%s of %s: role %q, want %q", s.Name, s.Parent, s.Role, want[i])
			}
		}
	}
}
