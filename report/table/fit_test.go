package table_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/compare"
	"github.com/gpuprof/gpuprof/internal/testkit/fixture"
	"github.com/gpuprof/gpuprof/internal/trace/rules"
	"github.com/gpuprof/gpuprof/report/page"
	"github.com/gpuprof/gpuprof/report/table"
)

// screenLines is a terminal of 24 rows with its prompt.
const screenLines = 23

// everyPage is a page of each kind and of each fixture, hostile ones too.
func everyPage(t *testing.T) map[string]*page.Page {
	t.Helper()
	out := map[string]*page.Page{}
	add := func(name string, p *page.Page, err error) {
		if err != nil {
			t.Fatal(name, err)
		}
		out[name] = p
	}
	for name, r := range fixture.Every() {
		p, err := page.Runs([]*gpuprof.Run{r})
		add("run "+name, p, err)
		p, err = page.Runs([]*gpuprof.Run{r, fixture.One(), r})
		add("sweep "+name, p, err)
	}
	for name, c := range map[string]*compare.Comparison{"regressed": fixture.GateRegressed(), "passed": fixture.GatePassed(), "unsure": fixture.GateUnsure(), "hostile": fixture.GateHostile(), "many": fixture.GateMany(5000, 256), "empty": {}} {
		p, err := page.Comparison(c)
		add("gate "+name, p, err)
	}
	for _, name := range []string{"item-fires.json", "dataloader-stall-fires.json", "dataloader-stall-quiet.json"} {
		a, xs := fixture.Study(t, name)
		p, err := page.Analysis(a, xs)
		add("trace "+name, p, err)
	}
	job, xs := fixture.Study(t, "exposed-comm-fires.json", "exposed-comm-quiet.json")
	p, err := page.Analysis(job, xs)
	add("trace of ranks", p, err)
	old, _ := fixture.Study(t, "dataloader-stall-fires.json")
	now, _ := fixture.Study(t, "dataloader-stall-quiet.json")
	p, err = page.TraceComparison(rules.Compare(old, now), nil, nil)
	add("two traces", p, err)
	p, err = page.Tune(tuned())
	add("tune", p, err)
	return out
}

// TestBriefFitsAScreen: every page fits a terminal of 24 rows at 80 columns, every line
// of it is a line of the whole page or says what is left out, and -v leaves out nothing.
func TestBriefFitsAScreen(t *testing.T) {
	for name, p := range everyPage(t) {
		whole := shown(t, p, nil, table.Options{})
		brief := shown(t, p, nil, table.Options{Lines: screenLines})
		if n := strings.Count(brief, "\n"); n > screenLines {
			t.Errorf("%s: %d lines:\n%s", name, n, brief)
		}
		if strings.Contains(whole, "left out:") {
			t.Errorf("%s: something is left out of the whole page", name)
		}
		body, left, _ := strings.Cut(brief, "left out:")
		if strings.Count(brief, "\n") < strings.Count(whole, "\n")-10 && left == "" {
			t.Errorf("%s: nothing counts what is left out of %d lines:\n%s", name, strings.Count(whole, "\n"), brief)
		}
		words := strings.Join(strings.Fields(whole), " ")
		for l := range strings.Lines(body) {
			if l = strings.Join(strings.Fields(l), " "); !strings.Contains(words, l) {
				t.Errorf("%s: %q is not of the page", name, l)
			}
		}
		if quiet := shown(t, p, nil, table.Options{Lines: screenLines, Quiet: true}); strings.Contains(quiet, "left out:") || strings.Contains(quiet, "warning: ") {
			t.Errorf("%s: quiet prints notes:\n%s", name, quiet)
		}
	}
}

// TestBriefAnswersFirst: the finding with its command stands above the tables, and the
// rows that matter outlast the others.
func TestBriefAnswersFirst(t *testing.T) {
	pages := everyPage(t)
	if t.Failed() {
		return
	}
	for name, want := range map[string][]string{
		"trace item-fires.json": {"[slow: single values read] ", "\n-> Change: ", "\n   gpuprof run -o NEW -- ", "\n1. ", "\ndevice ", "left out:"},
		"gate regressed":        {"[regressed]", "failed: ", "budget: ", "metric ", "left out:"},
		"run one":               {"[complete] A step takes", "-> Set sync from step to never", "step  ", "throughput  ", "stage ", "tensor_product", "left out:"},
	} {
		p := pages[name]
		if p == nil {
			t.Fatalf("no %s among %v", name, slices.Sorted(maps.Keys(pages)))
		}
		rest := shown(t, p, nil, table.Options{Lines: screenLines})
		for _, w := range want {
			at := strings.Index(rest, w)
			if at < 0 {
				t.Errorf("%s: no %q, or not in this order, in\n%s", name, w, shown(t, p, nil, table.Options{Lines: screenLines}))
				break
			}
			rest = rest[at:]
		}
	}
}

// TestBriefKeepsTheLargestStages: of many stages the longest stay, wherever in the step they
// are, and in the order of the step.
func TestBriefKeepsTheLargestStages(t *testing.T) {
	r := fixture.One()
	of := *r.Stage("tensor_product")
	r.Stages = nil
	for i := range 14 {
		s, x := of, *of.Exposed
		s.Name, x.Runs = fmt.Sprintf("stage_%02d", i), [][]float64{{float64(14+i) * 1e-3}}
		s.Exposed = &x
		r.Stages = append(r.Stages, s)
	}
	p, err := page.Runs([]*gpuprof.Run{r})
	brief := shown(t, p, err, table.Options{Lines: screenLines})
	var names []string
	for l := range strings.Lines(brief) {
		if name, _, _ := strings.Cut(l, " "); strings.HasPrefix(name, "stage_") && strings.Contains(l, "  ") {
			names = append(names, name)
		}
	}
	if n := len(names); n < 4 || n == 14 || names[0] != fmt.Sprintf("stage_%02d", 14-n) || !slices.IsSorted(names) {
		t.Errorf("of stages of growing time %v are left:\n%s", names, brief)
	}
}

func TestBriefGolden(t *testing.T) {
	pages := everyPage(t)
	for name, file := range map[string]string{"run one": "brief-run", "sweep one": "brief-sweep", "gate regressed": "brief-gate", "gate unsure": "brief-unsure", "trace item-fires.json": "brief-analysis", "trace of ranks": "brief-ranks", "two traces": "brief-comparison", "tune": "brief-tune"} {
		golden(t, file, shown(t, pages[name], nil, table.Options{Lines: screenLines}))
	}
}

// A terminal of few lines shows the first finding, whatever else there is: a count of findings that are left out
// is no answer.
func TestFirstFindingStays(t *testing.T) {
	for name, p := range everyPage(t) {
		var whole strings.Builder
		if err := table.Write(&whole, p, table.Options{Width: 80}); err != nil {
			t.Fatal(name, err)
		}
		if !strings.Contains(whole.String(), "\n1. ") {
			continue
		}
		for _, lines := range []int{1, 3, 6} {
			var brief strings.Builder
			if err := table.Write(&brief, p, table.Options{Width: 80, Lines: lines}); err != nil {
				t.Fatal(name, err)
			}
			if strings.Contains(brief.String(), "left out") && strings.Contains(brief.String(), " finding") && !strings.Contains(brief.String(), "1. ") {
				t.Errorf("%s in %d lines counts findings and shows none:\n%s", name, lines, brief.String())
			}
		}
	}
}
