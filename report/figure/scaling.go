package figure

import (
	"math"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/report/internal/view"
)

// Scaling draws step time and throughput over the swept setting, with intervals.
func Scaling(runs []*gpuprof.Run) *Figure {
	knob, numeric, curves, ok := view.Scaling(runs)
	title := "Scaling"
	if knob != "" {
		title += " over " + view.Cut(knob, 40)
	}
	f := newRunFigure("scaling", title, "Step time and throughput for each value, with intervals.", runs[0])
	if len(runs) < 2 {
		return f.setLacking("there is one run and nothing to compare it with, so sweep a knob first: gpuprof run " + view.Cut(runs[0].Workload, 40) + " --set KNOB=A,B,C -o sweep.json")
	}
	head, where := view.SweepHead(runs)
	if strings.HasPrefix(head, "several") {
		f.Subject = head
	}
	f.Context = []string{where, gpuprof.Plural(len(runs), "run")}
	f.setDate(runs[0].Started)
	if !ok {
		return f.setRunLacking(runs[0], "the runs do not differ in any setting, or none has times")
	}
	for i, c := range curves {
		if c.Label != "" {
			f.Legend = append(f.Legend, Entry{Text: c.Label, Tone: toneOf(i)})
		}
	}
	of := func(label, unit string, get func(view.CurvePoint) *gpuprof.Series) {
		var all []curve
		for i, c := range curves {
			out := curve{label: c.Label, tone: toneOf(i), joined: numeric}
			for _, p := range c.Points {
				if s := get(p); s != nil {
					text := view.Median(s) + " (" + view.SeriesInterval(s) + ")"
					if unit != "s" {
						text = view.RateText(s, unit)
					}
					out.points = append(out.points, curvePoint{p.X, p.Value, s.Median, s.CI95, text})
				}
			}
			all = append(all, out)
		}
		if p, ok := curvePanel(view.Cut(knob, 40), label, unit, numeric, all); ok {
			f.Panels = append(f.Panels, p)
		}
	}
	of("step time", "s", func(p view.CurvePoint) *gpuprof.Series { return p.Step })
	if u := view.RateUnit(runs); u != "" {
		of("throughput", u, func(p view.CurvePoint) *gpuprof.Series { return p.Rate })
	}
	return f
}

// curve is a series of figures over a setting.
type curve struct {
	label  string
	tone   Tone
	joined bool // false for settings that are names, which cannot be interpolated
	points []curvePoint
}

type curvePoint struct {
	x     float64
	value string // of the setting
	y     float64
	ci    [2]float64
	text  string
}

// curvePanel draws curves with intervals; false without points. Axes whose values cover a wide range are logarithmic, so
// that proportional growth is a straight line; a linear Y axis starts at 0.
func curvePanel(knob, label, unit string, numeric bool, curves []curve) (p Panel, ok bool) {
	var xs, ys []float64
	for _, c := range curves {
		for _, pt := range c.points {
			xs, ys = append(xs, pt.x), append(ys, pt.y)
		}
	}
	if len(xs) == 0 || slices.Max(ys) <= 0 {
		return p, false
	}
	most := slices.Max(ys)
	for _, c := range curves {
		for _, pt := range c.points {
			if gpuprof.IsFinite(pt.ci[1]) { // a wide interval must not squeeze the curves
				ys = append(ys, min(pt.ci[1], 2*most))
			}
		}
	}
	p = Panel{Height: 190, X: axisOf(xs, numeric && view.Spaced(xs), 0.06), Y: axisOf(ys, numeric && view.Spaced(xs) && view.Spaced(ys), 0.04)}
	p.X.Label, p.X.Ticks = knob, []Tick{}
	if p.Y.Scale == Linear {
		p.Y.Min = 0
	}
	if unit == "s" {
		p.Y.Unit, unit = view.Scale(slices.Max(ys))
	}
	p.Y.Label = label + " (" + unit + ")"
	if p.Y.Scale == Log {
		p.Y.Label += ", on a logarithmic axis"
	}
	seen := map[float64]bool{}
	for _, c := range curves {
		p.Marks = append(p.Marks, c.curveMarks()...)
		for _, pt := range c.points {
			if !seen[pt.x] {
				seen[pt.x], p.X.Ticks = true, append(p.X.Ticks, Tick{pt.x, view.Cut(pt.value, 16)})
			}
		}
	}
	return p, true
}

// curveMarks returns the curve's line, then intervals, then points, in drawing order.
func (c curve) curveMarks() []Mark {
	line := Mark{Kind: Line, Tone: c.tone, Form: Stroke}
	var ranges, dots []Mark
	for _, pt := range c.points {
		line.Points = append(line.Points, [2]float64{pt.x, pt.y})
		if gpuprof.IsFinite(pt.ci[0]) && gpuprof.IsFinite(pt.ci[1]) && pt.ci != [2]float64{} {
			ranges = append(ranges, Mark{Kind: Range, X0: pt.x, X1: pt.x, Y0: pt.ci[0], Y1: pt.ci[1], Tone: Ink})
		}
		dots = append(dots, Mark{Kind: Dot, X0: pt.x, Y0: pt.y, Tone: c.tone, Tip: strings.TrimSpace(c.label+" "+pt.value) + ": " + pt.text})
	}
	var out []Mark
	if c.joined {
		out = append(out, line)
	}
	return append(append(out, ranges...), dots...)
}

// axisOf returns an axis for values, with room at both ends.
func axisOf(vs []float64, log bool, room float64) Axis {
	lo, hi := slices.Min(vs), slices.Max(vs)
	if log {
		pad := math.Pow(hi/lo, room)
		return Axis{Scale: Log, Min: lo / pad, Max: hi * pad}
	}
	pad := max((hi-lo)*room, math.Abs(hi)*0.02, 1e-12)
	return Axis{Min: lo - pad, Max: hi + pad}
}
