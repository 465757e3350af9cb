package plot

import (
	"image/color"
	"math"
	"slices"

	gplot "gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/gpuprof/gpuprof/report/internal/view"
)

// forestRow is a ratio with its interval; a row without a ratio has its text
// only.
type forestRow struct {
	name      string
	v, lo, hi float64
	text      string
	tone      color.NRGBA
	mark      draw.GlyphDrawer
}

func (r forestRow) drawn() bool { return view.Finite(r.v) && r.v > 0 }

func (r forestRow) ranged() bool {
	return r.drawn() && view.Finite(r.lo) && view.Finite(r.hi) && r.lo > 0 && r.hi >= r.lo
}

// forest draws the rows from the top down on a logarithmic axis, where twice
// and half are equally far from one, with guides at some ratios and a row's
// text at its right.
func forest(rows []forestRow, title string, guides ...float64) *gplot.Plot {
	p := newPlot(title, "")
	lo, hi := forestRange(rows, guides)
	span := hi - lo
	p.X.Min, p.X.Max = lo-span*0.04, hi+span*0.04
	longest := 0
	for _, r := range rows {
		longest = max(longest, len([]rune(r.text)))
	}
	room := p.X.Max + span*min(0.3+0.013*float64(longest), 1.1) // the texts stand there
	p.X.Tick.Marker = upTo{ratios{}, p.X.Max}
	p.Y.Min, p.Y.Max = rowRange(len(rows))
	sh := &shapes{}
	for _, g := range guides {
		if x := math.Log10(g); view.Finite(x) {
			l := line{pts: []vg.Point{{X: vg.Length(x), Y: vg.Length(p.Y.Min)}, {X: vg.Length(x), Y: vg.Length(p.Y.Max)}}, color: grey, width: 1, dash: g != 1}
			sh.lines = append(sh.lines, l)
		}
	}
	marks := &forestMarks{rows: rows, lo: p.X.Min, hi: p.X.Max}
	var labels []string
	for i, r := range rows {
		labels = append(labels, view.Cut(r.name, 44))
		y := -float64(i)
		if r.ranged() {
			sh.segment(clamp(math.Log10(r.lo), p.X.Min, p.X.Max), y, clamp(math.Log10(r.hi), p.X.Min, p.X.Max), y, r.tone, 2)
		}
	}
	p.X.Max = room
	p.Y.Tick.Marker = names(labels)
	p.Add(grid{}, sh, marks)
	return p
}

// forestRange holds every ratio, and the intervals as long as they do not
// squeeze the ratios into a corner.
func forestRange(rows []forestRow, guides []float64) (lo, hi float64) {
	vs := []float64{math.Log10(0.97), math.Log10(1.03)}
	for _, g := range guides {
		if x := math.Log10(g); view.Finite(x) {
			vs = append(vs, x)
		}
	}
	for _, r := range rows {
		if r.drawn() {
			vs = append(vs, clamp(math.Log10(r.v), -6, 6))
		}
	}
	lo, hi = slices.Min(vs), slices.Max(vs)
	reach := max(hi-lo, 0.02)
	outLo, outHi := lo-reach, hi+reach
	for _, r := range rows {
		if r.ranged() {
			lo, hi = min(lo, max(math.Log10(r.lo), outLo)), max(hi, min(math.Log10(r.hi), outHi))
		}
	}
	return lo, hi
}

// rowRange is the axis of rows from the top down; a few rows leave the rest of
// the picture empty rather than grow fat.
func rowRange(n int) (lo, hi float64) { return -float64(max(n, 6)) + 0.4, 0.6 }

func clamp(v, lo, hi float64) float64 { return min(max(v, lo), hi) }

// forestMarks draws the points over the whiskers, and an arrow head where an
// interval goes on beyond the axis.
type forestMarks struct {
	rows   []forestRow
	lo, hi float64
}

// Plot implements plot.Plotter.
func (m *forestMarks) Plot(c draw.Canvas, p *gplot.Plot) {
	tx, ty := p.Transforms(&c)
	sty := textStyle(11.5, ink, false)
	sty.YAlign = draw.YCenter
	for i, r := range m.rows {
		y := ty(-float64(i))
		at := tx(m.hi) + 12
		c.FillText(sty, vg.Point{X: at, Y: y + 1.5}, clip(sty, view.Cut(r.text, 200), c.Max.X-at))
		if !r.drawn() {
			continue
		}
		for _, end := range []struct{ v, at, dir float64 }{{r.lo, m.lo, -1}, {r.hi, m.hi, 1}} {
			if x := math.Log10(end.v); r.ranged() && (x-end.at)*end.dir > 0 {
				at := tx(end.at)
				c.FillPolygon(r.tone, []vg.Point{{X: at + vg.Length(end.dir)*7, Y: y}, {X: at, Y: y + 4}, {X: at, Y: y - 4}})
			}
		}
		c.DrawGlyph(draw.GlyphStyle{Color: r.tone, Radius: 5, Shape: r.mark}, vg.Point{X: tx(clamp(math.Log10(r.v), m.lo, m.hi)), Y: y})
	}
}

// ring is a circle with a rim that is seen as well as a filled one.
type ring struct{}

// DrawGlyph implements draw.GlyphDrawer.
func (ring) DrawGlyph(c *draw.Canvas, sty draw.GlyphStyle, at vg.Point) {
	draw.CircleGlyph{}.DrawGlyph(c, sty, at)
	c.SetColor(color.White)
	sty.Radius -= 2
	draw.CircleGlyph{}.DrawGlyph(c, sty, at)
}

// upTo leaves out the marks above a value.
type upTo struct {
	gplot.Ticker
	max float64
}

func (u upTo) Ticks(lo, hi float64) []gplot.Tick {
	return u.Ticker.Ticks(lo, min(hi, u.max))
}

// bar is one row of a waterfall: a change that starts where the one above
// ended, or the total of all from zero.
type bar struct {
	name, text string
	change     float64
	total      bool
	rest       bool // belongs to no single row
}

var (
	slowerTone = palette[3]
	fasterTone = palette[0]
	totalTone  = faint
)

// waterfallOf draws the bars from the top down, in the unit of the axis.
func waterfallOf(bars []bar, title string, unit float64) *gplot.Plot {
	p := newPlot(title, "")
	sh := &shapes{}
	var labels []string
	at, lo, hi := 0.0, 0.0, 0.0
	for i, b := range bars {
		labels = append(labels, view.Cut(b.name, 34))
		y := -float64(i)
		from, to, fill := at, at+b.change, slowerTone
		switch {
		case b.total:
			from, to, fill = 0, b.change, totalTone
		case b.rest:
			fill = grey
		case b.change < 0:
			fill = fasterTone
		}
		sh.rects = append(sh.rects, rect{x0: min(from, to) / unit, x1: max(from, to) / unit, y0: y - 0.32, y1: y + 0.32, fill: fill})
		if at = to; i+1 < len(bars) {
			sh.segment(to/unit, y+0.32, to/unit, y-1.32, grey, 0.8)
		}
		end := max(from, to)
		sh.texts = append(sh.texts, label{x: end / unit, y: y, dx: 6, text: view.Cut(b.text, 200), color: ink})
		lo, hi = min(lo, from, to), max(hi, end)
	}
	span := max(hi-lo, 1e-15)
	p.X.Min, p.X.Max = (lo-span*0.03)/unit, (hi+span*0.42)/unit
	p.Y.Min, p.Y.Max = rowRange(len(bars))
	p.Y.Tick.Marker = names(labels)
	zero := &shapes{}
	zero.segment(0, p.Y.Min, 0, p.Y.Max, ink, 1)
	p.Add(grid{}, sh, zero)
	return p
}
