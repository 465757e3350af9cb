package page

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/report/internal/view"
)

// Diagnosis builds the page of gpuprof doctor: a row per check, with reasons for missing and limited ones. On a
// terminal, one line names all checks that a missing check makes impossible, and one line per state names the detail
// checks.
func Diagnosis(d *gpuprof.Diagnosis) (*Page, error) {
	if d == nil || len(d.Checks) == 0 {
		return nil, view.ErrNoRun("a diagnosis")
	}
	answer := d.Answer()
	t := Table{Name: "Table of what was looked at", Noun: "thing", Columns: []Column{{Title: "what", Left: true}, {Title: "state", Left: true}, {Title: "found", Left: true, Remark: true}}}
	why := List{Noun: "thing"}
	count := map[gpuprof.CheckState]int{}
	details := map[gpuprof.CheckState][]string{}
	for _, l := range d.Checks {
		count[l.State]++
		tone := checkTone(l)
		row := Row{Keep: l.State != gpuprof.OK, Cells: []Cell{wordsCell(l.Name), {Text: string(l.State), Tone: tone}, wordsCell(l.Found)}}
		if l.Because != "" || l.Detail {
			row.In = Verbose
		}
		if l.Detail {
			details[l.State] = append(details[l.State], l.Name)
		}
		t.Rows = append(t.Rows, row)
		if names := d.Missing(l.Name); len(names) > 0 {
			t.Rows = append(t.Rows, Row{Sub: true, In: Terminal, Cells: []Cell{wordsCell("and so"), {Text: string(gpuprof.Missing), Tone: Unsure}, wordsCell(strings.Join(names, ", "))}})
		}
		if l.Reason == "" && l.Fix == "" {
			continue
		}
		item := Item{Label: l.Name, Text: cmp.Or(l.Reason, l.Found), Tone: tone, Lines: dropEmpty(Line{Label: "fix", Value: l.Fix})}
		said := answer.Action != nil && answer.Action.Text == gpuprof.AsSentence(l.Fix)
		if row.In != 0 || said {
			item.In = Verbose
		}
		why.Items = append(why.Items, item)
	}
	for _, state := range []gpuprof.CheckState{gpuprof.OK, gpuprof.Missing} {
		if names := details[state]; len(names) > 0 {
			t.Rows = append(t.Rows, Row{In: Terminal, Cells: []Cell{wordsCell("details"), {Text: string(state), Tone: checkTone(gpuprof.CheckLine{State: state})}, wordsCell(strings.Join(names, ", "))}})
		}
	}
	return &Page{Title: "Diagnosis of this machine", Meta: []string{countText(count)}, Tool: toolText(d.Tool), Answer: answer, Data: jsonData("diagnosis.json", d), Sections: []Section{
		{ID: "checks", Blocks: []Block{t}},
		{ID: "why", Heading: "Reasons and fixes", Blocks: []Block{why}},
	}}, nil
}

func checkTone(l gpuprof.CheckLine) Tone {
	switch {
	case l.State == gpuprof.OK:
		return Good
	case l.Vital:
		return Bad
	}
	return Unsure
}

// countText counts checks by state: "11 ok, 1 limited, 6 missing".
func countText(count map[gpuprof.CheckState]int) string {
	var parts []string
	for _, s := range []gpuprof.CheckState{gpuprof.OK, gpuprof.Limited, gpuprof.Missing} {
		if count[s] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", count[s], s))
		}
	}
	return strings.Join(parts, ", ")
}
