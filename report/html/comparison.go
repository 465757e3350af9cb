package html

import (
	"fmt"
	"io"

	"github.com/gpuprof/gpuprof/internal/trace"
	"github.com/gpuprof/gpuprof/report/internal/view"
)

type comparisonView struct {
	Verdict   string
	Waterfall *chart
	Outcomes  []labelled
	Warnings  []trace.Warning
	Tables    []gridView
}

// WriteComparison writes the page of two analyses of one program.
func WriteComparison(w io.Writer, c *trace.Comparison) error {
	v := &comparisonView{Verdict: "A step took " + ns(c.StepOldNS) + " and takes " + ns(c.StepNewNS) + ".", Warnings: cleanWarnings(c.Warnings)}
	v.Waterfall = waterfall(c)
	for _, f := range c.Findings {
		v.Outcomes = append(v.Outcomes, labelled{f.Rule + ", " + f.Outcome, view.Clean(f.Statement, 0)})
	}
	for _, g := range []gridView{changeTable("classes", "By class", c.Classes), changeTable("operators", "By operator", c.Operators)} {
		if len(g.Rows) > 0 {
			v.Tables = append(v.Tables, g)
		}
	}
	p := &analysisFrame{Title: analysisTitle(c.Old) + " against " + analysisTitle(c.New), Meta: "before: " + analysisMeta(c.Old) + " · after: " + analysisMeta(c.New), Comparison: v}
	return p.write(w, c.Tool.Name+" "+c.Tool.Version, "comparison.json", c)
}

func changeTable(id, heading string, cs []trace.Change) gridView {
	g := gridView{ID: id, Heading: heading, Caption: "Time a step.", Titles: []string{"name", "before", "after", "change"}}
	for _, c := range cs[:min(len(cs), tableRows)] {
		g.Rows = append(g.Rows, []string{view.Clean(c.Name, 70), ns(c.OldNS), ns(c.NewNS), signed(c.NewNS - c.OldNS)})
	}
	return g
}

func signed(v int64) string {
	if v > 0 {
		return "+" + ns(v)
	}
	return ns(v)
}

// waterfall leads from the old step to the new one, a bar a class; time in no
// class (the device idle, or classes running beside each other) closes the sum.
func waterfall(c *trace.Comparison) *chart {
	if c.StepOldNS <= 0 || c.StepNewNS <= 0 {
		return nil
	}
	const left, rowH, right = 170.0, 24.0, 90.0
	rows := append([]trace.Change(nil), c.Classes...)
	rest := c.StepNewNS - c.StepOldNS
	for _, r := range rows {
		rest -= r.NewNS - r.OldNS
	}
	rows = append(rows, trace.Change{Name: "idle and overlap", NewNS: rest})
	lo, hi, at := min(c.StepOldNS, c.StepNewNS), max(c.StepOldNS, c.StepNewNS), c.StepOldNS
	for _, r := range rows {
		at += r.NewNS - r.OldNS
		lo, hi = min(lo, at), max(hi, at)
	}
	lo -= (hi - lo) / 3 // room before the smallest, so that small changes of a long step show
	lo = max(lo, 0)
	x := func(v int64) float64 { return left + float64(v-lo)/float64(max(hi-lo, 1))*(chartWidth-left-right) }
	ch := &chart{ID: "waterfall", Title: "From the step before to the step after", W: chartWidth, Desc: "A bar a class: how much it made the step longer or shorter."}
	y := 6.0
	row := func(label string, from, to int64, class, note string) {
		a, b := x(min(from, to)), x(max(from, to))
		ch.text(left-10, y+15, "end", "label", view.Clean(label, 22))
		ch.Rects = append(ch.Rects, rect{round(a), y, round(max(b-a, 1)), rowH - 6, class, label + ": " + note})
		ch.text(b+6, y+15, "start", "axis-text", note)
		y += rowH
	}
	row("before", lo, c.StepOldNS, "t-rest", ns(c.StepOldNS))
	at = c.StepOldNS
	for _, r := range rows {
		d := r.NewNS - r.OldNS
		if d == 0 {
			continue
		}
		class := "t2"
		if d > 0 {
			class = "t3"
		}
		row(r.Name, at, at+d, class, signed(d))
		at += d
	}
	row("after", lo, c.StepNewNS, "t-rest", ns(c.StepNewNS))
	ch.H = y + 22
	ch.text(left, y+14, "start", "axis-text", fmt.Sprintf("time a step; the axis begins at %s", ns(lo)))
	return ch
}
