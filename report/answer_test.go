package report_test

import (
	"encoding/json"
	"html"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/document"
	pages "github.com/gpuprof/gpuprof/report/html"
	"github.com/gpuprof/gpuprof/report/markdown"
	"github.com/gpuprof/gpuprof/report/page"
	"github.com/gpuprof/gpuprof/report/table"
)

// TestEveryPageAnswers: every kind of page opens with a verdict, its tone and a sentence.
func TestEveryPageAnswers(t *testing.T) {
	tones := map[gpuprof.Tone]bool{gpuprof.TonePlain: true, gpuprof.ToneGood: true, gpuprof.ToneUnsure: true, gpuprof.ToneBad: true}
	pages := longPages(t)
	for _, g := range everyDocument(t) {
		pages[g.name] = g.page
	}
	for name, p := range pages {
		a := p.Answer
		if strings.TrimSpace(a.Verdict) == "" || len(strings.Fields(a.Verdict)) > 5 {
			t.Errorf("%s: the verdict %q is not of one to five words", name, a.Verdict)
		}
		if !tones[a.Tone] {
			t.Errorf("%s: the tone is %q", name, a.Tone)
		}
		if strings.TrimSpace(a.Sentence) == "" {
			t.Errorf("%s: no sentence", name)
		}
		if a.Bar != nil && !a.Bar.Drawable() {
			t.Errorf("%s: a bar without figures to draw: %+v", name, a.Bar)
		}
	}
}

// TestAnswerIsTheSameEverywhere: the JSON of every kind of document has an answer of its own, and terminal, Markdown and
// page open with it. A recording has no page; TestStatusOfRecording has its answer.
func TestAnswerIsTheSameEverywhere(t *testing.T) {
	kinds := map[gpuprof.DocumentKind]bool{}
	for _, g := range everyDocument(t) {
		if g.kind == "explanation" { // a text, which no file holds
			continue
		}
		var head gpuprof.Head
		must(t, json.Unmarshal([]byte(rendered(t, g.page.Data.Encode)), &head))
		kinds[head.Kind] = true
		a := g.page.Answer.Finite()
		if head.Answered == nil || !reflect.DeepEqual(*head.Answered, a) {
			t.Errorf("%s: the file answers %+v, the page %+v", g.name, head.Answered, a)
			continue
		}
		texts := map[string]string{
			"terminal": rendered(t, func(w io.Writer) error { return table.Write(w, g.page, table.Options{Lines: 24, Width: 100}) }),
			"Markdown": rendered(t, func(w io.Writer) error { return markdown.Write(w, g.page, 0) }),
			"page":     rendered(t, func(w io.Writer) error { return pages.Write(w, g.page) }),
		}
		for where, text := range texts {
			top := plainWords(text)
			if !strings.Contains(top, plainWords(a.Sentence)) || !strings.Contains(top, plainWords(a.Verdict)) {
				t.Errorf("%s: the %s lacks %q or %q", g.name, where, a.Verdict, a.Sentence)
			}
		}
	}
	want := []gpuprof.DocumentKind{document.Run, document.Sweep, document.Comparison, document.Gate, document.Analysis, document.TraceComparison, document.Memory, document.Tune, document.Claims,
		document.History, document.Bisect, document.Fleet, document.Health, document.Diagnosis, document.Check, document.Noise}
	for _, k := range want {
		if !kinds[k] {
			t.Errorf("no document of the kind %q was asked for its answer: %v", k, slices.Sorted(maps.Keys(kinds)))
		}
	}
}

// plainWords drops markup, escapes and line ends, which differ between the writers.
func plainWords(text string) string {
	text = strings.NewReplacer("\\", "", "`", "", "*", "", "\u00a0", " ", "<wbr>", "", "<code>", "", "</code>", "").Replace(html.UnescapeString(text))
	return strings.Join(strings.Fields(text), " ")
}

// TestAnswerIsNeverLeftOut: however few lines there are, verdict, sentence and the whole
// command are printed.
func TestAnswerIsNeverLeftOut(t *testing.T) {
	command := "gpuprof run -- python " + strings.Repeat("a-folder/", 20) + "train.py"
	p := &page.Page{Title: "t", Answer: gpuprof.Answer{Verdict: "slow: data loader", Tone: gpuprof.ToneBad, Sentence: "The GPU waits.",
		Bar:    &gpuprof.Bar{Of: "mean step", Unit: "s", Total: 0.2, Parts: []gpuprof.BarPart{{Name: "busy", Value: 0.15}, {Name: "starved", Value: 0.05}}},
		Action: &gpuprof.Action{Text: "Give the data loader more workers.", Command: command}}}
	text := rendered(t, func(w io.Writer) error { return table.Write(w, p, table.Options{Lines: 10}) })
	for _, want := range []string{"[slow: data loader] The GPU waits.", "busy 150 ms, 75.0 %", "\n   " + command + "\n", "mean step 200 ms"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
}

// TestRatioMarksOne: the line of a ratio marks 1 beside the interval, in ASCII where asked.
func TestRatioMarksOne(t *testing.T) {
	for _, c := range []struct {
		ratio gpuprof.BarRatio
		want  string
	}{
		{gpuprof.BarRatio{Value: 1.285, Low: 1.27, High: 1.3}, "[-o-]"},
		{gpuprof.BarRatio{Value: 0.5}, "o"},
		{gpuprof.BarRatio{Value: 1.5, Low: 1e-9, High: 1e9}, "o"},
	} {
		p := &page.Page{Answer: gpuprof.Answer{Verdict: "v", Sentence: "s", Bar: &gpuprof.Bar{Of: "new / old", Unit: "1", Ratio: &c.ratio}}}
		text := rendered(t, func(w io.Writer) error { return table.Write(w, p, table.Options{ASCII: true}) })
		line := strings.Split(text, "\n")[1]
		picture, _, _ := strings.Cut(line, "  ")
		one, point := strings.Index(picture, "1"), strings.Index(picture, "o")
		if one < 0 || (one < point) != (c.ratio.Value > 1) || !strings.Contains(strings.ReplaceAll(picture, "--", "-"), c.want) {
			t.Errorf("%+v is drawn as %q", c.ratio, line)
		}
	}
}
