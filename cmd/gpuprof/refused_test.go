//go:build !race

// Under the race detector one goroutine that reads files, writes pages and looks through them
// takes ten times as long; what reads in goroutines is tested there in packages of its own.

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/cli"
	"github.com/gpuprof/gpuprof/internal/compare"
	"github.com/gpuprof/gpuprof/report/runfile"
)

// A counter that does not exist is a wrong command line, whatever is wrong with
// the sides as well, in every way of giving a limit; the near name is told.
func TestMisspeltCounters(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	old := benchLines(t, dir, "old.txt", "1000", "1003", "998", "1001", "1002", "999")
	slow := benchLines(t, dir, "slow.txt", "1400", "1403", "1398", "1401", "1402", "1399")
	one := benchLines(t, dir, "one.txt", "1000")
	damaged, failed := filepath.Join(dir, "damaged.json"), filepath.Join(dir, "failed.txt")
	for path, text := range map[string]string{damaged: `{"schema_version":`, failed: "BenchmarkA 100 1000 ns/op 3 allocs/op\n--- FAIL: BenchmarkB\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	gallery, trace := filepath.Join("..", "..", "testdata", "gallery"), filepath.Join("..", "..", "testdata", "traces", "item-fires.json")
	csr, unfused := filepath.Join(gallery, "e3nn-csr.json.gz"), filepath.Join(gallery, "e3nn-unfused.json.gz")
	for _, c := range []struct {
		args []string
		near string
	}{
		{[]string{"gate", csr, "--max", "sync_pionts=3"}, `did you mean "sync_points"`},
		{[]string{"gate", csr, csr, "--max", "sync_pionts=3"}, `did you mean "sync_points"`},
		{[]string{"gate", csr, csr, "--max", "launches=99", "--max", "launchs=99"}, `did you mean "launches"`},
		{[]string{"gate", csr, unfused, "--max", "byte_h2d=3"}, `did you mean "bytes_h2d"`},
		{[]string{"gate", damaged, csr, "--max", "byte_h2d=3"}, `did you mean "bytes_h2d"`},
		{[]string{"gate", csr, "--inconclusive", "pass", "--max", "kernel_count=3"}, "there is no such counter"},
		{[]string{"gate", csr, "--max", "item_reads=3"}, "there is no such counter"}, // a trace has it
		{[]string{"gate", csr, "--max", "step=3"}, "is measured, not counted"},
		{[]string{"gate", trace, "--max", "item_read=3"}, `did you mean "item_reads"`},
		{[]string{"gate", trace, "--max", "SYNC_POINTS=3"}, `did you mean "sync_points"`},
		{[]string{"gate", trace, "--max", "event_waits=3"}, "there is no such counter"}, // a run has it
		{[]string{"gate", old, slow, "--max", "A:alloc/op=3"}, `did you mean "A:allocs/op"`},
		{[]string{"gate", one, "--max", "A:allocs/ops=3", "--inconclusive", "fail"}, `did you mean "A:allocs/op"`},
		{[]string{"gate", old, failed, "--max", "A:alocs/op=3"}, `did you mean "A:allocs/op"`},
		{[]string{"gate", csr, "--max", "sync_points=NaN"}, "\"NaN\" is no limit of 0 or more; give a number of 0 or more, such as 3"},
		{[]string{"gate", csr, "--max", "sync_points=1e999"}, "is no limit of 0 or more; give a number of 0 or more"},
		{[]string{"gate", csr, "--max", "sync_points=-1"}, "is no limit of 0 or more; give a number of 0 or more"},
		{[]string{"gate", csr, "--max", "=3"}, "it is no counter with a limit; give for example --max sync_points=3"},
		{[]string{"gate", "e3nn", "--against", "main", "--set", "edges=4,8"}, "reading --set edges=4,8: builds are compared at one setting, and this is a sweep; give one value, --set edges=4"},
		{[]string{"gate", "e3nn", "--aa", "--set", "edges=4,8"}, "this is a sweep; give one value"},
		{[]string{"bisect", "HEAD~1..HEAD", "e3nn", "--set", "edges=4,8"}, "this is a sweep; give one value"},
	} {
		var out, stderr strings.Builder
		if code := gpuprofRan(t, &out, &stderr, c.args...); code != cli.ExitUsage || !strings.Contains(stderr.String(), c.near) || out.Len() > 0 {
			t.Errorf("%v: exit %d, %s%s; want exit 2 and %s", c.args, code, stderr.String(), out.String(), c.near)
		}
	}
	// The counter of a benchmark that failed is no slip, and a name may hold a sign.
	for _, c := range []struct {
		args []string
		want int
	}{
		{[]string{"gate", failed, "--max", "B:allocs/op=3"}, cli.ExitFailed}, {[]string{"gate", old, "--max", "A:allocs/op=3"}, cli.ExitOK}, {[]string{"gate", old, "--max", "A:allocs/op=2"}, cli.ExitRegression},
	} {
		if code := gpuprofRan(t, io.Discard, io.Discard, c.args...); code != c.want {
			t.Errorf("%v: exit %d, want %d", c.args, code, c.want)
		}
	}
}

// A comparison without a verdict shows the measured figures: a ratio is the ratio of the two sides and inside its
// interval, or missing.
func TestRefusedComparisonsInventNothing(t *testing.T) {
	t.Parallel()
	gallery := filepath.Join("..", "..", "testdata", "gallery")
	csr, unfused := filepath.Join(gallery, "e3nn-csr.json.gz"), filepath.Join(gallery, "e3nn-unfused.json.gz")
	dir := t.TempDir()
	few := filepath.Join(dir, "few.json")
	two := readRun(t, csr)
	for _, s := range two["stages"].([]any) {
		if exposed, ok := s.(map[string]any)["exposed"].(map[string]any); ok {
			exposed["runs"] = exposed["runs"].([]any)[:2]
		}
	}
	two["step"].(map[string]any)["runs"] = two["step"].(map[string]any)["runs"].([]any)[:2]
	writeJSONFile(t, few, two)
	of := "" // the ratio of step/d2h
	for _, args := range [][]string{{"gate", csr, unfused}, {"gate", unfused, csr}, {"compare", few, csr}, {"compare", csr, unfused}} {
		_, c := judged(t, args...)
		if i := slices.IndexFunc(c.Metrics, func(m compare.MetricResult) bool { return m.Name == "step/d2h" }); args[0] == "gate" && i >= 0 && args[1] == csr {
			of = fmt.Sprintf("%.3f", float64(c.Metrics[i].Ratio))
		}
		for _, m := range c.Metrics {
			old, now, ratio := float64(m.Old), float64(m.New), float64(m.Ratio)
			if math.IsNaN(ratio) {
				continue
			}
			if want := now / old; !(math.Abs(math.Log(ratio/want)) < 0.1) {
				t.Errorf("%v: %s is %g -> %g, ratio %g", args, m.Name, old, now, ratio)
			}
			if lo, hi := float64(m.CI95[0]), float64(m.CI95[1]); lo > ratio || hi < ratio {
				t.Errorf("%v: %s has the ratio %g outside [%g, %g]", args, m.Name, ratio, lo, hi)
			}
		}
	}
	for _, ext := range []string{"txt", "md", "xml", "html", "svg", "bench"} {
		file := filepath.Join(dir, "refused."+ext)
		gpuprofRan(t, io.Discard, io.Discard, "gate", csr, unfused, "-o", file)
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if len(line) < 1000 && strings.Contains(line, "step/d2h") && strings.Contains(line, "1.000") {
				t.Errorf("%s says of a stage that changed by %s: %s", ext, of, line)
			}
		}
		if ext != "svg" && ext != "bench" && (of == "" || of == "1.000" || !strings.Contains(string(text), of)) {
			t.Errorf("%s does not have the ratio %q of step/d2h", ext, of)
		}
	}
}

func readRun(t *testing.T, path string) map[string]any {
	t.Helper()
	runs, err := runfile.Read(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(runs[0])
	if err != nil {
		t.Fatal(err)
	}
	var m map[string]any
	if err := json.Unmarshal(text, &m); err != nil {
		t.Fatal(err)
	}
	return m
}

func writeJSONFile(t *testing.T, path string, v any) {
	t.Helper()
	text, err := json.Marshal(v)
	if err == nil {
		err = os.WriteFile(path, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}
