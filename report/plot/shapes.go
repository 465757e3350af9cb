package plot

import (
	"image/color"
	"math"

	gplot "gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// shapes is a plotter of rectangles, lines and labels in data coordinates,
// the little that the ready-made plotters do not draw.
type shapes struct {
	rects []rect
	lines []line
	texts []label
}

type rect struct {
	x0, x1, y0, y1 float64
	fill           color.NRGBA
	text           string // inside, when there is room
}

type line struct {
	pts   []vg.Point // in data coordinates
	color color.NRGBA
	width vg.Length
	dash  bool
}

type label struct {
	x, y   float64
	text   string
	dx, dy vg.Length
	right  bool // the text ends at the point
	color  color.NRGBA
}

// Plot implements plot.Plotter.
func (s *shapes) Plot(c draw.Canvas, p *gplot.Plot) {
	tx, ty := p.Transforms(&c)
	for _, r := range s.rects {
		s.drawRect(c, tx(r.x0), tx(r.x1), ty(r.y0), ty(r.y1), r)
	}
	for _, l := range s.lines {
		pts := make([]vg.Point, len(l.pts))
		for i, pt := range l.pts {
			pts[i] = vg.Point{X: tx(float64(pt.X)), Y: ty(float64(pt.Y))}
		}
		sty := draw.LineStyle{Color: l.color, Width: l.width}
		if l.dash {
			sty.Dashes = []vg.Length{5, 4}
		}
		c.StrokeLines(sty, c.ClipLinesXY(pts)...)
	}
	for _, t := range s.texts {
		sty := textStyle(11.5, t.color, false)
		sty.YAlign = draw.YCenter
		at := vg.Point{X: tx(t.x) + t.dx, Y: ty(t.y) + t.dy + 1.5}
		text := clip(sty, t.text, 300)
		if w := sty.Width(text); t.right || at.X+w > c.Max.X+40 {
			at.X -= w + 2*max(t.dx, 0)
		}
		c.FillText(sty, at, text)
	}
}

func (s *shapes) drawRect(c draw.Canvas, x0, x1, y0, y1 vg.Length, r rect) {
	x1 = max(x1, x0+0.6) // a span too short to see is still there
	if x1-x0 > 3 {
		x1 -= 0.7 // a hairline between neighbours
	}
	pts := c.ClipPolygonXY([]vg.Point{{X: x0, Y: y0}, {X: x1, Y: y0}, {X: x1, Y: y1}, {X: x0, Y: y1}})
	if len(pts) > 2 {
		c.FillPolygon(r.fill, pts)
	}
	sty := textStyle(11, contrast(r.fill), false)
	if r.text == "" || x1-x0 < 26 || y1-y0 < 13 {
		return
	}
	sty.YAlign, sty.XAlign = draw.YCenter, draw.XCenter
	text := clip(sty, r.text, x1-x0-6)
	if 3*len([]rune(text)) < 2*len([]rune(r.text)) {
		return // a few letters and an ellipsis say nothing
	}
	c.FillText(sty, vg.Point{X: (x0 + x1) / 2, Y: (y0 + y1) / 2}, text)
}

// contrast is black or white, whichever reads better on c (WCAG luminance).
func contrast(c color.NRGBA) color.NRGBA {
	lin := func(v uint8) float64 { return math.Pow(float64(v)/255, 2.2) }
	if 0.2126*lin(c.R)+0.7152*lin(c.G)+0.0722*lin(c.B) > 0.3 {
		return ink
	}
	return color.NRGBA{0xff, 0xff, 0xff, 0xff}
}

// segment is a straight line.
func (s *shapes) segment(x0, y0, x1, y1 float64, c color.NRGBA, width vg.Length) {
	s.lines = append(s.lines, line{pts: []vg.Point{{X: vg.Length(x0), Y: vg.Length(y0)}, {X: vg.Length(x1), Y: vg.Length(y1)}}, color: c, width: width})
}

// names labels the rows of a plot from the top down.
func names(labels []string) gplot.Ticker {
	var ticks []gplot.Tick
	for i, l := range labels {
		ticks = append(ticks, gplot.Tick{Value: -float64(i), Label: l})
	}
	return gplot.ConstantTicks(ticks)
}

// grid draws a vertical rule at every labelled tick of the x axis, or of
// ticks where the axis itself is not labelled.
type grid struct{ ticks gplot.Ticker }

func (g grid) Plot(c draw.Canvas, p *gplot.Plot) {
	tx, _ := p.Transforms(&c)
	if g.ticks == nil {
		g.ticks = p.X.Tick.Marker
	}
	for _, t := range g.ticks.Ticks(p.X.Min, p.X.Max) {
		if x := tx(t.Value); t.Label != "" && x >= c.Min.X && x <= c.Max.X {
			c.StrokeLine2(draw.LineStyle{Color: rule, Width: 0.7}, x, c.Min.Y, x, c.Max.Y)
		}
	}
}
