package page

import (
	"cmp"
	"fmt"

	"github.com/gpuprof/gpuprof/internal/tune"
	"github.com/gpuprof/gpuprof/report/figure"
	"github.com/gpuprof/gpuprof/report/internal/view"
)

// claimSections lists the rules of tuning guides in their order, then each rule's text and test.
func claimSections(r *tune.Result) []Section {
	t := Table{Name: "Table of claims", Noun: "claim", Caption: "Measured is a speedup, x2 is twice as fast, unless it says what else it is.",
		Columns: []Column{{Title: "id", Left: true}, {Title: "claim", Left: true, Remark: true, Drop: 3, In: Markdown | HTML}, {Title: "guide's figure", Left: true, Drop: 2, Most: 34}, {Title: "measured", Most: 34}, {Title: "95 % interval", Narrow: "95 %"},
			{Title: "verdict", Left: true}, {Title: "why", Left: true, Remark: true, In: Markdown | HTML}}}
	notes := List{Noun: "claim"}
	for _, c := range r.Claims {
		value, interval := Cell{}, Cell{}
		switch {
		case c.CI95 == [2]float64{}:
		case c.What == "":
			cells := ratioCells(c.Measured, c.CI95)
			value, interval = cells[0], cells[1]
		default:
			value = Cell{Text: fmt.Sprintf("%s (%s)", view.Percent(c.Measured), c.What), Narrow: view.Percent(c.Measured), Value: c.Measured, Unit: "1"}
			interval = intervalCell(view.Interval(c.CI95, view.Percent))
		}
		t.Rows = append(t.Rows, Row{Cells: []Cell{{Text: c.ID}, {Text: c.Claim}, {Text: c.Figure}, value, interval, {Text: c.Verdict, Tone: ToneOf(tune.ClaimTone(c.Verdict))}, {Text: cmp.Or(c.Reason, view.None)}}})
		note := Item{Label: c.ID, Text: c.Claim + " (" + c.Guide + ")"}
		for _, text := range append([]string{c.AB, c.Reason}, c.Details...) {
			if text != "" {
				note.Sub = append(note.Sub, text)
			}
		}
		notes.Items = append(notes.Items, note)
	}
	return []Section{
		{ID: "claims", Heading: "Claims of tuning guides", HeadingIn: HTML, Blocks: []Block{
			Text{S: "A speedup of x2 is twice as fast.", In: Terminal | Markdown}}, Sections: []Section{{Blocks: []Block{Chart{ID: "claims-measured", Narrow: true, Figure: func() *figure.Figure { return figure.Claims(r) }}, t}}}},
		{ID: "claim-notes", Heading: "Claims and their tests", In: Terminal | HTML, Blocks: []Block{notes}},
	}
}
