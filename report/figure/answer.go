package figure

import (
	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/report/internal/view"
)

// BarPart is a part of an answer's bar: name, share of the whole, and a text with value and share.
type BarPart struct {
	Name  string
	Share float64
	Text  string
	Place int // position of a stage in the step, which determines the colour; -1 if the name determines it
}

// tone returns a part's colour: by outcome for requests, by position for stages, otherwise by name.
func (p BarPart) tone() Tone {
	switch {
	case p.Name == "in time":
		return Faster
	case p.Name == "too late":
		return Slower
	case p.Name == "not measured":
		return Rest
	case p.Place < 0:
		return partTone(p.Name)
	}
	return toneOf(p.Place)
}

// Divided draws an answer's bar, divided into parts. whole is the title.
func Divided(whole string, parts []BarPart) *Figure {
	f := &Figure{ID: "opening", Title: whole, Desc: "One bar, divided by its parts."}
	p := Panel{X: Axis{Max: 1, Bare: true}, Y: rowAxis([]string{""}), Height: 40}
	at := 0.0
	for _, part := range parts {
		tone := part.tone()
		text := part.Name + " " + part.Text
		bar := Mark{Kind: Bar, X0: at, X1: at + part.Share, Y1: 1, Tone: tone, Text: text, Brief: part.Name, Tip: text}
		p.Marks = append(p.Marks, bar)
		f.Legend = append(f.Legend, Entry{Text: text, Tone: tone})
		at += part.Share
	}
	if len(parts) > 0 {
		f.Panels = []Panel{p}
	}
	return f
}

// Proportion draws an answer's ratio with its interval and a line at 1. text describes it.
func Proportion(text string, r *gpuprof.BarRatio, tone gpuprof.Tone) *Figure {
	row := ratioRow{name: "", text: "", ratio: r.Value, lo: r.Low, hi: r.High, news: newsOf(tone)}
	f := &Figure{ID: "opening", Title: text, Desc: "The ratio with its interval."}
	p := forestPanel([]ratioRow{row}, view.Cut(text, 80))
	p.Height = 40
	for i := range p.Marks {
		if p.Marks[i].Kind == Dot {
			p.Marks[i].Tip = text // the row has no name, so its heading describes it
		}
	}
	f.Panels = []Panel{p}
	return f
}

// newsOf returns the rating for an answer's tone, so that charts agree with tables and the answer.
func newsOf(t gpuprof.Tone) rating {
	switch t {
	case gpuprof.ToneGood:
		return betterNews
	case gpuprof.ToneBad:
		return worseNews
	case gpuprof.ToneUnsure:
		return unsureNews
	}
	return evenNews
}
