package document_test

import (
	"compress/gzip"
	"encoding/json"
	"io"
	"math"
	"os"
	"slices"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/document"
)

const recorded = "../../baselines/nvidia-h200/gpu-check/runs/"

func unpacked(t *testing.T, path string) []byte {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// A run of schema 1.0 gets its exposed times by the present rule when it is read: a copy
// under a kernel is hidden in every sample, the step is the same, and reading what was
// written again changes nothing.
func TestExposedTimesOfOldRuns(t *testing.T) {
	for name, c := range map[string]struct {
		kernel string
		hidden bool // in every sample
	}{
		"e3nn-mace-large":   {"radial", true},
		"e3nn-deepaw":       {"radial", false}, // one copy of 48 outlasts the kernel
		"gruflow-deepbench": {"gru", true},
	} {
		text := unpacked(t, recorded+name+".json.gz")
		var was gpuprof.Run
		if err := json.Unmarshal(text, &was); err != nil {
			t.Fatal(err)
		}
		runs, err := document.Runs(text, name)
		if err != nil {
			t.Fatal(err)
		}
		r := runs[0]
		copied, kernel := r.Stage("h2d"), r.Stage(c.kernel)
		if !r.Renewed || was.Stage("h2d").Exposed.Median <= 0 {
			t.Fatalf("%s: renewed %v; recorded with %g s of the copy exposed", name, r.Renewed, was.Stage("h2d").Exposed.Median)
		}
		if copied.Exposed.Median != 0 || c.hidden != (slices.Max(copied.Exposed.Runs[0]) == 0) {
			t.Errorf("%s: the copy is exposed for %g s, at most %g", name, copied.Exposed.Median, slices.Max(copied.Exposed.Runs[0]))
		}
		if kernel.Exposed.Median != kernel.Device.Median {
			t.Errorf("%s: %s is exposed for %g s of %g", name, c.kernel, kernel.Exposed.Median, kernel.Device.Median)
		}
		for i := range copied.Exposed.Runs[0] {
			if a, b := sampleSum(&was, i), sampleSum(r, i); math.Abs(a-b) > 1e-9 {
				t.Fatalf("%s: sample %d adds up to %g s, before to %g", name, i, b, a)
			}
		}
		if slices.ContainsFunc(r.Warnings, func(w gpuprof.Warning) bool { return w.Code == "old-exposed-times" }) {
			t.Errorf("%s still carries the warning", name)
		}
		again, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		twice, err := document.Runs(again, name)
		if err != nil || !slices.Equal(twice[0].Stage("h2d").Exposed.Runs[0], copied.Exposed.Runs[0]) {
			t.Errorf("%s: read twice it differs (%v)", name, err)
		}
	}
}

func sampleSum(r *gpuprof.Run, i int) (sum float64) {
	for _, s := range r.Stages {
		if s.Parent == gpuprof.StageStep {
			sum += s.Exposed.Runs[0][i]
		}
	}
	return sum
}

// Where the samples do not show the overlap the run is marked, and its times stay.
func TestExposedTimesThatCannotBeRenewed(t *testing.T) {
	for name, spoil := range map[string]func(*gpuprof.Run){
		"kernels in two lanes": func(r *gpuprof.Run) {
			for i := range r.ExampleStep {
				if s := &r.ExampleStep[i]; s.Stage == "sph" && s.Lane != "host" {
					s.Lane = "other"
				}
			}
		},
		"no lanes":                func(r *gpuprof.Run) { r.ExampleStep = nil },
		"a sample is missing":     func(r *gpuprof.Run) { s := r.Stage("radial").Device; s.Runs[0] = s.Runs[0][1:] },
		"more exposed than run":   func(r *gpuprof.Run) { r.Stage("radial").Exposed.Runs[0][3] += 1e-3 },
		"more hidden than copied": func(r *gpuprof.Run) { r.Stage("radial").Exposed.Runs[0][3] -= 1e-3 },
	} {
		var r gpuprof.Run
		if err := json.Unmarshal(unpacked(t, recorded+"e3nn-mace-large.json.gz"), &r); err != nil {
			t.Fatal(err)
		}
		spoil(&r)
		text, err := json.Marshal(&r)
		if err != nil {
			t.Fatal(err)
		}
		got, err := document.Runs(text, name)
		if err != nil {
			t.Fatal(err)
		}
		marked := slices.ContainsFunc(got[0].Warnings, func(w gpuprof.Warning) bool { return w.Code == "old-exposed-times" })
		if got[0].Renewed || !marked || got[0].Stage("h2d").Exposed.Median != r.Stage("h2d").Exposed.Median {
			t.Errorf("%s: renewed %v, marked %v, exposed %g s", name, got[0].Renewed, marked, got[0].Stage("h2d").Exposed.Median)
		}
	}
}
