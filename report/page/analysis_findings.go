package page

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/report/internal/view"
)

// traceFindingList returns the list of findings and a sentence about them. Ranks mostly have the same problems: outside
// of HTML, a rule's findings are therefore listed for the input of its first finding only, and counted for the others.
func traceFindingList(a *analyze.Analysis, xs []*analyze.Index) (findings Block, verdict string) {
	if len(a.Findings) == 0 {
		return nil, a.Bound.Text
	}
	list := List{Ordered: true, Noun: "finding", Max: traceFindings}
	claims, first := 0, map[string]int{}
	others := map[string]int{}
	for _, f := range a.Findings {
		if f.SavesTime() {
			claims++
		}
		if at, ok := first[f.Rule]; !ok {
			first[f.Rule] = f.Input
		} else if at != f.Input {
			others[f.Rule]++
		}
	}
	answer, places := a.Answer(), 0
	for i, f := range a.Findings {
		item := traceFinding(f)
		if i == 0 && answer.Action != nil {
			item.Lines = beyondAnswer(item.Lines)
		}
		if hasPlace(a, xs, i) {
			places++
			item.Place = places
		}
		if len(a.Inputs) > 1 {
			where := inputName(a, f.Input)
			switch n := others[f.Rule]; {
			case f.Input != first[f.Rule]:
				item.In = HTML
			case n > 0:
				where += fmt.Sprintf(", and less on %d more", n)
			}
			item.Text += " (" + where + ")"
		}
		list.Items = append(list.Items, item)
	}
	verdict = a.Bound.Text + " The rest is worth knowing."
	if claims > 0 && !a.Bound.Nothing {
		verdict = "1 change could save time. Its claim is an upper bound."
		if claims > 1 {
			verdict = gpuprof.Plural(claims, "change") + " could save time, " + orderWords(a.Findings) + ". Each claim is an upper bound, and no nanosecond is claimed twice."
		}
	}
	return list, verdict
}

// orderWords describes the order of the findings.
func orderWords(findings []gpuprof.Finding) string {
	for i := 1; i < len(findings); i++ {
		if findings[i].ClaimNS > findings[0].ClaimNS {
			return "the cause of others first, then the largest"
		}
	}
	return "the largest first"
}

// findingsLead summarizes the findings. The summary is in all formats if the analysis suggests nothing, else in HTML
// only.
func findingsLead(a *analyze.Analysis, verdict string) Block {
	t := Text{S: verdict, As: Lead}
	if verdict == a.Answer().Sentence {
		t.S = ""
	}
	if !a.Bound.Nothing {
		t.In = HTML
	}
	return t
}

func traceFinding(f gpuprof.Finding) Item {
	item := Item{Badge: Badge{Text: string(f.Severity), Tone: severityTone(f.Severity)}, Label: f.Rule, Text: f.Title, About: aboutRule(f.Rule)}
	if f.Suspect {
		item.Label += " (suspected)"
	}
	item.Lines = dropEmpty(Line{Label: "at", Value: siteText(f.Sites), In: Terminal | Markdown}, Line{Label: "change", Value: f.PyTorch, Code: true}, Line{Label: "measure", Value: f.TryCommand(), Code: true},
		Line{Label: "but", Value: strings.Join(f.Caveats, "; "), Spare: true})
	item.More, item.MoreText = []Block{Lines{Lines: evidenceLines(f.Evidence)}}, "evidence: totals over all steps"
	if len(f.Sites) > 0 {
		item.MoreText = "evidence and call sites: totals over all steps"
		t := Table{Name: "Call sites", Columns: numberColumns("site", "count", "time")}
		for _, s := range f.Sites {
			times := Cell{} // empty for a place from stack samples
			if s.Count > 0 {
				times = Cell{Text: siteCount(s), Value: s.Count, Unit: "1"}
			}
			t.Rows = append(t.Rows, Row{Cells: []Cell{{Text: view.CutPlace(s.Where, 120)}, times, nsCell(s.NS)}})
		}
		item.More = append(item.More, t)
	}
	return item
}

func severityTone(s gpuprof.Severity) Tone {
	switch s {
	case gpuprof.High:
		return Bad
	case gpuprof.Medium:
		return Unsure
	}
	return Faint
}

// siteCount formats the number of operations counted at a place.
func siteCount(s gpuprof.Site) string {
	of := cmp.Or(s.Of, "time")
	if s.Count != 1 {
		switch of {
		case "copy":
			of = "copies"
		case "fetch", "launch":
			of += "es"
		default:
			of += "s"
		}
	}
	return fmt.Sprintf("%.0f %s", s.Count, of)
}

// siteText formats the first place on one line; HTML has a table of all. It returns "" for a place from stack samples
// (Count 0), because the finding's title already names the place.
func siteText(sites []gpuprof.Site) string {
	if len(sites) == 0 || sites[0].Count == 0 {
		return ""
	}
	text := view.CutPlace(sites[0].Where, 60) + " (" + siteCount(sites[0]) + ")"
	if more := len(sites) - 1; more > 0 {
		text += " and " + gpuprof.Plural(more, "other place")
	}
	return text
}
