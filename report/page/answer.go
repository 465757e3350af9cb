package page

import (
	"cmp"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/report/internal/view"
)

// Limits of an answer's texts, characters: a name from a file must not push the rest off
// the screen.
const (
	mostVerdict  = 60
	mostSentence = 400
	mostPartName = 40
	mostCommand  = 2000
	mostParts    = 5 // of a bar
)

// Opening returns the answer with texts of bounded length, and a bar only if it has parts or a ratio to draw. It drops
// a command beyond the limit, since a cut command would do something else.
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

// beyondAnswer returns the lines of the first finding without its change and command: the answer above has printed
// them.
func beyondAnswer(lines []Line) []Line {
	out := slices.Clone(lines)
	for i := range out {
		if out[i].Code {
			out[i].In = HTML
		}
	}
	return out
}

// ToneOf is the tone of an answer as pages paint it.
func ToneOf(t gpuprof.Tone) Tone {
	switch t {
	case gpuprof.ToneGood:
		return Good
	case gpuprof.ToneUnsure:
		return Unsure
	case gpuprof.ToneBad:
		return Bad
	}
	return Plain
}

// SignOf is the sign of a tone in a heading, seen while scrolling; "" for a plain one.
func SignOf(t gpuprof.Tone) string {
	return map[gpuprof.Tone]string{gpuprof.ToneGood: "✅", gpuprof.ToneUnsure: "❔", gpuprof.ToneBad: "❌"}[t]
}

// BarPart is a printable part of a bar.
type BarPart struct {
	Name  string
	Share float64 // of the whole
	Text  string  // "60.1 ms, 34.1 %"
}

// PartsOf are the parts of a bar in its order, of more than mostParts the largest: the
// others have no name. Parts of no size are left out.
func PartsOf(b *gpuprof.Bar) []BarPart {
	parts := slices.DeleteFunc(slices.Clone(b.Parts), func(p gpuprof.BarPart) bool { return !(p.Value > 0) })
	for len(parts) > mostParts {
		smallest := slices.MinFunc(parts, func(x, y gpuprof.BarPart) int { return cmp.Compare(x.Value, y.Value) })
		parts = slices.Delete(parts, slices.Index(parts, smallest), slices.Index(parts, smallest)+1)
	}
	var out []BarPart
	for _, part := range parts {
		share := part.Value / b.Total
		name, text := view.Cut(part.Name, mostPartName), partText(part.Value, share, b.Unit)
		out = append(out, BarPart{Name: name, Share: share, Text: text})
	}
	return out
}

// partText is a part with its share; of a whole of shares the share alone.
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

// Quantity prints a figure of a bar in the digits that tables have; bytes have binary prefixes.
func Quantity(v float64, unit string) string {
	if unit == "B" {
		return gpuprof.FormatBytes(v)
	}
	return gpuprof.FormatSI(v, unit)
}
