package results

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuprof/gpuprof"
)

// The file is what Google Benchmark 1.7.1 wrote of a program made for this test:
// sizes with a complexity, counters of which one is NaN and one infinite, times in
// four units, manual, real and process time, threads, three repetitions with a
// statistic of their own, and a benchmark that skips itself with an error.
func TestGoogleBenchmarkOfEveryKind(t *testing.T) {
	// The two counters are errors of their own (below); the other lines are unchanged.
	text, err := os.ReadFile(filepath.Join("testdata", "google-1.7.1.json"))
	if err != nil {
		t.Fatal(err)
	}
	text = regexp.MustCompile(`(?m)^ *"(nan|inf)": .*\n`).ReplaceAll(text, nil)
	rs, _, err := Parse(text, "x", OS)
	if err != nil || len(rs) != 1 {
		t.Fatal(rs, err)
	}
	r := rs[0]
	if len(r.Failed) != 1 || r.Failed[0] != "BM_Err/1: no device: CUDA error 2" {
		t.Errorf("failed: %q", r.Failed)
	}
	type kind struct {
		Unit          string
		Higher, Exact bool
		Samples       int
	}
	got := map[string]kind{}
	for _, m := range r.Metrics {
		if len(m.Runs) != 1 {
			t.Errorf("%s has %d runs of one process", m.Name, len(m.Runs))
		}
		got[m.Name] = kind{m.Unit, m.HigherIsBetter, m.Exact, len(m.Runs[0])}
	}
	want := map[string]kind{
		"BM_Counters:Rate": {"", true, false, 1}, "BM_Counters:items_per_second": {"items/s", true, false, 1},
		"BM_Counters:launches": {"", false, true, 1}, "BM_Counters:bytes/elem": {"", false, false, 1},
		"BM_Fill/1024:bytes_per_second": {"B/s", true, false, 1}, "BM_Fill/4096:bytes_per_second": {"B/s", true, false, 1}, "BM_Fill/16384:bytes_per_second": {"B/s", true, false, 1},
		"fill named/with slash/64/repeats:3:bytes_per_second": {"B/s", true, false, 3},
	}
	for _, name := range []string{"BM_Fill/1024", "BM_Fill/4096", "BM_Fill/16384", "BM_Counters", "BM_Manual/manual_time", "BM_Real/real_time/threads:2",
		"BM_Sleep/iterations:20/process_time", "BM_Err/0", "BM_T<int>", "BM_T<double>"} {
		want[name], want[name+":cpu_time"] = kind{"s", false, false, 1}, kind{"s", false, false, 1}
	}
	want["fill named/with slash/64/repeats:3"], want["fill named/with slash/64/repeats:3:cpu_time"] = kind{"s", false, false, 3}, kind{"s", false, false, 3}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	// Whatever the unit it is written in, a time is in seconds.
	for name, between := range map[string][2]float64{
		"BM_Counters": {1e-9, 1e-7}, "BM_Manual/manual_time": {1e-5, 1e-4}, "BM_Real/real_time/threads:2": {1e-5, 1e-4}, "BM_T<double>": {1e-9, 1e-8},
	} {
		if v := r.Metric(name).Runs[0][0]; v < between[0] || v > between[1] {
			t.Errorf("%s took %v s", name, v)
		}
	}
	_, _, err = Read(filepath.Join("testdata", "google-1.7.1.json"), OS)
	if !errors.Is(err, gpuprof.ErrInput) || !strings.Contains(err.Error(), "BM_Counters:inf is null, NaN or infinite") {
		t.Errorf("a counter that is infinite: %v", err)
	}
	for _, w := range r.Warnings {
		if strings.Contains(w.Text, "medians") {
			t.Errorf("%+v", w)
		}
	}
}
