package page

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/loadtest"
	"github.com/gpuprof/gpuprof/internal/sweep"
	"github.com/gpuprof/gpuprof/report/figure"
	"github.com/gpuprof/gpuprof/report/internal/view"
)

// buildSweep fills the page of several runs.
func buildSweep(p *Page, runs []*gpuprof.Run, limit int) {
	head, where := view.SweepHead(runs)
	p.Title, p.Meta = head, []string{where}
	p.Answer = sweep.Answer(runs)
	table, explained := sweepTable(runs)
	var load Section // the chart of the knee is above the table
	if loads, _ := sweep.Loads(runs); loads != nil {
		load = showIn(HTML, Section{ID: "load", Heading: "Latency over load", Blocks: []Block{Chart{ID: "load-chart", Narrow: true, Figure: func() *figure.Figure { return figure.LatencyOverLoad(runs) }}}})
	}
	p.Sections = []Section{
		{Blocks: leadOf(runs)},
		load,
		{ID: "sweep", Heading: "Sweep", HeadingIn: HTML, Blocks: []Block{table}},
		{In: printed | Verbose, Blocks: []Block{explained}},
		{ID: "shares", Heading: "Shares of the stages", HeadingIn: HTML, In: Verbose, Blocks: sharesOf(runs)},
		showIn(HTML, Section{ID: "scaling", Heading: "Scaling", Blocks: []Block{Chart{ID: "scaling-chart", Narrow: true, Figure: func() *figure.Figure { return figure.Scaling(runs) }}}}),
	}
	for _, r := range runs {
		p.Sections = append(p.Sections, troubleOf(r, runs))
	}
	p.Sections = append(p.Sections, warningSection("", HTML, warningsOf(runs)), eachRun(runs, limit))
}

// leadOf returns texts below a sweep's answer: the knees of all latency curves but the first, and the settings at which
// the sender of requests was late.
func leadOf(runs []*gpuprof.Run) []Block {
	curves, _ := sweep.Loads(runs)
	var out []Block
	for _, c := range curves[min(1, len(curves)):] { // the first curve is in the answer
		out = append(out, Text{S: c.Text() + ".", As: Lead})
	}
	if late := lateSettings(runs); late != "" {
		out = append(out, Text{S: late, Tone: Unsure})
	}
	return out
}

// lateSettings warns of the settings whose sender was late; "" if none was.
func lateSettings(runs []*gpuprof.Run) string {
	var names []string
	for _, r := range runs {
		if r.Requests != nil && r.Requests.Told() < 1 {
			names = append(names, sweep.SettingOf(r, runs))
		}
	}
	if len(names) == 0 {
		return ""
	}
	return fmt.Sprintf("generator-late: the sender of the requests was late with %s, so the latencies there that measure the sender are left out.", joinLabels(names))
}

// sweepTable returns a row per run, and the block that explains the figures.
func sweepTable(runs []*gpuprof.Run) (Table, Block) {
	names, points := pointsOf(runs)
	t := Table{Name: "Table of the sweep", Noun: "setting", Caption: "One row for each setting. Intervals: " + sweepIntervals(runs) + `. "x first" is the step's median over the first row's.`, Columns: settingColumns(names, true)}
	// A terminal drops the status first (the page repeats it below), then figures, then settings.
	t.Columns = append(t.Columns, Column{Title: "step"}, Column{Title: "95 % interval", Drop: 300}, Column{Title: "throughput", Drop: 400},
		Column{Title: "x first", Drop: 100}, Column{Title: "checks", Left: true, Drop: 200}, Column{Title: "status", Left: true, Drop: 500})
	serves := slices.ContainsFunc(runs, func(r *gpuprof.Run) bool { return r.Requests != nil })
	if serves {
		t.Caption += " p50 and p99 are of the latency under load; in time is the share of all requests that were answered within the limit."
		t.Columns = append(t.Columns, Column{Title: "p50", Drop: 90}, Column{Title: "p99", Drop: 50}, Column{Title: "in time", Drop: 60})
	}
	for i, p := range points {
		row := Row{Cells: settingCells(p)}
		rate, ratio, status := Cell{}, Cell{}, wordsCell(p.Status)
		if p.Throughput != nil {
			rate = amountCell(view.RateText(p.Throughput.Series, p.Throughput.Unit), p.Throughput.Series.Median, p.Throughput.Unit)
		}
		if p.Ratio > 0 {
			ratio = amountCell(view.Times(p.Ratio), p.Ratio, "1")
		}
		if runs[i].Status != gpuprof.Complete {
			status.Tone = statusTone(runs[i].Status)
		}
		row.Cells = append(row.Cells, medianOrZero(p.Step), wordsCell(view.SeriesInterval(p.Step)), rate, ratio, wordsCell(p.Checks), status)
		if serves {
			row.Cells = append(row.Cells, servedCells(runs[i].Requests)...)
		}
		t.Rows = append(t.Rows, row)
	}
	if !runs[0].Step.Usable() {
		return t, nil
	}
	return t, Text{S: "x first is the step's median over the first row's; intervals are " + sweepIntervals(runs) + "."}
}

// servedCells returns p50, p99 and the share of requests in time; q may be nil.
func servedCells(q *loadtest.Requests) []Cell {
	out := []Cell{{}, {}, {}}
	if q == nil {
		return out
	}
	for i, share := range []float64{0.5, 0.99} {
		if p, ok := q.Latency.At(share); ok {
			out[i] = amountCell(gpuprof.FormatSeconds(p.S), p.S, "s")
		}
	}
	if sum := q.Sum(); sum.Scheduled > sum.Open && q.Told() > 0 {
		share := float64(sum.InTime) / float64(sum.Scheduled-sum.Open)
		out[2] = amountCell(view.Percent(share), share, "1")
	}
	return out
}

// medianOrZero formats the median of a step, for which 0 is a valid value.
func medianOrZero(s *gpuprof.Series) Cell {
	if s == nil {
		return Cell{}
	}
	return amountCell(view.Median(s), s.Median, "s")
}

// settingColumns returns columns for the settings that differ between the runs.
func settingColumns(names []string, named bool) []Column {
	var out []Column
	for i, n := range names {
		out = append(out, Column{Title: n, Most: 28, Drop: i, Named: named})
	}
	return out
}

func settingCells(p point) []Cell {
	var out []Cell
	for _, s := range p.Setting {
		out = append(out, wordsCell(s))
	}
	return out
}

// sharesOf lists the stages' shares, by which a reader sees why one setting is faster.
func sharesOf(runs []*gpuprof.Run) []Block {
	stages, rows := sharesOfRuns(runs)
	if len(stages) == 0 {
		return nil
	}
	names, points := pointsOf(runs)
	t := Table{Name: "Table of the stages' shares", Noun: "share", Caption: sharesText + ".", Columns: settingColumns(names, false)}
	for i, s := range stages { // the smallest share is dropped first
		t.Columns = append(t.Columns, Column{Title: s, Most: 16, Drop: 100 + i})
	}
	for i, p := range points {
		row := Row{Cells: settingCells(p)}
		for _, share := range rows[i] {
			row.Cells = append(row.Cells, wordsCell(share))
		}
		t.Rows = append(t.Rows, row)
	}
	return []Block{Text{S: sharesText + ".", In: printed}, t}
}

// troubleOf reports an incomplete run of a sweep, or a failed check.
func troubleOf(r *gpuprof.Run, runs []*gpuprof.Run) Section {
	failed := len(r.Failed()) > 0
	if r.Status == gpuprof.Complete && !failed {
		return Section{}
	}
	s := Section{In: Terminal, Blocks: []Block{Text{S: sweep.SettingOf(r, runs)}, Text{S: view.Headline(r), Tone: statusTone(r.Status)}}}
	if failed {
		s.Blocks = append(s.Blocks, Lines{Lines: []Line{checkLine(r)}}, failedChecks(r))
	}
	return s
}

// eachRun returns every run of a sweep, folded.
func eachRun(runs []*gpuprof.Run, limit int) Section {
	out := Section{ID: "each", Heading: "Each run", HeadingIn: HTML, In: Markdown | HTML}
	for i, r := range runs {
		id := fmt.Sprintf("r%d-", i+1)
		lead, _ := summaryOf(r)
		s := Section{ID: id + "run", Heading: sweep.SettingOf(r, runs), Folded: true, Badge: Badge{Text: view.Status(r), Tone: statusTone(r.Status)}}
		for _, l := range lead.Lines {
			s.Brief = append(s.Brief, l.Label+" "+l.Value)
		}
		about := append([]string{view.Subject(r)}, metaOf(r)...)
		if date := view.Date(r.Started); date != "" {
			about = append(about, date)
		}
		s.Blocks = []Block{Text{S: strings.Join(append(about, view.Headline(r)), ", ") + ".", As: Remark}}
		s.Sections = runSections(r, id, limit)
		out.Sections = append(out.Sections, s)
	}
	return out
}
