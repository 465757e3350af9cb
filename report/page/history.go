package page

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/history"
	"github.com/gpuprof/gpuprof/report/figure"
	"github.com/gpuprof/gpuprof/report/internal/view"
)

// History builds the page of a program over its commits: alarms, changes, the trend of each metric, latest commits.
func History(r *history.Report) (*Page, error) {
	if r == nil {
		return nil, view.ErrNoRun("a history")
	}
	all := seriesOf(r)
	p := &Page{Title: "History of " + r.Store, Answer: r.Answer(), Tool: toolText(r.Tool), Data: jsonData("history.json", r),
		Meta:   []string{gpuprof.Plural(len(r.Trends), "trend"), gpuprof.Plural(sessionsIn(r), "session")},
		Footer: "A change is a proposal: gate --against or bisect decides on fresh data."}
	p.Sections = []Section{
		alarmSection(r),
		changeSection(all),
		{ID: "trends", Heading: "Trends", HeadingIn: Markdown | HTML, Blocks: []Block{trendTable(all)}},
		leftOutSection(r),
	}
	for i, s := range all {
		if s.m.Total || len(s.m.Changes) > 0 {
			p.Sections = append(p.Sections, Section{ID: fmt.Sprintf("trend%d", i), Heading: s.fullName(), In: HTML, Blocks: []Block{
				Chart{ID: fmt.Sprintf("t%d", i), Narrow: true, Figure: func() *figure.Figure { return figure.Trend(s.t, s.m) }}}})
		}
	}
	p.Sections = append(p.Sections, commitSection(all), warningList(r.Warnings))
	return p, nil
}

// mostCommits limits a page to the latest commits.
const mostCommits = 100

// commitSection lists the latest commits with the changes at each commit.
func commitSection(all []series) Section {
	type entry struct {
		commit   history.Commit
		sessions int
		changes  []string
	}
	at := map[string]*entry{}
	var list []*entry
	for i, s := range all {
		if !slices.ContainsFunc(all[:i], func(o series) bool { return o.t == s.t }) {
			for _, session := range s.t.Sessions {
				c := session.Commit
				e := at[c.Short()]
				if e == nil {
					e = &entry{commit: c}
					at[c.Short()] = e
					list = append(list, e)
				}
				e.sessions++
			}
		}
		for k := range s.m.Changes {
			if e := at[s.m.Changes[k].After.Short()]; e != nil {
				e.changes = append(e.changes, s.fullName()+" "+changedBy(&s.m.Changes[k]))
			}
		}
	}
	slices.SortStableFunc(list, func(a, b *entry) int { return b.commit.Time.Compare(a.commit.Time) })
	t := Table{Name: "Table of commits", Noun: "commit", In: HTML, Columns: wordColumns("commit", "subject", "author", "committed", "sessions", "changes"),
		Max: [3]int{0, 0, mostCommits}, More: "%d earlier commits are in the data."}
	for i := range t.Columns[2:5] { // a phone shows commit, subject and changes
		t.Columns[2+i].Drop = 2 + i
	}
	for _, e := range list {
		committed := view.None
		if !e.commit.Time.IsZero() {
			committed = e.commit.Time.UTC().Format("2006-01-02 15:04")
		}
		row := textRow(e.commit.Short(), e.commit.Subject, e.commit.Author, committed, fmt.Sprint(e.sessions), strings.Join(e.changes[:min(len(e.changes), 5)], "; "))
		row.Cells[0].Link = e.commit.URL
		t.Rows = append(t.Rows, row)
	}
	return Section{ID: "commits", Heading: "Commits", In: HTML, Blocks: []Block{t}}
}

// series is a metric of a trend.
type series struct {
	t *history.Trend
	m *history.Metric
}

// seriesOf lists the metrics of all trends, by the size of their latest change, the largest first.
func seriesOf(r *history.Report) []series {
	var out []series
	for i := range r.Trends {
		for k := range r.Trends[i].Metrics {
			out = append(out, series{&r.Trends[i], &r.Trends[i].Metrics[k]})
		}
	}
	slices.SortStableFunc(out, func(a, b series) int {
		return cmp.Or(cmp.Compare(b.m.LastChange(), a.m.LastChange()), cmp.Compare(a.t.Project, b.t.Project), cmp.Compare(a.t.Benchmark, b.t.Benchmark))
	})
	return out
}

func (s series) fullName() string {
	return s.t.Benchmark + " " + s.m.Name
}

// currentCell formats the metric's present level: its median since the last change.
func (s series) currentCell() Cell {
	if n := len(s.m.Levels); n > 0 {
		v := float64(s.m.Levels[n-1].Value)
		return amountCell(s.m.FormatValue(gpuprof.Number(v)), v, s.m.Unit)
	}
	return Cell{}
}

func sessionsIn(r *history.Report) (n int) {
	for i := range r.Trends {
		n += len(r.Trends[i].Sessions)
	}
	return n
}

// trendTable has a row per metric; without -v only for totals and changed metrics.
func trendTable(all []series) Table {
	t := Table{Name: "Table of trends", Noun: "trend", Columns: []Column{
		{Title: "benchmark", Left: true, Most: 34, Least: 12}, {Title: "metric", Left: true, Most: 24, Least: 8}, {Title: "now"}, {Title: "trend", Left: true},
		{Title: "sessions", Drop: 1}, {Title: "last change", Left: true}, {Title: "at", Left: true, Drop: 3}, {Title: "cause", Left: true, Drop: 2}, {Title: "session spread", Drop: 4, Wide: true},
	}}
	for _, s := range all {
		row := Row{Cells: []Cell{{Text: s.t.Benchmark}, {Text: s.m.Name}, s.currentCell(), {Text: trendLine(s.t, s.m)},
			{Text: fmt.Sprint(len(s.t.Sessions)), Value: float64(len(s.t.Sessions)), Unit: "1"}, {}, {}, {}, spreadCell(s.m)}}
		if n := len(s.m.Changes); n > 0 {
			c := &s.m.Changes[n-1]
			row.Cells[5] = Cell{Text: changedBy(c), Value: float64(c.Ratio), Unit: "1", Tone: changeTone(c)}
			row.Cells[6], row.Cells[7] = wordsCell(c.After.Short()), wordsCell(string(c.Cause))
			row.Keep = true
		} else {
			if !s.m.Total && !onlyMetric(s.t) {
				row.In = Verbose
			}
			if s.m.Unjudged != "" {
				row.Cells[5] = Cell{Text: s.m.Unjudged, Tone: Faint}
			}
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// spreadCell formats the scatter of sessions about their level (the median between two changes) and, if known, the part
// of that scatter between commits.
func spreadCell(m *history.Metric) Cell {
	v := float64(m.Spread)
	if !gpuprof.IsFinite(v) {
		return Cell{}
	}
	text := gpuprof.FormatPercent(v, 2)
	if scatter, ok := history.Scatter(m); ok {
		text += fmt.Sprintf(" (%s between commits)", gpuprof.FormatPercent(scatter, 2))
	}
	return amountCell(text, v, "1")
}

// onlyMetric reports whether no metric of a trend is a total; the page then shows every metric.
func onlyMetric(t *history.Trend) bool {
	return !slices.ContainsFunc(t.Metrics, func(m history.Metric) bool { return m.Total })
}

// changeTone returns the tone of a change; faint if the machine caused it.
func changeTone(c *history.Change) Tone {
	if c.Cause == history.FromMachine {
		return Faint
	}
	return ToneOf(c.Tone())
}

// changedBy formats a change: "+5.2 %", or both values of a counter that was 0.
func changedBy(c *history.Change) string {
	ratio := float64(c.Ratio)
	if !gpuprof.IsFinite(ratio) || !(ratio > 0) {
		return gpuprof.Significant(float64(c.Old), 6) + " -> " + gpuprof.Significant(float64(c.New), 6)
	}
	return gpuprof.FormatChange(ratio - 1)
}

func changeSection(all []series) Section {
	list := List{Label: "change", Noun: "change", Max: 10}
	for _, s := range all {
		for i := range slices.Backward(s.m.Changes) {
			list.Items = append(list.Items, changeItem(s, &s.m.Changes[i]))
		}
	}
	return Section{ID: "changes", Heading: "Changes", HeadingIn: Markdown | HTML, Blocks: []Block{list}}
}

func changeItem(s series, c *history.Change) Item {
	text := fmt.Sprintf("%s %s at %s", s.fullName(), changedBy(c), c.After.Short())
	if !c.After.Time.IsZero() {
		text += " of " + c.After.Time.UTC().Format("2006-01-02")
	}
	var facts []string
	if gpuprof.IsFinite(float64(c.CI95[0])) && gpuprof.IsFinite(float64(c.CI95[1])) {
		facts = append(facts, fmt.Sprintf("95 %% %s to %s", gpuprof.FormatChange(float64(c.CI95[0])-1), gpuprof.FormatChange(float64(c.CI95[1])-1)))
	}
	if p := float64(c.P); !math.IsNaN(p) {
		facts = append(facts, "p "+gpuprof.FormatP(p))
	}
	facts = append(facts, fmt.Sprintf("%s before, %d after", gpuprof.Plural(c.SessionsBefore, "session"), c.SessionsAfter))
	if n := len(c.Commits) - 1; n > 0 {
		facts = append(facts, fmt.Sprintf("place: one of %d commits", n+1))
	}
	it := Item{Text: text + " (" + strings.Join(facts, ", ") + ")", Tone: changeTone(c), Lines: []Line{{Label: "commit", Value: commitText(c.After), Link: c.After.URL, In: Markdown | HTML}, {Label: "levels", Value: s.m.FormatValue(c.Old) + " -> " + s.m.FormatValue(c.New)}, {Label: "cause", Value: causeText(c)}}}
	if c.Before.ID != "" && c.Cause != history.FromMachine {
		it.Lines = append(it.Lines, Line{Label: "next", Value: "gpuprof bisect " + c.Before.Short() + ".." + c.After.Short() + " -- COMMAND", Code: true})
	}
	return it
}

// commitText returns a commit with its subject and author, if stored.
func commitText(c history.Commit) string {
	text := c.Short()
	if c.Subject != "" {
		text += " " + c.Subject
	}
	if c.Author != "" {
		text += ", by " + c.Author
	}
	return text
}

func causeText(c *history.Change) string {
	switch c.Cause {
	case history.FromCode:
		return "code: the sentinel did not move"
	case history.FromMachine:
		return "machine: the sentinel moved with it, by " + gpuprof.FormatChange(float64(c.Sentinel)-1)
	case history.FromCounter:
		return "code: the program does other work"
	}
	return "code or machine: no sentinel ran beside it (history add --sentinel)"
}

// alarmSection lists the alarms, for which a build should fail.
func alarmSection(r *history.Report) Section {
	list := List{Label: "alarm", Noun: "alarm"}
	for _, a := range r.Alarms() {
		by := a.Metric.FormatValue(a.Alarm.Old) + " -> " + a.Metric.FormatValue(a.Alarm.Now)
		if ratio := float64(a.Alarm.Ratio); gpuprof.IsFinite(ratio) {
			by += " (" + gpuprof.FormatChange(ratio-1) + ")"
		}
		list.Items = append(list.Items, Item{Text: fmt.Sprintf("%s is worse than before %s: %s", series{a.Trend, a.Metric}.fullName(), a.Alarm.After.Short(), by), Tone: Bad})
	}
	for _, s := range seriesOf(r) {
		for _, c := range s.m.Seen {
			more := fmt.Sprintf("about %s like those since would raise the alarm", gpuprof.Plural(c.Sessions, "more session"))
			if c.Sessions == 0 {
				more = "more sessions are needed than those that were tried"
			}
			list.Items = append(list.Items, Item{Text: fmt.Sprintf("seen, not certain: %s is worse since %s: %s (p %.2g); %s, history check --confirm measures at once", s.fullName(), c.After.Short(), gpuprof.FormatChange(float64(c.Ratio)-1), float64(c.P), more), Tone: Unsure})
		}
	}
	return Section{ID: "alarms", Heading: "Alarms", HeadingIn: Markdown | HTML, Blocks: []Block{list}}
}

// leftOutSection counts the sessions that are shown but not analysed, by reason.
func leftOutSection(r *history.Report) Section {
	count := map[string]int{}
	for i := range r.Trends {
		for _, s := range r.Trends[i].Sessions {
			if s.LeftOut != "" {
				count[s.LeftOut]++
			}
			if s.OffBranch {
				count["their commits are not on this branch, or not in a shallow clone, so that they are placed by time"]++
			}
		}
	}
	list := List{Label: "note", Noun: "note"}
	for _, why := range slices.Sorted(maps.Keys(count)) {
		text := gpuprof.Plural(count[why], "session")
		if strings.HasPrefix(why, "their") {
			text += ": " + why
		} else {
			text += " shown and not analysed: " + why
		}
		list.Items = append(list.Items, Item{Text: text, Tone: Faint})
	}
	return Section{Blocks: []Block{list}}
}
