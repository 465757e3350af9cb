package verdict_test

import (
	"math"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/compare"
	"github.com/gpuprof/gpuprof/internal/testkit/fixture"
	"github.com/gpuprof/gpuprof/report/internal/verdict"
)

func TestFigure(t *testing.T) {
	for _, c := range []struct {
		v     float64
		unit  string
		exact bool
		want  string
	}{
		{0.0123, "s", false, "12.3 ms"}, {51800, "probes/s", false, "51.8 kprobes/s"}, {1 << 20, "B", false, "1.00 MiB"}, {4800000, "B", true, "4,800,000 B"},
		{118, "count", true, "118"}, {2.5, "count", true, "2.5"}, {0.412, "J", false, "412 mJ"}, {41, "allocs/op", true, "41 allocs/op"}, {52224, "B/op", false, "51.0 KiB/op"},
		{math.NaN(), "s", false, "-"}, {math.Inf(1), "B", true, "-"}, {12.5, "", false, "12.5"}, {1e300, "count", true, "1e+300"},
	} {
		if got := verdict.Figure(c.v, c.unit, c.exact); got != c.want {
			t.Errorf("%v %s: %q, want %q", c.v, c.unit, got, c.want)
		}
	}
}

// TestOrder: what failed first, the worst of it on top, however "better" is.
func TestOrder(t *testing.T) {
	var names []string
	for _, r := range verdict.Rows(fixture.GateRegressed()) {
		names = append(names, r.Name)
	}
	if got := strings.Join(names, " "); got != "launches step/tensor_product step throughput step/collate energy_step step/radial step/gate sync_points" {
		t.Error(got)
	}
}

// TestFromZero: a counter that was zero has no ratio, and is the largest change.
func TestFromZero(t *testing.T) {
	c := fixture.GateRegressed()
	nan := gpuprof.Number(math.NaN())
	c.Metrics = append(c.Metrics, compare.MetricResult{Name: "allocations", New: 3, Ratio: nan, CI95: [2]gpuprof.Number{nan, nan}, P: nan, PAdjusted: nan, MDE: nan, Exact: true, Verdict: compare.Regressed})
	r := verdict.Rows(c)[0]
	if r.Name != "allocations" || r.Ratio != "-" || r.Sentence() != "allocations regressed: 0 to 3" {
		t.Errorf("%s: %s", r.Name, r.Sentence())
	}
}

func TestHeadline(t *testing.T) {
	for want, c := range map[string]*compare.Comparison{
		"REGRESSED: 4 of 9 metrics regressed, 2 inconclusive, 1 improved, 2 the same; 1 of 2 budgets kept; 1 benchmark failed": fixture.GateRegressed(),
		"PASS: 2 of 2 metrics the same":            fixture.GatePassed(),
		"INCONCLUSIVE: 1 of 1 metric inconclusive": fixture.GateUnsure(),
		"REGRESSED: 0 of 1 budget kept":            {Verdict: compare.Regressed, Budgets: []compare.BudgetResult{{Over: true, Verdict: compare.Regressed}}},
		"PASS":                                     {Verdict: compare.Pass},
	} {
		if got := verdict.Headline(c); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestHow(t *testing.T) {
	if got := verdict.How(fixture.GatePassed()); got != "threshold 5.0 %; two files by their runs; spread between sessions 1.0 % (assumed)" {
		t.Error(got)
	}
	if got := verdict.How(&compare.Comparison{Sides: "budget"}); !strings.Contains(got, "no statistics") {
		t.Error(got)
	}
}

// TestOneSided: stages of one side only are counted as such and listed after
// what changed.
func TestOneSided(t *testing.T) {
	nan := gpuprof.Number(math.NaN())
	c := &compare.Comparison{Verdict: compare.Improved, Metrics: []compare.MetricResult{
		{Name: "a", Unit: "s", Old: 1, New: 1, Ratio: 1, Verdict: compare.Same}, {Name: "b", Unit: "s", Old: nan, New: 2, Ratio: nan, Verdict: compare.Added},
		{Name: "c", Unit: "s", Old: 3, New: nan, Ratio: nan, Verdict: compare.Gone, Reason: "only on the old side"}, {Name: "d", Unit: "s", Old: 2, New: 1, Ratio: 0.5, Verdict: compare.Improved},
	}}
	if got, want := verdict.Headline(c), "IMPROVED: 1 of 4 metrics improved, 1 gone, 1 added, 1 the same"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	var names []string
	for _, r := range verdict.Rows(c) {
		names = append(names, r.Name)
	}
	if strings.Join(names, "") != "dbca" {
		t.Errorf("order %v", names)
	}
	if got := verdict.Rows(c)[2].Sentence(); got != "c gone: 3.00 s to -; only on the old side" {
		t.Error(got)
	}
}
