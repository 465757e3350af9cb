package html

import (
	"cmp"
	"html/template"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/report/figure"
	"github.com/gpuprof/gpuprof/report/page"
)

// answerView has the answer at the top of the page.
type answerView struct {
	Badge    badgeView
	Sentence string
	Bar      template.HTML
	Action   *gpuprof.Action
}

func answerOf(a gpuprof.Answer) answerView {
	badge := badgeView{cmp.Or(toneOf(page.ToneOf(a.Tone)), "plain"), a.Verdict} // a badge without a class has the colour of unsure
	return answerView{Badge: badge, Sentence: a.Sentence, Bar: drawBar(a), Action: a.Action}
}

// drawBar draws an answer's bar for wide and for narrow screens; "" if there is none.
func drawBar(a gpuprof.Answer) template.HTML {
	if a.Bar == nil {
		return ""
	}
	whole := page.WholeText(a.Bar)
	var f *figure.Figure
	if a.Bar.Ratio != nil {
		f = figure.Proportion(whole, a.Bar.Ratio, a.Tone)
	} else {
		var parts []figure.BarPart
		for _, p := range page.PartsOf(a.Bar) {
			parts = append(parts, figure.BarPart(p))
		}
		f = figure.Divided(whole, parts)
	}
	if f.Empty() {
		return ""
	}
	narrow, broad := f.InlineNarrow("answer-narrow"), f.Inline("answer-bar")
	return template.HTML("<div class=\"narrow\">" + narrow + "</div><div class=\"broad\">" + broad + "</div>")
}
