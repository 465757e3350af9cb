package page

import (
	"fmt"
	"math"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/compare"
	"github.com/gpuprof/gpuprof/report/internal/view"
)

// Noise builds the page on the scatter between a machine's processes: how many pairs a gate needs to find a slowdown.
func Noise(n *compare.NoisePlan) (*Page, error) {
	if n == nil {
		return nil, view.ErrNoRun("a measurement of noise")
	}
	spread := Table{Name: "Table of noise", Noun: "metric", Columns: append(numberColumns("metric", "spread between processes", "slow processes"), Column{Title: "estimated by", Left: true})}
	for _, m := range n.Metrics {
		spread.Rows = append(spread.Rows, Row{Cells: []Cell{wordsCell(m.Name), amountCell(gpuprof.FormatPercent(math.Expm1(m.Spread), 2), m.Spread, "1"),
			amountCell(fmt.Sprintf("%.0f %%", 100*m.SlowShare), m.SlowShare, "1"), wordsCell(string(m.Estimator))}})
	}
	plans := Table{Name: "Table of plans", Noun: "slowdown", Columns: numberColumns("slowdown", "pairs", "time")}
	for _, g := range n.Plans {
		plans.Rows = append(plans.Rows, Row{Cells: []Cell{wordsCell(fmt.Sprintf("%.3g %% (--threshold %.3g%%)", 100*g.Threshold, 100*g.Threshold)),
			amountCell(fmt.Sprintf("%.0f", float64(g.Blocks)), float64(g.Blocks), "1"), wordsCell(compare.Lasting(float64(g.Seconds)))}})
	}
	return &Page{Title: "noise of " + n.Command, Answer: n.Answer(), Tool: toolText(n.Tool), Data: jsonData("noise.json", n),
		Meta: []string{n.Machine, fmt.Sprintf("%s of processes, %s per pair", gpuprof.Plural(n.Blocks, "pair"), compare.Lasting(n.BlockSeconds)), "measured " + n.MeasuredAt},
		Sections: []Section{
			{ID: "noise", Heading: "Noise", HeadingIn: Markdown | HTML, Blocks: []Block{spread}},
			{ID: "plans", Heading: "Length of a gate", HeadingIn: Markdown | HTML, Blocks: []Block{plans}},
			{Blocks: []Block{Text{S: "an unchanged program mostly takes 6 pairs, and a slowdown far beyond the threshold too"}}},
		}}, nil
}
