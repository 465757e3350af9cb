package figure

import (
	"math"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/report/internal/view"
)

// ratioRow is a row of a forest plot: a ratio with interval and text, or only a text.
type ratioRow struct {
	name, text    string
	ratio, lo, hi float64
	news          rating
}

// rating is the rating of a ratio, from good to bad, as the colour and the shape of its dot.
type rating struct {
	tone  Tone
	shape Shape
}

var (
	betterNews = rating{Faster, Circle}
	worseNews  = rating{Slower, Square}
	evenNews   = rating{Rest, Circle}
	unsureNews = rating{Ink, Ring}
)

func (n rating) legendEntry(text string) Entry {
	return Entry{Text: text, Tone: n.tone, Dot: true, Shape: n.shape}
}

func (r ratioRow) hasRatio() bool { return gpuprof.IsFinite(r.ratio) && r.ratio > 0 }

func (r ratioRow) hasInterval() bool {
	return r.hasRatio() && gpuprof.IsFinite(r.lo) && gpuprof.IsFinite(r.hi) && r.lo > 0 && r.hi >= r.lo
}

// mostRows limits the rows of a forest plot; the page's table has all.
const mostRows = 40

// forestPanel draws rows from top to bottom over a logarithmic axis, with dashed lines at the guides.
func forestPanel(all []ratioRow, label string, guides ...float64) Panel {
	p := Panel{Height: 24 * float64(len(all)), X: Axis{Scale: Log, Changes: true, Label: label}}
	p.X.Min, p.X.Max = forestRange(all, guides)
	p.Marks = []Mark{{Kind: Rule, X0: 1, Tone: Ink, Form: Hair}}
	for _, g := range guides {
		if gpuprof.IsFinite(g) && g > 0 {
			p.Marks = append(p.Marks, Mark{Kind: Rule, X0: g, Tone: Soft, Form: Dashed})
		}
	}
	var names []string
	for i, r := range all {
		names, p.RowNotes = append(names, r.name), append(p.RowNotes, r.text)
		y := float64(i) + 0.5
		if r.hasInterval() {
			p.Marks = append(p.Marks, Mark{Kind: Range, X0: r.lo, X1: r.hi, Y0: y, Y1: y, Tone: r.news.tone})
		}
		if r.hasRatio() {
			p.Marks = append(p.Marks, Mark{Kind: Dot, X0: r.ratio, Y0: y, Tone: r.news.tone, Shape: r.news.shape, Tip: view.Cut(r.name, 60) + ": " + r.text})
		}
	}
	p.Y = rowAxis(names)
	return p
}

// Ratios below leastRatio and above mostRatio are drawn at the edge. An interval's end is also drawn at the edge if its
// factor beyond the outermost ratio exceeds intervalReach: one uncertain figure must not squeeze all others.
const (
	leastRatio    = 0.05
	mostRatio     = 20
	intervalReach = 1.5
)

// forestRange returns the range of the axis: it contains every ratio within the limits, and most of every interval.
func forestRange(all []ratioRow, guides []float64) (least, most float64) {
	lo, hi := 0.98, 1.02
	for _, g := range guides {
		if gpuprof.IsFinite(g) && g > 0 {
			lo, hi = min(lo, g), max(hi, g)
		}
	}
	for _, r := range all {
		if r.hasRatio() {
			lo, hi = min(lo, r.ratio), max(hi, r.ratio)
		}
	}
	least, most = lo, hi
	for _, r := range all {
		if r.hasInterval() {
			least, most = min(least, max(r.lo, lo/intervalReach)), max(most, min(r.hi, hi*intervalReach))
		}
	}
	least, most = max(least, leastRatio), min(most, mostRatio)
	pad := math.Pow(most/least, 0.04)
	return least / pad, most * pad
}
