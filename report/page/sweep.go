package page

import (
	"fmt"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/report/figure"
	"github.com/gpuprof/gpuprof/report/internal/view"
)

// sweep fills the page of several runs.
func sweep(p *Page, runs []*gpuprof.Run, limit int) {
	head, where := view.SweepHead(runs)
	p.Title, p.Meta = head, []string{where}
	table, explained := sweepTable(runs)
	p.Sections = []Section{
		{ID: "sweep", Heading: "Sweep", HeadingIn: HTML, Blocks: []Block{table}},
		{In: printed | Verbose, Blocks: []Block{explained}},
		{ID: "shares", Heading: "Shares of the stages", HeadingIn: HTML, In: Verbose, Blocks: sharesOf(runs)},
		in(HTML, Section{ID: "scaling", Heading: "Scaling", Blocks: []Block{Chart{ID: "scaling-chart", Figure: func() *figure.Figure { return figure.Scaling(runs) }}}}),
	}
	for _, r := range runs {
		p.Sections = append(p.Sections, troubleOf(r, runs))
	}
	p.Sections = append(p.Sections, Section{ID: "warn", Heading: "Warnings", HeadingIn: HTML, In: Verbose, Blocks: []Block{warningsOf(runs)}}, eachRun(runs, limit))
}

// sweepTable is a row for each run, and what its figures are.
func sweepTable(runs []*gpuprof.Run) (Table, Block) {
	names, points := pointsOf(runs)
	t := Table{Name: "Table of the sweep", Noun: "setting", Caption: "One row for each setting. Intervals: " + sweepIntervals(runs) + `. "x first" is the step's median over the first row's.`, Columns: settingColumns(names, true)}
	// Status goes first (it is repeated below), then figures, then settings.
	t.Columns = append(t.Columns, Column{Title: "step"}, Column{Title: "95 % interval", Drop: 300}, Column{Title: "throughput", Drop: 400},
		Column{Title: "x first", Drop: 100}, Column{Title: "checks", Left: true, Drop: 200}, Column{Title: "status", Left: true, Drop: 500})
	for i, p := range points {
		row := Row{Cells: settingCells(p)}
		rate, ratio, status := words(view.None), words(view.None), words(p.Status)
		if p.Throughput != nil {
			rate = amount(view.RateText(p.Throughput.Series, view.Cut(p.Throughput.Unit, 24)), p.Throughput.Series.Median, p.Throughput.Unit)
		}
		if p.Ratio > 0 {
			ratio = amount(view.Times(p.Ratio), p.Ratio, "1")
		}
		if runs[i].Status != gpuprof.Complete {
			status.Tone = statusTone(runs[i].Status)
		}
		row.Cells = append(row.Cells, medianOrZero(p.Step), words(view.SeriesInterval(p.Step)), rate, ratio, words(p.Checks), status)
		t.Rows = append(t.Rows, row)
	}
	if view.Usable(runs[0].Step) == nil {
		return t, nil
	}
	return t, Text{S: "x first is the step's median over the first row's; intervals are " + sweepIntervals(runs) + "."}
}

// medianOrZero is the median of a step, which is measured even where it is zero.
func medianOrZero(s *gpuprof.Series) Cell {
	if s == nil {
		return words(view.None)
	}
	return amount(view.Median(s), s.Median, "s")
}

// settingColumns are what differs between the runs of a sweep.
func settingColumns(names []string, named bool) []Column {
	var out []Column
	for i, n := range names {
		out = append(out, Column{Title: view.Cut(n, 40), Most: 28, Drop: i, Named: named})
	}
	return out
}

func settingCells(p point) []Cell {
	var out []Cell
	for _, s := range p.Setting {
		out = append(out, words(s))
	}
	return out
}

// sharesOf say why one setting is faster than another.
func sharesOf(runs []*gpuprof.Run) []Block {
	stages, rows := sharesOfRuns(runs)
	if len(stages) == 0 {
		return nil
	}
	names, points := pointsOf(runs)
	t := Table{Name: "Table of the stages' shares", Noun: "share", Caption: sharesText + ".", Columns: settingColumns(names, false)}
	for i, s := range stages { // the smallest goes first
		t.Columns = append(t.Columns, Column{Title: view.Cut(s, 40), Most: 16, Drop: 100 + i})
	}
	for i, p := range points {
		row := Row{Cells: settingCells(p)}
		for _, share := range rows[i] {
			row.Cells = append(row.Cells, words(share))
		}
		t.Rows = append(t.Rows, row)
	}
	return []Block{Text{S: sharesText + ".", In: printed}, t}
}

// troubleOf is what must not be missed of one run of a sweep.
func troubleOf(r *gpuprof.Run, runs []*gpuprof.Run) Section {
	failed := len(r.Failed()) > 0
	if r.Status == gpuprof.Complete && !failed {
		return Section{}
	}
	s := Section{In: Terminal, Blocks: []Block{Text{S: settingOf(r, runs)}, Text{S: view.Headline(r), Tone: statusTone(r.Status)}}}
	if failed {
		s.Blocks = append(s.Blocks, Lines{Lines: []Line{checkLine(r)}}, failedChecks(r))
	}
	return s
}

// settingOf names a run among several.
func settingOf(r *gpuprof.Run, runs []*gpuprof.Run) string {
	if s := strings.TrimSpace(view.SettingText(r, view.Vary(runs))); s != "" {
		return s
	}
	for i, other := range runs {
		if other == r {
			return fmt.Sprintf("run %d", i+1)
		}
	}
	return "run"
}

// eachRun is every run of a sweep, folded away.
func eachRun(runs []*gpuprof.Run, limit int) Section {
	out := Section{ID: "each", Heading: "Each run", HeadingIn: HTML, In: Markdown | HTML}
	for i, r := range runs {
		id := fmt.Sprintf("r%d-", i+1)
		lead, _ := summaryOf(r)
		s := Section{ID: id + "run", Heading: settingOf(r, runs), Folded: true, Badge: badgeOf(r)}
		for _, l := range lead.Lines {
			s.Brief = append(s.Brief, l.Label+" "+l.Value)
		}
		about := append([]string{view.Subject(r)}, metaOf(r)...)
		if date := dateOf(r); date != "" {
			about = append(about, date)
		}
		s.Blocks = []Block{Text{S: strings.Join(append(about, view.Headline(r)), ", ") + ".", As: Remark}}
		s.Sections = runSections(r, id, limit)
		out.Sections = append(out.Sections, s)
	}
	return out
}
