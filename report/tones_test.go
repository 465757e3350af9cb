//go:build !race

// Every document is built once, in one goroutine, where the detector finds nothing.

package report_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof/report/figure"
	"github.com/gpuprof/gpuprof/report/page"
)

// toned gathers the tones that words have as a verdict, as a badge and as a painted cell.
type toned map[string]map[page.Tone][]string

func (t toned) add(word string, tone page.Tone, where string) {
	word, _, _ = strings.Cut(strings.ToLower(strings.TrimSpace(word)), ":")
	if word == "" || tone == page.Plain || len(strings.Fields(word)) > 3 || strings.ContainsAny(word, "0123456789") {
		return
	}
	if t[word] == nil {
		t[word] = map[page.Tone][]string{}
	}
	t[word][tone] = append(t[word][tone], where)
}

func (t toned) sections(all []page.Section, where string) {
	for _, s := range all {
		t.add(s.Badge.Text, s.Badge.Tone, where)
		for _, b := range s.Blocks {
			switch b := b.(type) {
			case page.Table:
				for _, r := range b.Rows {
					for _, c := range r.Cells {
						t.add(c.Text, c.Tone, where)
					}
				}
			case page.List:
				for _, it := range b.Items {
					t.add(it.Badge.Text, it.Badge.Tone, where)
				}
			}
		}
		t.sections(s.Sections, where)
	}
}

// TestAVerdictHasOneTone: over all documents a verdict, a badge and a painted cell of the same words have one tone.
func TestAVerdictHasOneTone(t *testing.T) {
	all := toned{}
	for _, g := range everyDocument(t) {
		all.add(g.page.Answer.Verdict, page.ToneOf(g.page.Answer.Tone), g.name)
		all.sections(g.page.Sections, g.name)
	}
	if len(all) < 10 {
		t.Fatalf("only %d words have a tone", len(all))
	}
	for word, tones := range all {
		if len(tones) > 1 {
			t.Errorf("%q has several tones: %v", word, tones)
		}
	}
}

// barTones are the tones of the parts of an answer's bar, by name.
func barTones(p *page.Page) map[string]figure.Tone {
	out := map[string]figure.Tone{}
	if b := p.Opening().Bar; b != nil && b.Ratio == nil {
		var parts []figure.BarPart
		for _, part := range page.PartsOf(b) {
			parts = append(parts, figure.BarPart(part))
		}
		for i, entry := range figure.Divided("", parts).Legend {
			out[strings.TrimPrefix(parts[i].Name, "idle, ")] = entry.Tone
		}
	}
	return out
}

// TestABarAndItsChartsHaveOneTone: a part of the bar that a chart or a picture of the same document names has the same
// tone there.
func TestABarAndItsChartsHaveOneTone(t *testing.T) {
	compared := map[string]bool{}
	for _, g := range everyDocument(t) {
		tones := barTones(g.page)
		for _, f := range slices.AppendSeq(chartsOf(g.page.Sections), maps.Values(g.figures)) {
			for _, e := range f.Legend {
				name := e.Text
				tone, same := tones[name]
				if same {
					compared[g.kind] = true
				}
				if same && tone != e.Tone {
					t.Errorf("%s: %q is %s in the bar and %s in the chart %s", g.name, name, tone, e.Tone, f.ID)
				}
			}
			for _, panel := range f.Panels {
				for _, m := range panel.Marks {
					name, _, found := strings.Cut(m.Tip, ": ")
					if tone, same := tones[name]; found && same && tone != m.Tone {
						t.Errorf("%s: %q is %s in the bar and %s in the chart %s", g.name, name, tone, m.Tone, f.ID)
					}
				}
			}
		}
	}
	for _, kind := range []string{"run", "analysis", "memory"} {
		if !compared[kind] {
			t.Errorf("no part of the bar of any %s is in its charts: %v", kind, compared)
		}
	}
}

// TestPartsOfABarDiffer: neighbours in the bar of a host thread, or of a recording that is mostly start-up, have
// different tones, and none of them is the tone of the rest.
func TestPartsOfABarDiffer(t *testing.T) {
	for _, names := range [][]string{
		{"operators", "data loader", "outside, blocked", "outside, on CPU", "outside, waiting for a CPU"}, {"blocked", "on CPU", "waiting for a CPU"},
		{"start-up", "compilation", "graph capture"},
	} {
		var parts []figure.BarPart
		for _, name := range names {
			parts = append(parts, figure.BarPart{Name: name, Share: 1 / float64(len(names)), Place: -1})
		}
		seen := map[figure.Tone]string{figure.Rest: "the rest"}
		for i, e := range figure.Divided("", parts).Legend {
			if other := seen[e.Tone]; other != "" {
				t.Errorf("%s and %s are both %s", names[i], other, e.Tone)
			}
			seen[e.Tone] = names[i]
		}
	}
}

// TestAVerdictHasOneToneInCharts: a row of a chart that ends in a verdict is painted as the verdict's badge is.
func TestAVerdictHasOneToneInCharts(t *testing.T) {
	words := toned{}
	for _, g := range everyDocument(t) {
		words.add(g.page.Answer.Verdict, page.ToneOf(g.page.Answer.Tone), g.name)
		words.sections(g.page.Sections, g.name)
	}
	want := map[page.Tone]figure.Tone{page.Good: figure.Faster, page.Bad: figure.Slower, page.Unsure: figure.Ink}
	checked := 0
	for _, g := range everyDocument(t) {
		for _, f := range slices.AppendSeq(chartsOf(g.page.Sections), maps.Values(g.figures)) {
			for _, panel := range f.Panels {
				for i, note := range panel.RowNotes {
					for tone := range words[lastWord(note)] {
						for _, m := range panel.Marks {
							if m.Kind == figure.Dot && m.Y0 == float64(i)+0.5 {
								checked++
								if m.Tone != want[tone] {
									t.Errorf("%s: chart %s, row %q is painted %s, its verdict %s", g.name, f.ID, note, m.Tone, want[tone])
								}
							}
						}
					}
				}
			}
		}
	}
	if checked < 5 {
		t.Errorf("only %d rows of charts have a verdict", checked)
	}
}

func lastWord(text string) string {
	fields := strings.Fields(strings.ToLower(text))
	if len(fields) == 0 {
		return ""
	}
	return fields[len(fields)-1]
}
