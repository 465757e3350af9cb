//go:build !race

// Every document is built once, in one goroutine, where the detector finds nothing.

package report_test

import (
	"strings"
	"testing"

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
