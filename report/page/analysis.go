package page

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/report/figure"
	"github.com/gpuprof/gpuprof/report/internal/view"
)

// traceRows limits the rows of a table in HTML. traceFindings and operatorRows limit findings and operators in other
// formats.
const (
	traceRows     = 60
	traceFindings = 5
	operatorRows  = 8
)

const traceFooter = "Claims are upper bounds from the spans of the trace."

// Analysis builds the page of analysed traces: where the devices' time goes, and suggested changes. xs[i] is the index
// of the trace a.Inputs[i]; without xs the page has no timeline.
func Analysis(a *analyze.Analysis, xs []*analyze.Index) (*Page, error) {
	if a == nil {
		return nil, view.ErrNoRun("an analysis")
	}
	findings, verdict := traceFindingList(a, xs)
	var explained []Block
	for _, e := range a.Explained {
		explained = append(explained, Text{S: e.Text})
	}
	p := &Page{Title: analysisTitle(a), Answer: a.Answer(), Meta: cardMeta(a, stepMeta(a)), Footer: traceFooter, Tool: toolText(a.Tool), Data: jsonData("analysis.json", a)}
	ranks := Section{In: Terminal | Markdown, Blocks: []Block{rankTable(a)}}
	p.Sections = []Section{
		{ID: "findings", Heading: "Suggested changes", HeadingIn: HTML, Blocks: append(append([]Block{findingsLead(a, verdict)}, onlyOnPage(explained)...), findings)},
		{In: Terminal | Markdown, Blocks: []Block{accountTable(a)}},
		{In: Terminal | Markdown, Blocks: []Block{classTable(a)}},
		{In: Terminal | Markdown, Blocks: []Block{phaseTable(a)}},
		{In: Terminal | Markdown, Blocks: []Block{hostTable(a)}},
		{In: Terminal | Markdown | Verbose, Blocks: rooflineBlocks(a)},
		{In: Terminal | Markdown, Blocks: explained},
		ranks,
		warningList(a.Warnings),
		{ID: "device-time", Heading: "Device time", In: HTML, Blocks: append(accountCharts(a), accountTable(a), classTable(a), phaseTable(a))},
		{ID: "roofline", Heading: "Roofline", In: HTML, Blocks: rooflineCharts(a)},
		{ID: "host", Heading: "Host thread", In: HTML, Blocks: append([]Block{hostTable(a), hostPlaces(a)}, append(hostCalls(a), hostStacks(a))...)},
		{ID: "steps", Heading: "Steps", In: HTML, Blocks: []Block{Chart{ID: "stepbars", Narrow: true, Figure: func() *figure.Figure { return figure.Steps(a) },
			Note: "A step begins on the host, or when the device has done the work of the steps before, and lasts until the last operation launched in it has ended; the mean is " + gpuprof.FormatNS(a.Step.NS) + "."}}},
	}
	if slices.ContainsFunc(a.Ranks, func(r analyze.RankTime) bool { return r.Straggler }) { // then the answer names a rank
		const at = 7
		p.Sections = slices.Insert(slices.Delete(p.Sections, at, at+1), 1, ranks)
	}
	if lines := timelineOf(a, xs); lines != nil {
		p.Sections = append(p.Sections, Section{ID: "timeline", Heading: "Timeline", In: HTML,
			Blocks: []Block{Chart{ID: "overview", Narrow: true, Figure: func() *figure.Figure { return figure.Overview(figure.Traces{Of: a, Xs: xs}) }}, lines}})
	}
	for _, t := range []struct {
		id, heading string
		table       Table
	}{{"ranks", "Ranks", rankTable(a)}, {"kernels", "Kernels, copies and fills", kernelTable(a)}, {"operators", "Operators", operatorTable(a)}, {"modules", "Modules and ranges", moduleTable(a)},
		{"copies", "Copies", copyTable(a)}, {"syncs", "Synchronization calls", syncTable(a)}, {"inputs", "Inputs", inputTable(a)}} {
		t.table.Name = t.heading
		where := HTML
		if t.table.In != HTML && t.id != "ranks" {
			where = 0
		}
		p.Sections = append(p.Sections, Section{ID: t.id, Heading: t.heading, HeadingIn: HTML, In: where, Blocks: []Block{t.table}})
	}
	return p.addExplanations()
}

// nsCell returns a cell with a time given in ns.
func nsCell(v int64) Cell {
	return Cell{Text: gpuprof.FormatNS(v), Value: gpuprof.Seconds(v), Unit: "s"}
}

func shareOf(part, whole int64) Cell {
	if whole <= 0 || part == 0 {
		return Cell{}
	}
	v := float64(part) / float64(whole)
	return amountCell(view.Percent(v), v, "1")
}

func countCell(n int) Cell { return Cell{Text: fmt.Sprint(n), Value: float64(n), Unit: "1"} }

// titleWidth limits a title, in characters, to a line of a narrow screen.
const titleWidth = 80

// analysisTitle names the files; of many only the first.
func analysisTitle(a *analyze.Analysis) string {
	n := len(a.Inputs)
	switch {
	case n == 0:
		return "Trace analysis"
	case n > 3:
		more := fmt.Sprintf(" and %d more", n-1)
		return view.Cut(filepath.Base(a.Inputs[0].Path), titleWidth-len(more)) + more
	}
	const between = ", "
	var names []string
	for _, in := range a.Inputs {
		names = append(names, view.Cut(filepath.Base(in.Path), (titleWidth-len(between)*(n-1))/n))
	}
	return strings.Join(names, between)
}

// stepMeta describes the mean step: its length, the number of steps, and what marks the steps in the trace.
func stepMeta(a *analyze.Analysis) []string {
	if a.Step.Count == 0 {
		return []string{"recording window " + gpuprof.FormatNS(a.Step.NS) + " (no steps found)"}
	}
	step := "mean step " + gpuprof.FormatNS(a.Step.NS)
	if a.Step.Count > 1 {
		step += fmt.Sprintf(" (%s to %s)", gpuprof.FormatNS(a.Step.MinNS), gpuprof.FormatNS(a.Step.MaxNS))
	}
	source := a.StepSource
	if slices.ContainsFunc(a.Steps, func(s analyze.StepTime) bool { return s.Dropped }) {
		source += ", the first left out"
	}
	return []string{step, gpuprof.Plural(a.Step.Count, "step") + " (" + source + ")"}
}

// cardMeta appends the description of the recording, if there is one, to meta.
func cardMeta(a *analyze.Analysis, meta []string) []string {
	if a.Recording == nil || a.Recording.Text == "" {
		return meta
	}
	return append(meta, a.Recording.Text)
}

// stepTitle returns the name of the time that a table divides into parts: the mean step, or the window of a trace
// without steps.
func stepTitle(a *analyze.Analysis) string {
	if a.Step.Count == 0 {
		return "window"
	}
	return "mean step"
}

// inputName names an input of a job: by rank, else by number.
func inputName(a *analyze.Analysis, input int) string {
	if input < len(a.Inputs) && a.Inputs[input].Rank >= 0 {
		return fmt.Sprintf("rank %d", a.Inputs[input].Rank)
	}
	return fmt.Sprintf("file %d", input+1)
}

// accountTable has a row per device: the parts of its time in the mean step.
func accountTable(a *analyze.Analysis) Table {
	t := Table{Name: "Table of devices", Noun: "device", Caption: "Shares of the " + stepTitle(a) + "; the kernels are those of the whole recording.",
		Columns: []Column{{Title: "device", Left: true}, {Title: stepTitle(a)}, {Title: "busy"}}}
	for i, part := range new(analyze.Parts).Idle() {
		t.Columns = append(t.Columns, Column{Title: part.Name, Drop: max(i-1, 0)})
	}
	t.Columns = append(t.Columns, Column{Title: "kernels", Drop: 4}, Column{Title: "with a known launch", In: HTML})
	for _, d := range a.Devices {
		name := fmt.Sprint(d.ID)
		if len(a.Inputs) > 1 {
			name = fmt.Sprintf("%s:%d", inputName(a, d.Input), d.ID)
		}
		if d.Name != "" {
			name += " " + d.Name
		}
		whole := d.Step.Total()
		row := Row{Cells: []Cell{{Text: name}, nsCell(whole), shareOf(d.Step.BusyNS, whole)}}
		for _, part := range d.Step.Idle() {
			row.Cells = append(row.Cells, shareOf(part.NS, whole))
		}
		row.Cells = append(row.Cells, countCell(d.Kernels), countCell(d.Linked))
		t.Rows = append(t.Rows, row)
	}
	t.Columns[0].Most = 30
	return t
}

// accountCharts returns a chart with a bar per device.
func accountCharts(a *analyze.Analysis) []Block {
	whole := "the mean step of " + gpuprof.FormatNS(a.Step.NS)
	if a.Step.Count == 0 {
		whole = "the recording window of " + gpuprof.FormatNS(a.Step.NS)
	}
	note := "Every nanosecond of " + whole + " is busy (in one class), starved (the host had not launched the next operation yet), queued (launched, not running), unknown, or outside (before the device's first operation and after its last one). The parts add up to it."
	if len(a.Devices) == 0 {
		return nil
	}
	return []Block{Chart{ID: "accounts", Figure: func() *figure.Figure { return figure.Accounts(a) }, Note: note, Narrow: true}}
}

// classTable has a row per part of the mean step, with the longest kernel of each class. The rows add up to the step.
func classTable(a *analyze.Analysis) Table {
	t := Table{Name: "Parts of the " + stepTitle(a), Noun: "part", Columns: []Column{{Title: "of the " + stepTitle(a), Left: true}, {Title: "time"}, {Title: "share"}, {Title: "most of it", Left: true, Remark: true, Drop: 1, Least: 20}}}
	if len(a.Devices) == 0 {
		return t
	}
	for _, part := range a.Step.Shown(0) {
		t.Rows = append(t.Rows, Row{Keep: isLarge(part.NS, a.Step.NS), Cells: []Cell{{Text: part.Name}, nsCell(part.NS), shareOf(part.NS, a.Step.NS), {Text: a.Most(part)}}})
	}
	return t
}

// phaseTable lists the recording's time outside of steps by phase, such as start-up or compilation.
func phaseTable(a *analyze.Analysis) Table {
	t := Table{Name: "Phases of the recording", Noun: "phase", Columns: []Column{{Title: "not in the " + stepTitle(a), Left: true}, {Title: "time"}}}
	if a.Recording == nil {
		return t
	}
	for _, p := range a.Recording.Phases {
		t.Rows = append(t.Rows, Row{Cells: []Cell{{Text: p.Name}, nsCell(p.NS)}})
	}
	if n := a.Recording.BeforeNS; n > 0 {
		t.Rows = append(t.Rows, Row{Cells: []Cell{{Text: "unknown: work from before the recording"}, nsCell(n)}})
	}
	return t
}

// isLarge reports whether part is at least largeShare of whole; a terminal short of lines keeps such rows.
func isLarge(part, whole int64) bool { return whole > 0 && float64(part) >= largeShare*float64(whole) }

const largeShare = 0.01

func rankTable(a *analyze.Analysis) Table {
	t := Table{Noun: "rank", Caption: "Times " + a.PerStep() + ". Communication is exposed where nothing is computed. The rank that waits least in it is the one the others wait for.",
		Columns: append(numberColumns("rank", stepTitle(a), "compute", "communication", "exposed", "idle"), Column{Left: true})}
	if len(a.Ranks) < 2 {
		return t
	}
	for _, r := range a.Ranks {
		note := view.None
		if r.Straggler {
			note = "the others wait for it"
			if r.Cause != "" {
				note += ": " + r.Cause
			}
		}
		t.Rows = append(t.Rows, Row{Cells: []Cell{{Text: fmt.Sprint(r.Rank)}, nsCell(r.StepNS), nsCell(r.ComputeNS), nsCell(r.CommNS), nsCell(r.ExposedCommNS), nsCell(r.IdleNS), {Text: note}}})
	}
	return t
}

// wholeRecording explains the sums in the tables of kernels and calls.
const wholeRecording = "Totals of the whole recording, all steps and streams."

func totalsTable(what string, columns ...Column) Table {
	return Table{Noun: strings.TrimSuffix(what, "s"), Caption: wholeRecording, Columns: columns, Max: [3]int{0, 0, traceRows}, More: "%d more " + what + " are in the data.", In: HTML}
}

func kernelTable(a *analyze.Analysis) Table {
	t := totalsTable("kernels", append(numberColumns("name", "class", "count", "time", "share", "median"), Column{Title: "operator", Left: true})...)
	t.Columns[1].Left = true
	var whole int64
	for _, k := range a.Kernels {
		whole += k.NS
	}
	for _, k := range a.Kernels {
		t.Rows = append(t.Rows, Row{Cells: []Cell{{Text: k.Name}, {Text: string(k.Class)}, countCell(k.Count), nsCell(k.NS), shareOf(k.NS, whole), nsCell(k.Median), {Text: k.Operator}}})
	}
	return t
}

// operatorTable lists operators by device time, or by the host's own time in a trace without a device.
func operatorTable(a *analyze.Analysis) Table {
	t := totalsTable("operators", append(numberColumns("operator", "self, "+a.PerStep()), onlyHTML(numberColumns("calls", "device", "host, self", "host", "call site"))...)...)
	t.Columns[len(t.Columns)-1].Left = true
	ops := a.Operators
	if len(a.Devices) == 0 {
		t.In, t.Max[0], t.Max[1], t.More = 0, operatorRows, operatorRows, "%d more operators in --format json"
		ops = slices.SortedStableFunc(slices.Values(ops), func(x, y analyze.OperatorTime) int { return cmp.Compare(y.StepSelfNS, x.StepSelfNS) })
	}
	for _, o := range ops {
		t.Rows = append(t.Rows, Row{Cells: append([]Cell{{Text: o.Name}, nsCell(o.StepSelfNS)}, operatorCells(o)...)})
	}
	return t
}

func moduleTable(a *analyze.Analysis) Table {
	t := totalsTable("modules", numberColumns("name", "calls", "device", "host, self", "host", "call site")...)
	t.Columns[len(t.Columns)-1].Left = true
	for _, o := range a.Modules {
		t.Rows = append(t.Rows, Row{Cells: append([]Cell{{Text: o.Name}}, operatorCells(o)...)})
	}
	return t
}

func operatorCells(o analyze.OperatorTime) []Cell {
	return []Cell{countCell(o.Count), nsCell(o.GPUNS), nsCell(o.SelfNS), nsCell(o.HostNS), {Text: view.CutPlace(o.Where, 60)}}
}

func copyTable(a *analyze.Analysis) Table {
	t := totalsTable("kinds", numberColumns("kind", "count", "bytes", "on the device", "in the host's calls", "rate")...)
	for _, name := range slices.Sorted(maps.Keys(a.Copies)) {
		c := a.Copies[name]
		if c.Count == 0 {
			continue
		}
		rate := view.None
		if c.GPUNS > 0 {
			rate = gpuprof.FormatSI(float64(c.Bytes)/float64(c.GPUNS)*1e9, "B/s")
		}
		t.Rows = append(t.Rows, Row{Cells: []Cell{{Text: strings.ReplaceAll(name, "_", " ")}, countCell(c.Count), {Text: gpuprof.FormatSI(float64(c.Bytes), "B")}, nsCell(c.GPUNS), nsCell(c.HostNS), {Text: rate}}})
	}
	return t
}

func syncTable(a *analyze.Analysis) Table {
	t := totalsTable("calls", numberColumns("call", "count", "host time")...)
	for _, name := range slices.Sorted(maps.Keys(a.Syncs)) {
		t.Rows = append(t.Rows, Row{Cells: []Cell{{Text: name}, countCell(a.Syncs[name].Count), nsCell(a.Syncs[name].HostNS)}})
	}
	return t
}

func inputTable(a *analyze.Analysis) Table {
	t := Table{Columns: numberColumns("file", "kind", "events", "rank"), In: HTML}
	for _, in := range a.Inputs {
		rank := view.None
		if in.Rank >= 0 {
			rank = fmt.Sprint(in.Rank)
		}
		name := view.CutPlace(in.Path, 120)
		if in.Truncated {
			name += " (ends early)"
		}
		t.Rows = append(t.Rows, textRow(name, string(in.Kind), fmt.Sprint(in.Events), rank))
	}
	return t
}
