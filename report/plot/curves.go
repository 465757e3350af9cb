package plot

import (
	"image/color"
	"math"
	"strings"

	gplot "gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/report/internal/view"
)

// roofline draws the ceilings and a point a counted stage.
func roofline(runs []*gpuprof.Run) (*Figure, error) {
	r := runs[0]
	f := newFigure("roofline", runs)
	roof := view.Roofline(r)
	if len(roof.Points) == 0 {
		return f.empty(r, "no stage counts both flops and bytes with a device time"), nil
	}
	p := newPlot("arithmetic intensity (flop per byte, counted)", "flop/s (counted over median device time)")
	x0, x1, y0, y1 := roof.Range()
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = math.Log10(x0), math.Log10(x1), math.Log10(y0), math.Log10(y1)
	p.X.Tick.Marker, p.Y.Tick.Marker = decades{}, decades{}
	sh := &shapes{}
	if roof.FlopsPerS > 0 {
		addRoof(sh, roof, x0, x1, y0)
		f.remark("peak rates measured on this device: " + roof.Peaks())
	} else {
		f.remark("the peak rates of this device were not measured")
	}
	tones := view.Tones(r)
	p.Add(grid{}, sh)
	pts := newDots()
	for _, pt := range roof.Points {
		pts.add(math.Log10(pt.Intensity), math.Log10(pt.FlopsPerS), tone(toneOf(tones, pt.Name)), pt.Name)
	}
	p.Add(pts)
	f.plots = []*gplot.Plot{p}
	return f, nil
}

func toneOf(tones map[string]int, name string) int {
	if t, ok := tones[name]; ok {
		return t
	}
	return view.MaxTones
}

func addRoof(sh *shapes, roof view.Roof, x0, x1, y0 float64) {
	ridge := roof.FlopsPerS / roof.BytesPerS
	left := max(x0, y0/roof.BytesPerS)
	mid := math.Sqrt(left * ridge)
	at := func(x float64) vg.Point {
		return vg.Point{X: vg.Length(math.Log10(x)), Y: vg.Length(math.Log10(roof.At(x)))}
	}
	sh.lines = append(sh.lines, line{color: ink, width: 1.8, pts: []vg.Point{at(left), at(ridge), at(x1)}})
	sh.texts = append(sh.texts,
		label{x: math.Log10(x1), y: math.Log10(roof.FlopsPerS), dx: 4, dy: 10, right: true, color: ink, text: "matrix product " + view.SI(roof.FlopsPerS, "flop/s")},
		label{x: math.Log10(mid), y: math.Log10(roof.At(mid)), dx: 12, right: true, dy: 8, color: ink, text: "copy " + view.SI(roof.BytesPerS, "B/s")})
	for _, l := range roof.Also { // the copy's line goes on to a higher roof, and leaves a lower one below it
		own, ends := roof.With(l), l.FlopsPerS/roof.BytesPerS
		on := func(x float64) vg.Point {
			return vg.Point{X: vg.Length(math.Log10(x)), Y: vg.Length(math.Log10(own.At(x)))}
		}
		sh.lines = append(sh.lines, line{color: ink, width: 1.8, pts: []vg.Point{on(min(ridge, ends)), on(ends), on(x1)}})
		sh.texts = append(sh.texts, label{x: math.Log10(x1), y: math.Log10(l.FlopsPerS), dx: 4, dy: 10, right: true, color: ink, text: l.Name + " product " + view.SI(l.FlopsPerS, "flop/s")})
	}
}

// dots are labelled points whose labels keep clear of each other.
type dots struct {
	x, y  []float64
	fill  []draw.GlyphStyle
	names []string
}

func newDots() *dots { return &dots{} }

func (d *dots) add(x, y float64, c color.Color, name string) {
	d.x, d.y, d.names = append(d.x, x), append(d.y, y), append(d.names, name)
	d.fill = append(d.fill, draw.GlyphStyle{Color: c, Radius: 5, Shape: draw.CircleGlyph{}})
}

// Plot implements plot.Plotter: a label goes right of its point, or above,
// below or left of it when another label is there.
func (d *dots) Plot(c draw.Canvas, p *gplot.Plot) {
	tx, ty := p.Transforms(&c)
	sty := textStyle(12, ink, false)
	sty.YAlign = draw.YCenter
	var taken []vg.Rectangle
	for i := range d.x {
		at := vg.Point{X: tx(d.x[i]), Y: ty(d.y[i])}
		taken = append(taken, vg.Rectangle{Min: vg.Point{X: at.X - 6, Y: at.Y - 6}, Max: vg.Point{X: at.X + 6, Y: at.Y + 6}})
	}
	for i := range d.x {
		at := vg.Point{X: tx(d.x[i]), Y: ty(d.y[i])}
		text := clip(sty, d.names[i], 180)
		w := sty.Width(text)
		for _, off := range []vg.Point{{X: 10}, {X: -10 - w}, {X: 8, Y: 13}, {X: 8, Y: -13}, {X: -8 - w, Y: 13}, {X: -8 - w, Y: -13}, {X: -w / 2, Y: 22}, {X: -w / 2, Y: -22}} {
			box := vg.Rectangle{Min: vg.Point{X: at.X + off.X, Y: at.Y + off.Y - 7}, Max: vg.Point{X: at.X + off.X + w, Y: at.Y + off.Y + 7}}
			if !hits(box, taken, i) && box.Min.X >= c.Min.X && box.Max.X <= c.Max.X {
				taken = append(taken, box)
				c.FillText(sty, vg.Point{X: at.X + off.X, Y: at.Y + off.Y}, text)
				break
			}
		}
		c.DrawGlyph(d.fill[i], at)
	}
}

func hits(box vg.Rectangle, taken []vg.Rectangle, own int) bool {
	for i, t := range taken {
		if i != own && box.Min.X < t.Max.X && t.Min.X < box.Max.X && box.Min.Y < t.Max.Y && t.Min.Y < box.Max.Y {
			return true
		}
	}
	return false
}

// scaling draws step time and throughput against what was swept.
func scaling(runs []*gpuprof.Run) (*Figure, error) {
	if len(runs) < 2 {
		f := newFigure("scaling", runs)
		return f.without("there is one run and nothing to compare it with, so sweep a knob first: gpuprof run " + view.Cut(runs[0].Workload, 40) + " --set KNOB=A,B,C -o sweep.json"), nil
	}
	knob, numeric, curves, ok := view.Scaling(runs)
	f := newFigure("scaling over "+view.Cut(knob, 30), runs)
	head, where := view.SweepHead(runs)
	if strings.HasPrefix(head, "several") {
		f.title = head
	}
	f.subtitle, f.note = where+" · "+view.Plural(len(runs), "run"), ""
	if !runs[0].Started.IsZero() {
		f.subtitle += " · " + date(runs[0].Started)
	}
	if !ok {
		return f.empty(runs[0], "the runs do not differ in any setting, or none has times"), nil
	}
	for i, c := range curves {
		if c.Label != "" {
			f.legend = append(f.legend, entry{c.Label, tone(i)})
		}
	}
	unit, name := view.Scale(longestStep(curves))
	step := func(p view.CurvePoint) (v, lo, hi float64, ok bool) {
		return p.Step.Median / unit, p.Step.CI95[0] / unit, p.Step.CI95[1] / unit, true
	}
	rate := func(p view.CurvePoint) (v, lo, hi float64, ok bool) {
		if p.Rate == nil {
			return 0, 0, 0, false
		}
		return p.Rate.Median, p.Rate.CI95[0], p.Rate.CI95[1], true
	}
	f.plots = append(f.plots, curvePlot(knob, "step ("+name+")", numeric, curves, step))
	if u := view.RateUnit(runs); u != "" {
		if p := curvePlot(knob, "throughput ("+u+")", numeric, curves, rate); p != nil {
			f.plots = append(f.plots, p)
		}
	}
	return f, nil
}

func longestStep(curves []view.Curve) float64 {
	v := 0.0
	for _, c := range curves {
		for _, p := range c.Points {
			v = max(v, p.Step.Median)
		}
	}
	return v
}

// figure reads one figure of a point with its interval.
type figure func(view.CurvePoint) (v, lo, hi float64, ok bool)

// curvePlot is nil when no point has the figure.
func curvePlot(knob, title string, numeric bool, curves []view.Curve, get figure) *gplot.Plot {
	var xs, ys []float64
	for _, c := range curves {
		for _, pt := range c.Points {
			if v, lo, hi, ok := get(pt); ok {
				xs, ys = append(xs, pt.X), append(ys, v)
				if view.Finite(lo) && view.Finite(hi) {
					ys = append(ys, lo, hi)
				}
			}
		}
	}
	if len(xs) == 0 {
		return nil
	}
	p := newPlot(view.Cut(knob, 30), title)
	fx, fy := axis(&p.X, xs, numeric && view.Spaced(xs)), axis(&p.Y, ys, view.Spaced(ys))
	if !view.Spaced(ys) {
		p.Y.Min = 0 // a linear axis starts at nothing
	}
	addCurves(p, numeric, curves, get, fx, fy)
	return p
}

func addCurves(p *gplot.Plot, numeric bool, curves []view.Curve, get figure, fx, fy func(float64) float64) {
	sh := &shapes{}
	var all []line
	marks, seen := gplot.ConstantTicks{}, map[float64]bool{}
	for i, c := range curves {
		l := line{color: tone(i), width: 1.8}
		for _, pt := range c.Points {
			v, lo, hi, ok := get(pt)
			if !ok {
				continue
			}
			x := fx(pt.X)
			l.pts = append(l.pts, vg.Point{X: vg.Length(x), Y: vg.Length(fy(v))})
			if view.Finite(lo) && view.Finite(hi) {
				sh.segment(x, fy(lo), x, fy(hi), ink, 1.2)
			}
			if !seen[x] {
				seen[x], marks = true, append(marks, gplot.Tick{Value: x, Label: view.Cut(pt.Value, 14)})
			}
		}
		all = append(all, l)
		if numeric { // between names there is nothing to interpolate
			sh.lines = append(sh.lines, l)
		}
	}
	p.X.Tick.Marker = marks
	p.Add(grid{}, sh)
	for _, l := range all {
		addGlyphs(p, l, l.color, 4) // over lines and whiskers
	}
}

func addGlyphs(p *gplot.Plot, l line, c color.Color, radius vg.Length) {
	pts := make(plotter.XYs, len(l.pts))
	for i, pt := range l.pts {
		pts[i] = plotter.XY{X: float64(pt.X), Y: float64(pt.Y)}
	}
	if s, err := plotter.NewScatter(pts); err == nil {
		s.GlyphStyle = draw.GlyphStyle{Color: c, Radius: radius, Shape: draw.CircleGlyph{}}
		p.Add(s)
	}
}

// axis sets range and marks for values, with room at both ends, and returns
// what turns a value into its place.
func axis(a *gplot.Axis, vs []float64, log bool) func(float64) float64 {
	place, ticks := func(v float64) float64 { return v }, gplot.Ticker(nice{})
	if log {
		place, ticks = math.Log10, decades{}
	}
	lo, hi := place(vs[0]), place(vs[0])
	for _, v := range vs {
		lo, hi = min(lo, place(v)), max(hi, place(v))
	}
	pad := max((hi-lo)*0.06, math.Abs(hi)*0.02, 1e-12)
	a.Min, a.Max, a.Tick.Marker = lo-pad, hi+pad, ticks
	return place
}
