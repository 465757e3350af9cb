package page

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/loadtest"
	"github.com/gpuprof/gpuprof/report/figure"
	"github.com/gpuprof/gpuprof/report/internal/view"
)

// buildSweep fills the page of several runs.
func buildSweep(p *Page, runs []*gpuprof.Run, limit int) {
	head, where := view.SweepHead(runs)
	p.Title, p.Meta = head, []string{where}
	p.Answer = sweepAnswer(runs)
	table, explained := sweepTable(runs)
	var load Section // the chart of the knee is above the table
	if loads, _ := view.Loads(runs); loads != nil {
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

// sweepAnswer states the knee of a service, or the fastest setting.
func sweepAnswer(runs []*gpuprof.Run) gpuprof.Answer {
	a := gpuprof.Answer{Verdict: "measured", Tone: gpuprof.TonePlain}
	curves, only := view.Loads(runs)
	switch {
	case len(curves) > 0:
		knee, above := curves[0].Knee()
		a.Verdict, a.Tone = "no knee", gpuprof.ToneUnsure
		if knee >= 0 && above < 0 {
			a.Verdict, a.Tone = fmt.Sprintf("knee at load %.3g", knee), gpuprof.TonePlain
		}
		a.Bar = curves[0].Bar()
		text := curves[0].Text()
		a.Sentence = strings.ToUpper(text[:1]) + text[1:] + "."
		if !only {
			a.Sentence = strings.TrimSpace(a.Sentence + " " + winnerText(runs))
		}
	default:
		a.Sentence = cmp.Or(winnerText(runs), "Measured: "+gpuprof.Plural(len(runs), "setting")+".")
	}
	return a
}

// leadOf returns what a sweep's answer omits: the knees of further curves, and settings with a late sender.
func leadOf(runs []*gpuprof.Run) []Block {
	curves, _ := view.Loads(runs)
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
			names = append(names, settingOf(r, runs))
		}
	}
	if len(names) == 0 {
		return ""
	}
	return fmt.Sprintf("generator-late: the sender of the requests was late with %s, so the latencies there that measure the sender are left out.", joinLabels(names))
}

// winnerText names the setting with the highest throughput (the shortest step if the runs do not count their work), and
// compares its interval with the next one's; "" for fewer than two measured settings.
func winnerText(runs []*gpuprof.Run) string {
	_, points := pointsOf(runs)
	counted := true
	for _, p := range points {
		counted = counted && (p.Step == nil || p.Throughput != nil && p.Throughput.Unit == unitOf(points))
	}
	type place struct {
		run    *gpuprof.Run
		s      *gpuprof.Series
		ci     [2]float64
		figure string
	}
	var places []place
	for i, p := range points {
		switch {
		case p.Step == nil:
		case counted:
			places = append(places, place{runs[i], p.Throughput.Series, rateInterval(p.Throughput.Series, p.Step), view.RateText(p.Throughput.Series, p.Throughput.Unit)})
		default:
			places = append(places, place{runs[i], p.Step, p.Step.CI95, view.Median(p.Step)})
		}
	}
	if len(places) < 2 || len(view.Vary(runs)) == 0 {
		return ""
	}
	what, side, sign := "the shortest step", "above", 1.0
	if counted {
		what, side, sign = "the highest throughput", "below", -1
	}
	slices.SortStableFunc(places, func(a, b place) int { return cmp.Compare(sign*a.s.Median, sign*b.s.Median) })
	best, next := places[0], places[1]
	text := fmt.Sprintf("%s has %s, %s. The interval of the next, %s with %s, ", settingOf(best.run, runs), what, best.figure, settingOf(next.run, runs), next.figure)
	low, high := best.ci, next.ci
	if counted {
		low, high = high, low
	}
	far := high[0] - low[1]
	switch {
	case !gpuprof.IsFinite(far) || best.ci == [2]float64{} || next.ci == [2]float64{}:
		return text + "is unknown."
	case far > 0:
		return text + "lies " + side + " its own."
	}
	return text + "overlaps its own: neither is shown to be faster."
}

// rateInterval returns the interval of a throughput, no narrower than the step's interval. A rate comes from few spans
// of the run: three spans that are equal by chance give too narrow an interval, while single steps differ twofold.
func rateInterval(rate, step *gpuprof.Series) [2]float64 {
	ci, steps := rate.CI95, step.CI95
	if ci == [2]float64{} || steps == [2]float64{} {
		return [2]float64{}
	}
	work := rate.Median * step.Median
	return [2]float64{min(ci[0], work/steps[1]), max(ci[1], work/steps[0])}
}

func unitOf(points []point) string {
	for _, p := range points {
		if p.Throughput != nil {
			return p.Throughput.Unit
		}
	}
	return ""
}

// sweepTable returns a table with a row per run, and the block that explains its figures.
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
	s := Section{In: Terminal, Blocks: []Block{Text{S: settingOf(r, runs)}, Text{S: view.Headline(r), Tone: statusTone(r.Status)}}}
	if failed {
		s.Blocks = append(s.Blocks, Lines{Lines: []Line{checkLine(r)}}, failedChecks(r))
	}
	return s
}

// settingOf names one of several runs by its setting.
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

// eachRun returns every run of a sweep, folded.
func eachRun(runs []*gpuprof.Run, limit int) Section {
	out := Section{ID: "each", Heading: "Each run", HeadingIn: HTML, In: Markdown | HTML}
	for i, r := range runs {
		id := fmt.Sprintf("r%d-", i+1)
		lead, _ := summaryOf(r)
		s := Section{ID: id + "run", Heading: settingOf(r, runs), Folded: true, Badge: Badge{Text: view.Status(r), Tone: statusTone(r.Status)}}
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
