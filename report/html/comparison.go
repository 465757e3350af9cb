package html

import (
	"io"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/trace"
	"github.com/gpuprof/gpuprof/report/internal/view"
)

type comparisonView struct {
	Verdict   string
	Waterfall *chart
	Outcomes  []labelled
	Warnings  []gpuprof.Warning
	Tables    []gridView
}

// WriteComparison writes the page of two analyses of one program.
func WriteComparison(w io.Writer, c *trace.Comparison) error {
	v := &comparisonView{Verdict: capital(c.Headline(ns)) + ".", Warnings: c.Warnings}
	v.Waterfall = traceWaterfall(c)
	for _, f := range c.Findings {
		v.Outcomes = append(v.Outcomes, labelled{f.Rule + ", " + f.Outcome, f.Statement})
	}
	for _, g := range []gridView{changeTable("classes", "By class", c.New.PerStep(), c.Classes), changeTable("operators", "By operator", c.New.PerStep(), c.Operators)} {
		if len(g.Rows) > 0 {
			v.Tables = append(v.Tables, g)
		}
	}
	p := &document{Title: analysisTitle(c.Old) + " against " + analysisTitle(c.New), Meta: "before: " + analysisMeta(c.Old) + " · after: " + analysisMeta(c.New), Comparison: v, Footer: traceFooter}
	return p.write(w, c.Tool, "comparison.json", c)
}

func capital(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

func changeTable(id, heading, per string, cs []trace.Change) gridView {
	g := gridView{ID: id, Heading: heading, Caption: "Times " + per + ".", Titles: []string{"name", "before", "after", "change"}}
	for _, c := range cs[:min(len(cs), tableRows)] {
		g.Rows = append(g.Rows, []string{view.Cut(c.Name, 70), ns(c.OldNS), ns(c.NewNS), signed(c.NewNS - c.OldNS)})
	}
	return g
}

func signed(v int64) string {
	if v > 0 {
		return "+" + ns(v)
	}
	return ns(v)
}

// traceWaterfall leads from the old step to the new one, a bar a class or idle
// state; they add up to the change.
func traceWaterfall(c *trace.Comparison) *chart {
	if !c.Comparable() {
		return nil
	}
	var falls []fall
	for _, r := range c.Classes {
		falls = append(falls, fall{r.Name, float64(r.NewNS-r.OldNS) * 1e-9})
	}
	ch := waterfall(float64(c.StepOldNS)*1e-9, float64(c.StepNewNS)*1e-9, falls, "rounding")
	if ch != nil {
		ch.Desc = "A bar a class: how much it made the step longer or shorter."
	}
	return ch
}
