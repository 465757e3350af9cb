package gpuprof

import "math"

// Answer is the summary at the top of a document, in terminal, page, Markdown and JSON. The package that judges builds
// it, so that every format has the same words.
type Answer struct {
	// Verdict is one to four words: "slow: data loader", "regressed", "not decided", "healthy".
	Verdict string `json:"verdict"`
	Tone    Tone   `json:"tone"`
	// Sentence is complete without the document: subject, number with interval and unit, cause.
	Sentence string `json:"sentence"`
	// Bar is the answer's only picture: a step by its parts, the memory at the peak, or a ratio.
	Bar    *Bar    `json:"bar,omitempty"`
	Action *Action `json:"action,omitempty"`
}

// Tone grades how good or bad a verdict is. A verdict has the same tone in all formats.
type Tone string

// The tones.
const (
	TonePlain  Tone = "plain"  // no judgement: a list, a recording in progress
	ToneGood   Tone = "good"   // complete, passed, improved
	ToneUnsure Tone = "unsure" // partial, inconclusive, not comparable
	ToneBad    Tone = "bad"    // slow, regressed, failed, lost
)

// Bar is a whole with its parts, or a ratio with its interval; never both.
type Bar struct {
	Of   string `json:"of"`   // the whole: "mean step", "peak memory"; or the ratio: "step time, new / old"
	Unit string `json:"unit"` // base unit of Total and of the parts: "s", "B"; "1" for a ratio
	// Total is the whole. The rest of it, which no part covers, is drawn without a name.
	Total float64   `json:"total,omitempty"`
	Parts []BarPart `json:"parts,omitempty"`
	Ratio *BarRatio `json:"ratio,omitempty"`
}

// BarPart is one part of a whole; Value is in Bar.Unit.
type BarPart struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
}

// BarRatio is a ratio with its interval. Low and High are zero if the interval is unknown.
type BarRatio struct {
	Value float64 `json:"value"`
	Low   float64 `json:"low,omitempty"`
	High  float64 `json:"high,omitempty"`
}

// Action is the next action to take.
type Action struct {
	Text string `json:"text"`
	// Command is one line to copy, with paths as the user gave them; "" without a command.
	Command string `json:"command,omitempty"`
}

// RatioBar returns a bar with a ratio, and its interval if low and high are positive and finite. It returns nil if the
// ratio is not positive and finite.
func RatioBar(of string, ratio, low, high float64) *Bar {
	b := &Bar{Of: of, Unit: "1", Ratio: &BarRatio{Value: ratio}}
	if isPositive(low) && isPositive(high) {
		b.Ratio.Low, b.Ratio.High = low, high
	}
	return b.orNil()
}

// WholeBar returns a bar of a whole in a base unit with its parts; nil unless all figures are finite.
func WholeBar(of, unit string, total float64, parts []BarPart) *Bar {
	return (&Bar{Of: of, Unit: unit, Total: total, Parts: parts}).orNil()
}

func (b *Bar) orNil() *Bar {
	if !b.Drawable() {
		return nil
	}
	return b
}

// FixAction returns the fix of a warning or fault as an action; nil without a fix.
func FixAction(fix string) *Action {
	if fix == "" {
		return nil
	}
	return &Action{Text: AsSentence(fix)}
}

// Finite returns the answer without a bar whose figures are not finite, which JSON cannot hold.
func (a Answer) Finite() Answer {
	a.Bar = a.Bar.orNil()
	return a
}

// Drawable reports whether a bar has parts or a ratio, and only finite figures.
func (b *Bar) Drawable() bool {
	if b == nil {
		return false
	}
	if b.Ratio != nil {
		return isPositive(b.Ratio.Value) && b.Ratio.Low >= 0 && b.Ratio.High >= b.Ratio.Low && !math.IsInf(b.Ratio.High, 0)
	}
	for _, p := range b.Parts {
		if !(p.Value >= 0) || math.IsInf(p.Value, 0) {
			return false
		}
	}
	return isPositive(b.Total) && len(b.Parts) > 0
}

func isPositive(x float64) bool { return x > 0 && !math.IsInf(x, 0) }
