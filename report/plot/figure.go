package plot

import (
	"image/color"
	"strings"
	"time"

	xfont "golang.org/x/image/font"
	gplot "gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/report/internal/view"
)

// Figure is a picture ready to be drawn at any size: one or two plots under
// a title and a legend.
type Figure struct {
	title, subtitle string
	legend          []entry
	plots           []*gplot.Plot // from top to bottom
	lastTaller      bool
	notice          string // instead of plots, when there is nothing to draw
	lacks           string // why the document cannot give this picture
	note            string // a line below the plots
	tool            string // the version that wrote the document
}

type entry struct {
	label string
	color color.Color
}

var (
	ink   = color.NRGBA{0x22, 0x26, 0x2b, 0xff}
	faint = color.NRGBA{0x5f, 0x66, 0x70, 0xff}
	rule  = color.NRGBA{0xd9, 0xdd, 0xe2, 0xff}
	grey  = color.NRGBA{0x9a, 0xa1, 0xab, 0xff}
)

// Okabe and Ito's palette; yellow comes last because it is faint on white.
var palette = [view.MaxTones]color.NRGBA{
	{0x00, 0x72, 0xb2, 0xff}, {0xe6, 0x9f, 0x00, 0xff}, {0x00, 0x9e, 0x73, 0xff},
	{0xd5, 0x5e, 0x00, 0xff}, {0xcc, 0x79, 0xa7, 0xff}, {0x56, 0xb4, 0xe9, 0xff},
}

func tone(i int) color.NRGBA {
	if i < 0 || i >= len(palette) {
		return grey
	}
	return palette[i]
}

func light(c color.NRGBA) color.NRGBA {
	mix := func(v uint8) uint8 { return uint8((int(v) + 2*255) / 3) }
	return color.NRGBA{mix(c.R), mix(c.G), mix(c.B), 0xff}
}

// remark adds to the line below the plots.
func (f *Figure) remark(s string) {
	if f.note != "" {
		f.note += "; "
	}
	f.note += s
}

// empty is the figure of a run that has nothing for it to show; why goes on
// from "drawing roofline: …". A run without times says that instead.
func (f *Figure) empty(r *gpuprof.Run, why string) *Figure {
	if !view.HasTimes(r) {
		f.notice = "No times: " + view.Headline(r)
		return f
	}
	return f.without(why)
}

// without is a figure that the document cannot give, and why.
func (f *Figure) without(why string) *Figure {
	f.notice, f.lacks = strings.ToUpper(why[:1])+why[1:]+".", why
	return f
}

func date(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 UTC") }

func newPlot(x, y string) *gplot.Plot {
	p := gplot.New()
	for _, a := range []*gplot.Axis{&p.X, &p.Y} {
		a.Label.TextStyle.Font.Size, a.Label.TextStyle.Color = 13, faint
		a.Label.TextStyle.Font.Variant = "Sans"
		a.Tick.Label.Font.Size, a.Tick.Label.Color = 12, ink
		a.Tick.Label.Font.Variant = "Sans"
		a.Tick.LineStyle.Color, a.LineStyle.Color = rule, rule
		a.Label.Padding, a.Padding = 6, 4
	}
	p.X.Label.Text, p.Y.Label.Text = x, y
	p.X.Tick.Marker, p.Y.Tick.Marker = nice{}, nice{}
	p.BackgroundColor = nil
	return p
}

func textStyle(size vg.Length, c color.Color, weight bool) draw.TextStyle {
	f := font.Font{Typeface: "Liberation", Variant: "Sans", Size: size}
	if weight {
		f.Weight = xfont.WeightBold
	}
	return draw.TextStyle{Color: c, Font: f, Handler: gplot.DefaultTextHandler}
}

// Draw draws the figure on a canvas.
func (f *Figure) Draw(c draw.Canvas) {
	c.SetColor(color.White)
	c.Fill(c.Rectangle.Path())
	const margin = 16
	c = draw.Crop(c, margin, -margin, margin, -margin)
	title, sub := textStyle(18, ink, true), textStyle(12.5, faint, false)
	title.YAlign, sub.YAlign = draw.YTop, draw.YTop
	top := c.Max.Y
	c.FillText(title, vg.Point{X: c.Min.X, Y: top}, clip(title, f.title, c.Size().X))
	c.FillText(sub, vg.Point{X: c.Min.X, Y: top - 26}, clip(sub, f.subtitle, c.Size().X))
	top = f.drawLegend(c, top-48)
	bottom := c.Min.Y
	if f.note != "" {
		note := textStyle(11.5, faint, false)
		c.FillText(note, vg.Point{X: c.Min.X, Y: bottom}, clip(note, f.note, c.Size().X))
		bottom += 20
	}
	body := draw.Canvas{Canvas: c.Canvas, Rectangle: vg.Rectangle{Min: vg.Point{X: c.Min.X, Y: bottom}, Max: vg.Point{X: c.Max.X, Y: top - 6}}}
	if body.Size().Y < 40 || body.Size().X < 40 {
		return // too small for axes; the title says what it would be
	}
	if f.notice != "" || len(f.plots) == 0 {
		f.drawNotice(body)
		return
	}
	f.drawPlots(body)
}

// drawPlots stacks the plots, the last one half again as high when it asks
// for it, with their axes at the same place and none squeezed by its labels.
func (f *Figure) drawPlots(body draw.Canvas) {
	gap := vg.Length(14)
	if len(f.plots) > 3 {
		gap = 9
	}
	n := vg.Length(len(f.plots))
	var left, right, total, taken vg.Length
	labels := make([]vg.Length, len(f.plots))
	for i, p := range f.plots {
		data := p.DataCanvas(body)
		left, right = max(left, data.Min.X-body.Min.X), max(right, body.Max.X-data.Max.X)
		labels[i] = body.Size().Y - data.Size().Y
		total, taken = total+f.weight(i), taken+labels[i]
	}
	room := max(body.Size().Y-gap*(n-1)-taken, 0)
	top := body.Max.Y
	for i, p := range f.plots {
		h := labels[i] + room*f.weight(i)/total
		tile := draw.Canvas{Canvas: body.Canvas, Rectangle: vg.Rectangle{Min: vg.Point{X: body.Min.X, Y: top - h}, Max: vg.Point{X: body.Max.X, Y: top}}}
		top -= h + gap
		data := p.DataCanvas(tile)
		p.Draw(draw.Crop(tile, left-(data.Min.X-body.Min.X), -(right - (body.Max.X - data.Max.X)), 0, 0))
	}
}

func (f *Figure) weight(i int) vg.Length {
	if f.lastTaller && i == len(f.plots)-1 {
		return 1.6
	}
	return 1
}

func (f *Figure) drawNotice(c draw.Canvas) {
	sty := textStyle(15, ink, false)
	sty.XAlign, sty.YAlign = draw.XCenter, draw.YCenter
	mid := c.Center()
	for i, l := range wrapText(sty, f.notice, c.Size().X*0.8) {
		c.FillText(sty, vg.Point{X: mid.X, Y: mid.Y - vg.Length(i)*22}, l)
	}
}

// drawLegend writes the entries in a row, wrapped, and returns the new top.
func (f *Figure) drawLegend(c draw.Canvas, top vg.Length) vg.Length {
	if len(f.legend) == 0 {
		return top
	}
	sty := textStyle(12, ink, false)
	sty.YAlign = draw.YCenter
	x, y := c.Min.X, top-8
	for _, e := range f.legend {
		label := clip(sty, e.label, 330)
		w := 18 + sty.Width(label) + 22
		if x > c.Min.X && x+w > c.Max.X {
			x, y = c.Min.X, y-20
		}
		c.FillPolygon(e.color, []vg.Point{{X: x, Y: y - 5}, {X: x + 12, Y: y - 5}, {X: x + 12, Y: y + 5}, {X: x, Y: y + 5}})
		c.FillText(sty, vg.Point{X: x + 18, Y: y}, label)
		x += w
	}
	return y - 16
}

// clip cuts text to a width with an ellipsis.
func clip(sty draw.TextStyle, s string, width vg.Length) string {
	if sty.Width(s) <= width {
		return s
	}
	r := []rune(s)
	lo, hi := 0, len(r)
	for lo < hi {
		mid := (lo + hi + 1) / 2
		if sty.Width(string(r[:mid])+"…") <= width {
			lo = mid
		} else {
			hi = mid - 1
		}
	}
	if lo == 0 {
		return ""
	}
	return string(r[:lo]) + "…"
}

func wrapText(sty draw.TextStyle, s string, width vg.Length) []string {
	var out []string
	cur := ""
	for _, w := range strings.Fields(s) {
		if cur != "" && sty.Width(cur+" "+w) > width {
			out, cur = append(out, cur), ""
		}
		cur = strings.TrimSpace(cur + " " + w)
	}
	out = append(out, cur)
	if len(out) > 8 {
		out = out[:8]
	}
	for i := range out {
		out[i] = clip(sty, out[i], width)
	}
	return out
}
