package page

import (
	"fmt"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/report/internal/view"
)

// Diagnosis is the page of gpuprof doctor: a row for each thing that was looked at, and
// why those that are missing or limited are so.
func Diagnosis(d *gpuprof.Diagnosis) (*Page, error) {
	if d == nil || len(d.Checks) == 0 {
		return nil, view.ErrNoRun("a diagnosis")
	}
	t := Table{Name: "Table of what was looked at", Noun: "thing", Columns: []Column{{Title: "what", Left: true}, {Title: "state", Left: true}, {Title: "found", Left: true, Remark: true}}}
	why := List{Noun: "thing"}
	count := map[gpuprof.CheckState]int{}
	for _, l := range d.Checks {
		count[l.State]++
		tone := checkTone(l)
		t.Rows = append(t.Rows, Row{Cells: []Cell{words(l.Name), {Text: string(l.State), Tone: tone}, words(l.Found)}})
		if l.Reason == "" && l.Fix == "" {
			continue
		}
		text := l.Reason
		if text == "" {
			text = l.Found
		}
		why.Items = append(why.Items, Item{Label: l.Name, Text: text, Tone: tone, Lines: filled(Line{Label: "fix", Value: l.Fix})})
	}
	answer := gpuprof.Answer{Verdict: "usable", Tone: gpuprof.ToneGood, Sentence: "What gpuprof uses on this machine: " + countText(count) + "."}
	if v, bad := d.Vital(); bad {
		answer = gpuprof.Answer{Verdict: "not usable", Tone: gpuprof.ToneBad, Sentence: v.Name + ": " + v.Reason}
	}
	return &Page{Title: "Diagnosis of this machine", Tool: toolText(d.Tool), Answer: answer, Data: jsonData("diagnosis.json", d), Sections: []Section{
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

// countText is how many things are in which state: "11 ok, 1 limited, 6 missing".
func countText(count map[gpuprof.CheckState]int) string {
	var parts []string
	for _, s := range []gpuprof.CheckState{gpuprof.OK, gpuprof.Limited, gpuprof.Missing} {
		if count[s] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", count[s], s))
		}
	}
	return strings.Join(parts, ", ")
}
