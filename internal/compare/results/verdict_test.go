package results

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/compare"
	"github.com/gpuprof/gpuprof/internal/stats"
)

// hyper is a file of hyperfine with n runs around t seconds, spread evenly
// over half a percent.
func hyper(n int, t float64) string {
	var times []string
	for i := range n {
		times = append(times, fmt.Sprintf("%.9f", t*(1+0.005*(float64(i)/float64(n)-0.5))))
	}
	return `{"results":[{"command":"prog","times":[` + strings.Join(times, ",") + `]}]}`
}

func parse(t *testing.T, text, name string) *compare.Result {
	t.Helper()
	rs, _, err := Parse([]byte(text), name, noSideFiles)
	if err != nil {
		t.Fatal(err)
	}
	return rs[0]
}

func judged(t *testing.T, old, now *compare.Result) *compare.Comparison {
	t.Helper()
	c, err := compare.Compare(old, now, compare.Options{Judge: true, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestVerdictsOfForeignFiles: what is read goes through the judge.
func TestVerdictsOfForeignFiles(t *testing.T) {
	base := hyper(20, 0.1)
	gobench := func(ns float64) string {
		var b strings.Builder
		for i := range 10 {
			fmt.Fprintf(&b, "BenchmarkA-4 100 %.3f ns/op 3 allocs/op\n", ns*(1+0.0005*float64(i%5)))
		}
		return b.String()
	}
	pytest := func(rounds int) string {
		return `{"machine_info":{},"benchmarks":[{"name":"a","stats":{"data":[` + strings.TrimSuffix(strings.Repeat("1.0,1.01,1.02,", rounds/3), ",") + `]}}]}`
	}
	sixDocs := strings.Repeat(pytest(30), 8)
	for name, c := range map[string]struct {
		old, now string
		want     compare.Verdict
		exit     int
	}{
		"the same":             {base, base, compare.Pass, 0},
		"a quarter slower":     {base, hyper(20, 0.125), compare.Regressed, 1},
		"a quarter faster":     {base, hyper(20, 0.075), compare.Improved, 0},
		"Go lines":             {gobench(100), gobench(130), compare.Regressed, 1},
		"Go lines the same":    {gobench(100), gobench(100), compare.Pass, 0},
		"one process of 30":    {pytest(30), strings.ReplaceAll(pytest(30), "1.01", "1.011"), compare.Inconclusive, 3},
		"one process, twice":   {pytest(30), pytest(30), compare.Pass, 0},
		"eight processes":      {sixDocs, sixDocs, compare.Pass, 0},
		"two runs":             {hyper(2, 0.1), hyper(2, 0.1001), compare.Inconclusive, 3},
		"two formats":          {base, gobench(100), compare.NotComparable, 3},
		"one more allocation":  {gobench(100), strings.ReplaceAll(gobench(100), "3 allocs", "4 allocs"), compare.Regressed, 1},
		"scaled by a thousand": {hyper(20, 100), hyper(20, 125), compare.Regressed, 1},
	} {
		got := judged(t, parse(t, c.old, "old"), parse(t, c.now, "new"))
		if got.Verdict != c.want || got.ExitCode != c.exit {
			t.Errorf("%s: %s, exit code %d, want %s, %d (%+v)", name, got.Verdict, got.ExitCode, c.want, c.exit, got.Metrics)
		}
	}
}

// TestFailedBenchmarkFailsTheGate: what gave no figure is not passed over.
func TestFailedBenchmarkFailsTheGate(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("testdata", "google.json"))
	if err != nil {
		t.Fatal(err)
	}
	r := parse(t, string(text), "google.json")
	if c := judged(t, r, r); c.ExitCode != 4 || len(c.Failed) == 0 {
		t.Errorf("exit code %d, failed %v", c.ExitCode, c.Failed)
	}
}

// TestBudgetOnATrace: the failure names the call site.
func TestBudgetOnATrace(t *testing.T) {
	a, xs := study(t, map[string][]byte{"t.json": twoSteps()})
	r, err := FromIndexes(xs, a)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		max  float64
		exit int
	}{"kept": {3, 0}, "broken": {2, 1}} {
		got, err := compare.CheckBudgets(r, []compare.Budget{{Name: "sync_points", Max: c.max}}, compare.Options{})
		if err != nil || got.ExitCode != c.exit {
			t.Fatalf("%s: %v %+v", name, err, got)
		}
		if b := got.Budgets[0]; c.exit == 1 && (float64(b.Value) != 3 || len(b.Where) == 0 || b.Where[0] != "train.py(57): log") {
			t.Errorf("%+v", b)
		}
	}
}

// TestOwnBenchFiles: gpuprof reads what it exported for benchstat, a line a
// process, with the medians of the run.
func TestOwnBenchFiles(t *testing.T) {
	path := filepath.Join("..", "..", "..", "report", "benchfmt", "testdata", "three-processes.bench")
	rs, format, err := Read(path, OS)
	if err != nil || format != FormatGo {
		t.Fatal(err, format)
	}
	steps, rates, counts := 0, 0, 0
	for _, m := range rs[0].Metrics {
		if len(m.Runs) != 3 {
			t.Errorf("%s: %d runs", m.Name, len(m.Runs))
		}
		switch {
		case strings.HasSuffix(m.Name, "mode=steady") && !strings.Contains(m.Name, "stage="):
			steps++
			if v := stats.Median(m.Runs[0]); v < 1e-4 || v > 1 || m.Unit != "s" {
				t.Errorf("%s: a step of %v %s", m.Name, v, m.Unit)
			}
		case strings.HasSuffix(m.Name, ":probes/s"):
			rates++
			if !m.HigherIsBetter {
				t.Errorf("%s: more is better", m.Name)
			}
		case m.Exact:
			counts++
		}
	}
	if steps != 1 || rates != 1 || counts == 0 || rs[0].Status != gpuprof.Complete {
		t.Errorf("%d steps, %d rates, %d counts", steps, rates, counts)
	}
}

// TestAllocationsThatVary: allocs/op that repeats on one side only is no exact
// count, and one more of thousands is no regression.
func TestAllocationsThatVary(t *testing.T) {
	lines := func(allocs ...int) string {
		var b strings.Builder
		for _, n := range allocs {
			fmt.Fprintf(&b, "BenchmarkA-4 100 1000 ns/op %d allocs/op\n", n)
		}
		return b.String()
	}
	steady, odd := parse(t, lines(4100, 4100, 4100, 4100, 4100, 4100), "old"), parse(t, lines(4100, 4101, 4100, 4101, 4100, 4100), "new")
	for name, c := range map[string]*compare.Comparison{"new": judged(t, steady, odd), "old": judged(t, odd, steady)} {
		if c.Verdict != compare.Pass || c.Metrics[1].Exact {
			t.Errorf("%s side varies: %s (%+v)", name, c.Verdict, c.Metrics[1])
		}
	}
	if c := judged(t, steady, parse(t, lines(4101, 4101, 4101, 4101, 4101, 4101), "new")); c.Verdict != compare.Regressed {
		t.Errorf("one more each time: %s", c.Verdict)
	}
}
