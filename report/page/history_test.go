package page_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof/internal/history"
	"github.com/gpuprof/gpuprof/internal/testkit/fixture"
	"github.com/gpuprof/gpuprof/report/page"
)

// tableOf is the first table of a page.
func tableOf(t *testing.T, p *page.Page) page.Table {
	t.Helper()
	for _, s := range p.Sections {
		for _, b := range s.Blocks {
			if table, ok := b.(page.Table); ok {
				return table
			}
		}
	}
	t.Fatal("the page has no table")
	return page.Table{}
}

func TestTrendLine(t *testing.T) {
	r := fixture.History()
	p, err := page.History(r)
	if err != nil {
		t.Fatal(err)
	}
	row := tableOf(t, p).Rows[0]
	line := row.Cells[3].Text
	for sign, want := range map[string]int{"|": 2, "¦": 1} {
		if got := strings.Count(line, sign); got != want {
			t.Errorf("%q has %d of %s, want %d", line, got, sign, want)
		}
	}
	if got := row.Cells[5].Text + " " + row.Cells[7].Text; got != "+9.6 % code" {
		t.Errorf("the last change reads %q", got)
	}
	if n := len([]rune(line)); n > 40 {
		t.Errorf("%d columns: %q", n, line)
	}
	// Few sessions, one of them far outside.
	m := &r.Trends[0].Metrics[0]
	m.Changes, r.Trends[0].Classes = nil, r.Trends[0].Classes[:1]
	m.Values = m.Values[6:30]
	if p, err = page.History(r); err != nil {
		t.Fatal(err)
	}
	if line = tableOf(t, p).Rows[0].Cells[3].Text; strings.Count(line, "!") != 1 || len([]rune(line)) != 24 {
		t.Errorf("%q has no session outside", line)
	}
}

// TestHistorySite: a page for each benchmark that the index leads to, none of them with
// a script, and what changed most first.
func TestHistorySite(t *testing.T) {
	r := fixture.History()
	calm := r.Trends[0]
	calm.Benchmark = "a-calm-one"
	calm.Metrics = []history.Metric{{Name: "step", Unit: "s", Total: true, Values: calm.Metrics[0].Values}}
	r.Trends = append(r.Trends, calm)
	pages, err := page.HistorySite(r)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, p := range pages {
		names = append(names, p.Name)
		if !p.Page.Static || p.Page.Data.Name != page.SiteData {
			t.Errorf("%s is no static page", p.Name)
		}
	}
	if want := []string{"index.html", "demo--e3nn-small.html", "demo--a-calm-one.html"}; !slices.Equal(names, want) {
		t.Errorf("%v, want %v", names, want)
	}
	rows := tableOf(t, pages[0].Page).Rows
	if rows[0].Cells[0].Link != "demo--e3nn-small.html" || rows[0].Cells[5].Text != "+9.6 %" {
		t.Errorf("the first row of the index: %+v", rows[0])
	}
}
