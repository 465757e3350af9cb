package page

import (
	"fmt"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/history"
	"github.com/gpuprof/gpuprof/report/figure"
	"github.com/gpuprof/gpuprof/report/internal/view"
)

// SiteData is a site's data file.
const SiteData = "data.json"

// SitePage is a page of a site, with its file name.
type SitePage struct {
	Name string
	Page *Page
}

// HistorySite renders a history as pages without scripts: an index, largest changes first, and a page per benchmark.
func HistorySite(r *history.Report) ([]SitePage, error) {
	index, err := History(r)
	if err != nil {
		return nil, err
	}
	index.Static, index.Data = true, Data{Name: SiteData}
	all := seriesOf(r)
	table := trendTable(all)
	for i, s := range all {
		table.Rows[i].Cells[0].Link = siteName(s.t)
	}
	index.Sections = []Section{
		{Blocks: []Block{table}},
		{ID: "largest", Heading: "Largest changes", Blocks: []Block{Chart{ID: "trends", Narrow: true, Figure: func() *figure.Figure { return figure.Trends(r) }}}},
		alarmSection(r), leftOutSection(r), warningList(r.Warnings),
	}
	out := []SitePage{{"index.html", index}}
	for _, part := range splitByBenchmark(r) {
		p, err := History(part)
		if err != nil {
			return nil, err
		}
		t := &part.Trends[0]
		p.Title = "History of " + t.Benchmark
		p.Meta = []string{t.Project, gpuprof.Plural(sessionsIn(part), "session")}
		p.Static, p.Data = true, Data{Name: SiteData}
		p.Sections = append(p.Sections, sessionSection(part))
		out = append(out, SitePage{siteName(t), p})
	}
	return out, nil
}

// siteName returns the file name of a trend's benchmark. Project and benchmark names never contain "--".
func siteName(t *history.Trend) string { return t.Project + "--" + t.Benchmark + ".html" }

func splitByBenchmark(r *history.Report) []*history.Report {
	var out []*history.Report
	at := map[string]int{}
	for _, t := range r.Trends {
		i, ok := at[siteName(&t)]
		if !ok {
			part := *r
			part.Trends, part.Warnings, part.Skipped = nil, nil, nil
			i = len(out)
			at[siteName(&t)] = i
			out = append(out, &part)
		}
		out[i].Trends = append(out[i].Trends, t)
	}
	return out
}

// mostSessions limits a page to the latest sessions.
const mostSessions = 100

// sessionSection lists the latest sessions of each trend.
func sessionSection(r *history.Report) Section {
	out := Section{ID: "sessions", Heading: "Sessions"}
	for i := range r.Trends {
		t := &r.Trends[i]
		table := Table{Name: fmt.Sprintf("Table of sessions %d", i+1), Noun: "session", Folded: "Latest sessions", Columns: wordColumns("commit", "subject", "author", "committed", "measured", "class", "machine", "remark")}
		for k := len(t.Sessions) - 1; k >= max(0, len(t.Sessions)-mostSessions); k-- {
			s := &t.Sessions[k]
			committed := view.None
			if !s.Commit.Time.IsZero() {
				committed = s.Commit.Time.UTC().Format("2006-01-02 15:04")
			}
			remark := s.LeftOut
			if s.OffBranch && remark == "" {
				remark = "its commit is not on this branch"
			}
			row := textRow(s.Commit.Short(), s.Commit.Subject, s.Commit.Author, committed, s.Started.UTC().Format("2006-01-02 15:04"), s.Class, deviceAt(t, k), remark)
			row.Cells[0].Link = s.Commit.URL
			table.Rows = append(table.Rows, row)
		}
		out.Blocks = append(out.Blocks, table)
	}
	return out
}

func deviceAt(t *history.Trend, session int) string {
	for _, c := range t.Classes {
		if session >= c.First && session <= c.Last {
			return c.Device
		}
	}
	return view.None
}
