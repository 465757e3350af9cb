package page

import (
	"cmp"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/report/internal/view"
)

// Limits of an answer's texts, in characters: a longer text would push the page off the screen.
const (
	mostVerdict  = 60
	mostSentence = 400
	mostPartName = 40
	mostCommand  = 2000
	mostParts    = 5 // of a bar
)

// leastStage is the smallest share of the step for which a stage gets its own part of the bar.
const leastStage = 0.005

// Opening returns the answer with texts cut to their limits, and without a bar that has nothing to draw. A command
// above mostCommand is dropped, because a truncated command would do something else.
func (p *Page) Opening() gpuprof.Answer {
	a := p.Answer.Finite()
	a.Verdict, a.Sentence = view.Cut(a.Verdict, mostVerdict), view.Cut(a.Sentence, mostSentence)
	if a.Action != nil {
		do := *a.Action
		do.Text = view.Cut(do.Text, mostSentence)
		if len(do.Command) > mostCommand {
			do.Command = ""
		}
		a.Action = &do
	}
	return a
}

// beyondAnswer limits the change and the command of the first finding to HTML: in other formats the answer already has
// both.
func beyondAnswer(lines []Line) []Line {
	out := slices.Clone(lines)
	for i := range out {
		if out[i].Code {
			out[i].In = HTML
		}
	}
	return out
}

// ToneOf returns the page's tone for an answer's tone.
func ToneOf(t gpuprof.Tone) Tone {
	return map[gpuprof.Tone]Tone{gpuprof.ToneGood: Good, gpuprof.ToneUnsure: Unsure, gpuprof.ToneBad: Bad}[t]
}

// SignOf returns the sign of a tone for a heading, to be seen while scrolling; "" for a plain tone.
func SignOf(t gpuprof.Tone) string {
	return map[gpuprof.Tone]string{gpuprof.ToneGood: "✅", gpuprof.ToneUnsure: "❔", gpuprof.ToneBad: "❌"}[t]
}

// BarPart is a formatted part of a bar.
type BarPart struct {
	Name  string
	Share float64 // of the whole
	Text  string  // "60.1 ms, 34.1 %"
	Place int     // position of a stage in the step, from 0, gap not counted; -1 if the name determines the colour
}

// PartsOf returns the nonempty parts of a bar, in order. Above mostParts the smallest are dropped, and the bar ends
// with an unnamed remainder.
func PartsOf(b *gpuprof.Bar) []BarPart {
	places := map[string]int{}
	for _, p := range b.Parts {
		if p.Name != gpuprof.StageGap {
			places[p.Name] = len(places)
		}
	}
	parts := slices.DeleteFunc(slices.Clone(b.Parts), func(p gpuprof.BarPart) bool { return !(p.Value > 0) || b.Unit == "1" && p.Value < leastStage })
	for len(parts) > mostParts {
		smallest := slices.Index(parts, slices.MinFunc(parts, func(x, y gpuprof.BarPart) int { return cmp.Compare(x.Value, y.Value) }))
		parts = slices.Delete(parts, smallest, smallest+1)
	}
	var out []BarPart
	for _, part := range parts {
		share := part.Value / b.Total
		name, text := view.Cut(part.Name, mostPartName), partText(part.Value, share, b.Unit)
		place, staged := places[part.Name]
		if !staged || b.Unit != "1" {
			place = -1
		}
		out = append(out, BarPart{Name: name, Share: share, Text: text, Place: place})
	}
	return out
}

// partText formats a part with its share; for unit "1" the share alone.
func partText(v, share float64, unit string) string {
	if unit == "1" {
		return view.Percent(share)
	}
	return Quantity(v, unit) + ", " + view.Percent(share)
}

// WholeText names a bar's total, or its ratio: "mean step 176 ms", "step time, new / old x1.285 [1.270, 1.300]".
func WholeText(b *gpuprof.Bar) string {
	of := view.Cut(b.Of, mostVerdict)
	if b.Ratio == nil && b.Unit == "1" {
		return of
	}
	if b.Ratio == nil {
		return strings.TrimSpace(of + " " + Quantity(b.Total, b.Unit))
	}
	text := of + " " + gpuprof.FormatRatio(b.Ratio.Value)
	if b.Ratio.High > 0 {
		text += " [" + gpuprof.FormatFactor(b.Ratio.Low) + ", " + gpuprof.FormatFactor(b.Ratio.High) + "]"
	}
	return strings.TrimSpace(text)
}

// Quantity formats a figure of a bar as tables do; bytes have binary prefixes.
func Quantity(v float64, unit string) string {
	if unit == "B" {
		return gpuprof.FormatBytes(v)
	}
	return gpuprof.FormatSI(v, unit)
}
