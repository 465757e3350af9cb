package page

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/report/figure"
	"github.com/gpuprof/gpuprof/report/internal/view"
)

// classChanges limits rows to the number of all classes and idle states, so that the rows add up.
const classChanges = 18

// TraceComparison builds the page on the change between two analyses of one program. old and now have an index per
// input of a side; without them the page has no chart of both traces.
func TraceComparison(c *analyze.Comparison, old, now []*analyze.Index) (*Page, error) {
	if c == nil {
		return nil, view.ErrNoRun("a comparison of traces")
	}
	outcomes := List{Noun: "finding"}
	for _, f := range c.Findings {
		outcomes.Items = append(outcomes.Items, Item{Label: f.Rule + ", " + f.Outcome, Text: f.Statement, About: aboutRule(f.Rule)})
	}
	if len(c.Findings) == 0 {
		outcomes.Items = []Item{{Text: "No finding on either side."}}
	}
	p := &Page{Title: analysisTitle(c.Old) + " against " + analysisTitle(c.New), Answer: c.Answer(), Footer: traceFooter, Tool: toolText(c.Tool), Data: jsonData("comparison.json", c)}
	p.Sections = []Section{
		{ID: "change", Heading: "Changes", HeadingIn: HTML, Blocks: []Block{Chart{ID: "waterfall", Narrow: true, Figure: func() *figure.Figure { return figure.ClassChanges(c) }}}},
		{ID: "classes", Heading: "By class", HeadingIn: HTML, Blocks: []Block{changeTable("of the "+stepTitle(c.New), c.Classes, classChanges)}},
		settingChanges(c),
		{ID: "operators", Heading: "By operator", HeadingIn: HTML, Blocks: []Block{changeTable("operator, "+c.New.PerStep(), c.Operators, operatorRows)}},
		{ID: "bounds", Heading: "Against the bounds", HeadingIn: HTML, Blocks: []Block{boundsTable(c)}},
		{ID: "outcomes", Heading: "Findings", HeadingIn: HTML, Blocks: []Block{outcomes}},
		warningList(c.Warnings),
	}
	if len(old) > 0 && len(now) > 0 {
		p.Sections = append(p.Sections, Section{ID: "both", Heading: "Both traces on one axis of time", In: HTML,
			Blocks: []Block{Chart{ID: "overview", Narrow: true, Figure: func() *figure.Figure { return figure.BothOverviews(c, old, now) },
				Note: "Each trace from its own beginning; columns of equal time, divided by what the device did."}}})
	}
	return p.addExplanations()
}

// settingChanges lists the program's settings that changed, if both recordings have them.
func settingChanges(c *analyze.Comparison) Section {
	if len(c.Settings) == 0 {
		return Section{}
	}
	t := Table{Name: "Settings that the recordings show", Noun: "setting", Columns: []Column{{Title: "setting that changed", Left: true}, {Title: "before", Left: true}, {Title: "after", Left: true}}}
	for _, s := range c.Settings {
		t.Rows = append(t.Rows, Row{Cells: []Cell{{Text: s.Name}, {Text: s.Old}, {Text: s.New}}})
	}
	return Section{ID: "settings", Heading: "Settings", HeadingIn: HTML, Blocks: []Block{t}}
}

// boundsTable compares the time of operators with recorded shapes on both sides, and the bound's share of that time.
func boundsTable(c *analyze.Comparison) Table {
	t := Table{
		Name: "Operators against their bounds", Noun: "row", Max: [3]int{roofRows, traceRows, traceRows}, More: "%d more in --format json",
		Columns: numberColumns("against its bound", "shapes", "before", "after", "change", "of the bound before", "of the bound after"),
	}
	t.Columns[1].Left, t.Columns[1].Drop, t.Columns[1].Most = true, 1, 40
	if old, now := c.BoundShares(); old > 0 {
		t.Caption = fmt.Sprintf("The operators with a bound on both sides reach %s of it before%s, %s after%s.", view.Percent(old), onDevice(c, c.Old), view.Percent(now), onDevice(c, c.New))
	}
	share := func(v float64) Cell {
		if v <= 0 {
			return Cell{}
		}
		return amountCell(view.Percent(v), v, "1")
	}
	kernels := slices.ContainsFunc(c.Bounds, hasOtherKernel)
	if kernels {
		t.Columns = append(t.Columns, Column{Title: "kernel before", Left: true, Drop: 3, Most: 40}, Column{Title: "kernel after", Left: true, Drop: 2, Most: 40})
	}
	for _, b := range c.Bounds {
		row := Row{Cells: []Cell{{Text: b.Name}, {Text: view.Cut(b.Shapes, shapesWidth)}, nsCell(b.OldNS), nsCell(b.NewNS), changeCell(b.OldNS, b.NewNS), share(b.OldShare), share(b.NewShare)}}
		if kernels {
			row.Cells = append(row.Cells, Cell{Text: b.OldKernel}, Cell{Text: b.NewKernel})
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// hasOtherKernel reports whether both sides have an operator, with different kernels.
func hasOtherKernel(b analyze.BoundChange) bool {
	return b.OldKernel != "" && b.NewKernel != "" && b.OldKernel != b.NewKernel
}

// onDevice returns " (H100 SXM5)" for a side if the devices of both differ.
func onDevice(c *analyze.Comparison, side *analyze.Analysis) string {
	if c.Old.Roofline.Device == c.New.Roofline.Device {
		return ""
	}
	return " (" + side.Roofline.Device + ")"
}

func changeTable(title string, changes []analyze.Change, rows int) Table {
	name := "Times " + title
	if !strings.HasPrefix(title, "of ") {
		name = "Times by " + title
	}
	t := Table{Name: name, Noun: "row", Columns: numberColumns(title, "before", "after", "change"), Max: [3]int{rows, max(rows, 20), traceRows}, More: "%d more in --format json"}
	for _, c := range changes {
		t.Rows = append(t.Rows, Row{Cells: []Cell{{Text: c.Name}, nsCell(c.OldNS), nsCell(c.NewNS), changeCell(c.OldNS, c.NewNS)}})
	}
	return t
}

func changeCell(old, now int64) Cell {
	change := nsCell(now - old)
	if now > old {
		change.Text = "+" + change.Text
	}
	return change
}
