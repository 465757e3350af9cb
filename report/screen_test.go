//go:build !race

// Pages of every document, many times each, in one goroutine, where the detector finds nothing.

package report_test

import (
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/olekukonko/tablewriter/pkg/twwidth"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/fleet"
	"github.com/gpuprof/gpuprof/internal/health"
	"github.com/gpuprof/gpuprof/internal/history"
	"github.com/gpuprof/gpuprof/internal/testkit/fixture"
	"github.com/gpuprof/gpuprof/report/page"
	"github.com/gpuprof/gpuprof/report/table"
)

// screenRows is a terminal of 24 rows with a note of what was written, and its prompt.
const screenRows = 22

// longPages are pages of documents that are larger than a screen, by what they have most of.
func longPages(t *testing.T) map[string]*page.Page {
	t.Helper()
	out := map[string]*page.Page{}
	add := func(name string, p *page.Page, err error) {
		must(t, err)
		out[name] = p
	}
	job := fixture.Fleet()
	job.World, job.Nodes = 512, nil
	for i := range 64 {
		job.Nodes = append(job.Nodes, fmt.Sprintf("a-rather-long-name-of-a-node-%02d.cluster.example", i))
		off := job.Off[0]
		off.Rank, off.Node = 8*i, job.Nodes[i]
		job.Off, job.Missing = append(job.Off, off), append(job.Missing, 8*i+1)
		job.Problems = append(job.Problems, fmt.Sprintf("rank %d measured something else: impl is unfused, on most ranks csr", 8*i+2))
		job.Notes = append(job.Notes, fmt.Sprintf("the clock of %s is 3 s ahead", job.Nodes[i]))
	}
	job.Reason = "64 of 512 ranks left no object: rank " + strings.Join(strings.Fields(strings.Trim(fmt.Sprint(job.Missing), "[]")), ", ")
	job.Metrics = slices.Repeat(job.Metrics, 12)
	p, err := page.Fleet(job)
	add("fleet of 512 ranks", p, err)
	p, err = page.Fleet(&fleet.Report{Verdict: fleet.Even, Reason: "no rank of 512 is slower than its siblings", World: 512, Workload: "e3nn", Launcher: "srun", Metrics: job.Metrics})
	add("fleet without faults", p, err)

	past := fixture.History()
	trend := past.Trends[0]
	past.Trends, past.Watched = nil, true
	for i := range 40 {
		trend.Benchmark = fmt.Sprintf("a-benchmark-with-a-rather-long-name-%02d", i)
		past.Trends = append(past.Trends, trend)
		past.Skipped = append(past.Skipped, history.Skipped{Name: fmt.Sprintf("v1/demo/%d", i), Why: "it is torn"})
	}
	past.Warnings = slices.Repeat(append(past.Warnings, gpuprof.Warning{Code: "torn", Text: "objects of the store cannot be used", Fix: "remove them"}), 12)
	p, err = page.History(past)
	add("history of 40 benchmarks", p, err)

	machine := fixture.Diagnosis()
	machine.Checks = slices.Repeat(machine.Checks, 30)
	p, err = page.Diagnosis(machine)
	add("diagnosis of many things", p, err)

	check := &gpuprof.CheckReport{Workload: "e3nn", Preset: "small", Device: "host", Stages: slices.Repeat(fixture.One().Checks, 12)}
	p, err = page.Check(check)
	add("check of many stages", p, err)
	check.Stages, check.Cases = nil, slices.Repeat(fixture.Cases(), 90)
	for i := range check.Cases {
		check.Cases[i].Kind = fmt.Sprint("kind ", i%40)
	}
	p, err = page.Check(check)
	add("check of many cases", p, err)

	var cards []health.Card
	for i := range 8 {
		c := health.Card{Device: fmt.Sprint("cuda:", i), Name: "made up"}
		for _, name := range health.Names() {
			c.Metrics = append(c.Metrics, health.Metric{Name: name, Unit: health.Unit(name), Value: gpuprof.Number(1e9 * (1 + float64(i%2))), Why: "it is not known"})
		}
		cards = append(cards, c)
	}
	report, err := health.Judge(nil, cards, nil, gpuprof.Tool{})
	must(t, err)
	p, err = page.Health(report)
	add("health of 8 GPUs", p, err)
	p, err = page.Tune(fixture.Claimed())
	add("claims", p, err)
	p, err = page.Memory(fixture.Memory(t, "leak.pickle.gz", "leak.pickle.gz"))
	add("memory of two files", p, err)
	return out
}

// TestEveryDocumentFitsAScreen: a document of any kind and length is printed on a terminal
// of 24 rows at 80 columns, its answer with it, and what is left out is counted. (What
// explain says is printed whole all the same, by the table of outputs.)
func TestEveryDocumentFitsAScreen(t *testing.T) {
	pages := longPages(t)
	for _, g := range everyDocument(t) {
		pages[g.name] = g.page
	}
	for name, p := range pages {
		t.Run(name, func(t *testing.T) {
			for _, width := range []int{40, 80, 200} {
				whole := rendered(t, func(w io.Writer) error { return table.Write(w, p, table.Options{Width: width}) })
				brief := rendered(t, func(w io.Writer) error {
					return table.Write(w, p, table.Options{Width: width, Lines: screenRows})
				})
				if n := strings.Count(brief, "\n"); n > screenRows {
					t.Errorf("%d columns: %d lines:\n%s", width, n, brief)
				}
				shown, left, counted := strings.Cut(brief, "\nleft out: ")
				if n := strings.Count(whole, "\n"); n > screenRows && !counted {
					t.Errorf("%d columns: of %d lines some are left out, and nothing counts them:\n%s", width, n, brief)
				}
				if counted && strings.Contains(left, " 0 ") {
					t.Errorf("%d columns: %s", width, left)
				}
				for l := range strings.Lines(shown) {
					// 80 columns is what tables are laid out for; below, the last of them may not
					// fit. Of many GPUs doctor prints every figure, however wide that is.
					if l = strings.TrimRight(l, "\n"); width >= 80 && strings.TrimSpace(l) != commandOf(p) && !strings.HasPrefix(name, "health") && twwidth.Width(l) > width && strings.Contains(strings.TrimSpace(l), " ") {
						t.Errorf("%d columns: a line of %d: %q", width, twwidth.Width(l), l)
					}
				}
			}
			for _, s := range p.Sections {
				nameless(t, s)
			}
		})
	}
	for name, answer := range map[string]string{
		"fleet of 512 ranks": "[broken] 64 of 512 ranks left no object", "fleet without faults": "[even] No rank of 512",
		"history of 40 benchmarks": "[worse] ", "diagnosis of many things": "[", "check of many stages": "with the reference agree",
		"check of many cases": "90 of 180 comparisons with the reference disagree", "health of 8 GPUs": "[un", "bisect recorded": "[commit found] ", "memory leak": "[", "tuning recorded": "[",
	} {
		p := pages[name]
		if p == nil {
			t.Fatalf("no page %q", name)
		}
		brief := rendered(t, func(w io.Writer) error { return table.Write(w, p, table.Options{Lines: screenRows}) })
		if at := strings.Index(brief, answer); at < 0 || strings.Count(brief[:at], "\n") > 8 {
			t.Errorf("%s: %q is not among the first lines of\n%s", name, answer, brief)
		}
	}
}

// commandOf is the command of a page's answer, which stands in one line.
func commandOf(p *page.Page) string {
	if p.Answer.Action == nil {
		return ""
	}
	return p.Answer.Action.Command
}

// nameless reports the tables and lists of a section that a terminal prints and whose parts
// have no name to count them by.
func nameless(t *testing.T, s page.Section) {
	t.Helper()
	if !s.In.In(page.Terminal) {
		return
	}
	for _, b := range s.Shown(page.Terminal) {
		var noun string
		switch b := b.(type) {
		case page.Table:
			noun = b.Noun
		case page.List:
			noun = b.Noun
		default:
			continue
		}
		if noun == "" || strings.HasSuffix(noun, "s") { // its plural has "es"
			t.Errorf("section %q: a part of the %s is called %q", s.ID, reflect.TypeOf(b), noun)
		}
	}
	for _, sub := range s.Sections {
		nameless(t, sub)
	}
}

// TestEveryPageNamesItsTool: a page says which gpuprof made the document; of a text about a
// rule there is none.
func TestEveryPageNamesItsTool(t *testing.T) {
	for _, g := range everyDocument(t) {
		if g.kind != "explanation" && !strings.HasPrefix(g.page.Tool, "gpuprof") {
			t.Errorf("%s: made by %q", g.name, g.page.Tool)
		}
	}
}
