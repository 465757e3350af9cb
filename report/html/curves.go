package html

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/report/internal/view"
)

// roofPoint is a stage or, smaller, one of its kernels.
type roofPoint struct {
	view.RoofPoint
	stage  string
	kernel bool
}

// roofPoints are the stages of a roofline and the kernels that count both
// flops and bytes.
func roofPoints(r *gpuprof.Run, roof view.Roof) []roofPoint {
	var out []roofPoint
	for _, p := range roof.Points {
		out = append(out, roofPoint{p, p.Name, false})
	}
	for _, k := range r.Stages {
		flops, bytes := k.Counters["flops"], k.Counters["bytes_read"]+k.Counters["bytes_written"]
		d := view.Usable(k.Device)
		if k.Parent == "step" || d == nil || !(d.Median > 0) || !(flops > 0) || !(bytes > 0) || !view.Finite(flops/bytes) || !view.Finite(flops/d.Median) {
			continue
		}
		out = append(out, roofPoint{view.RoofPoint{Name: view.Cut(k.Name, 24), Intensity: flops / bytes, FlopsPerS: flops / d.Median}, k.Parent, true})
	}
	return out
}

// roofChart draws the ceilings and a labelled point a stage and kernel, on
// logarithms.
func roofChart(id string, r *gpuprof.Run, roof view.Roof, tones map[string]int) *chart {
	const left, right, top, bottom, h = 90.0, 20.0, 12.0, 52.0, 400.0
	c := &chart{ID: id + "roof", Title: "Roofline", W: chartWidth, H: h}
	points := roofPoints(r, roof)
	roof.Points = nil
	for _, p := range points {
		roof.Points = append(roof.Points, p.RoofPoint)
	}
	x0, x1, y0, y1 := roof.Range()
	atX := func(v float64) float64 { return left + math.Log(v/x0)/math.Log(x1/x0)*(chartWidth-left-right) }
	atY := func(v float64) float64 { return h - bottom - math.Log(v/y0)/math.Log(y1/y0)*(h-top-bottom) }
	c.logAxes(x0, x1, y0, y1, atX, atY, left, chartWidth-right, top, h-bottom)
	if roof.FlopsPerS > 0 {
		ridge, start := roof.FlopsPerS/roof.BytesPerS, max(x0, y0/roof.BytesPerS)
		c.Paths = append(c.Paths, path{fmt.Sprintf("M%.1f %.1fL%.1f %.1fH%.1f", atX(start), atY(roof.At(start)), atX(ridge), atY(roof.FlopsPerS), atX(x1)), "roof"})
		c.text(atX(x1), atY(roof.FlopsPerS)-8, "end", "label", "matrix product "+view.SI(roof.FlopsPerS, "flop/s"))
		mid := math.Sqrt(start * ridge)
		c.text(atX(mid)-10, atY(roof.At(mid))-8, "end", "label", "copy "+view.SI(roof.BytesPerS, "B/s"))
		for _, l := range roof.Also { // the copy's line goes on to a higher roof, and leaves a lower one below it
			at := l.FlopsPerS / roof.BytesPerS
			c.Paths = append(c.Paths, path{fmt.Sprintf("M%.1f %.1fL%.1f %.1fH%.1f", atX(min(ridge, at)), atY(roof.With(l).At(min(ridge, at))), atX(at), atY(l.FlopsPerS), atX(x1)), "roof"})
			c.text(atX(x1), atY(l.FlopsPerS)-8, "end", "label", l.Name+" product "+view.SI(l.FlopsPerS, "flop/s"))
		}
	}
	var words []string
	var taken [][4]float64
	for _, p := range points {
		tone, ok := tones[p.stage]
		if !ok {
			tone = view.MaxTones
		}
		name, size := p.Name, float64(bigDot)
		if p.kernel {
			name, size = "kernel "+p.Name, smallDot
		}
		title := fmt.Sprintf("%s: %s at %.3g flop per byte", name, view.SI(p.FlopsPerS, "flop/s"), p.Intensity)
		words = append(words, title)
		x, y := atX(p.Intensity), atY(p.FlopsPerS)
		c.Dots = append(c.Dots, dot{round(x), round(y), toneClass(tone), title, size})
		taken = append(taken, [4]float64{x - 6, y - 6, x + 6, y + 6})
	}
	for i, d := range c.Dots {
		c.place(d, roof.Points[i].Name, i, &taken)
	}
	c.Desc = strings.Join(words, "; ")
	c.text((left+chartWidth-right)/2, h-8, "middle", "axis-label", "arithmetic intensity, flop per byte (counted)")
	c.text(left-80, top+4, "start", "axis-label", "flop/s")
	return c
}

// place writes a dot's label where no other label is; the table has the
// figures of one that finds no room.
func (c *chart) place(d dot, name string, own int, taken *[][4]float64) {
	w := float64(len([]rune(name)))*charWidth + 2
	for _, off := range [][2]float64{{10, 4}, {-10 - w, 4}, {6, -10}, {6, 18}, {-6 - w, -10}, {-6 - w, 18}} {
		box := [4]float64{d.X + off[0], d.Y + off[1] - 11, d.X + off[0] + w, d.Y + off[1] + 3}
		clash := box[2] > c.W || box[0] < 90
		for i, t := range *taken {
			clash = clash || i != own && box[0] < t[2] && t[0] < box[2] && box[1] < t[3] && t[1] < box[3]
		}
		if !clash {
			*taken = append(*taken, box)
			c.text(d.X+off[0], d.Y+off[1], "start", "label", name)
			return
		}
	}
}

func (c *chart) logAxes(x0, x1, y0, y1 float64, atX, atY func(float64) float64, left, right, top, bottom float64) {
	var b strings.Builder
	for e := math.Ceil(math.Log10(x0)); e <= math.Log10(x1); e++ {
		v := math.Pow(10, e)
		fmt.Fprintf(&b, "M%.1f %.1fV%.1f", atX(v), top, bottom+4)
		c.text(atX(v), bottom+18, "middle", "axis-text", power(v))
	}
	for e := math.Ceil(math.Log10(y0)); e <= math.Log10(y1); e++ {
		v := math.Pow(10, e)
		fmt.Fprintf(&b, "M%.1f %.1fH%.1f", left-4, atY(v), right)
		c.text(left-10, atY(v)+4, "end", "axis-text", power(v))
	}
	fmt.Fprintf(&b, "M%.1f %.1fV%.1fH%.1f", left, top, bottom, right)
	c.Paths = append(c.Paths, path{b.String(), "rule"})
}

func power(v float64) string {
	for _, s := range []struct {
		size float64
		name string
	}{{1e15, " P"}, {1e12, " T"}, {1e9, " G"}, {1e6, " M"}, {1e3, " k"}} {
		if v >= s.size*0.999 {
			return fmt.Sprintf("%.4g%s", v/s.size, s.name)
		}
	}
	return fmt.Sprintf("%.4g", v)
}

// curveChart draws one figure of a sweep with its intervals; nil without points.
func curveChart(id, title, knob, unitText string, numeric bool, curves []view.Curve, get func(view.CurvePoint) *gpuprof.Series, unit float64) *chart {
	const left, right, top, bottom, h = 90.0, 30.0, 26.0, 46.0, 270.0
	c := &chart{ID: id, Title: title, W: chartWidth, H: h}
	var xs, ys []float64
	for _, cv := range curves {
		for _, p := range cv.Points {
			if s := get(p); s != nil {
				xs, ys = append(xs, p.X), append(ys, s.Median/unit)
			}
		}
	}
	if len(xs) == 0 || slices.Max(ys) <= 0 {
		return nil
	}
	atX := placeX(xs, numeric && view.Spaced(xs), left+30, chartWidth-right-30)
	marks, atY := placeY(ys, numeric && view.Spaced(xs), top, h-bottom)
	var words []string
	seen := map[string]bool{}
	var rules strings.Builder
	for i, cv := range curves {
		var line []string
		for _, p := range cv.Points {
			s := get(p)
			if s == nil {
				continue
			}
			x, y := atX(p.X), atY(s.Median/unit)
			line = append(line, fmt.Sprintf("%.1f %.1f", x, y))
			words = append(words, strings.TrimSpace(cv.Label+" "+p.Value)+": "+figureText(s))
			c.Dots = append(c.Dots, dot{round(x), round(y), toneClass(i), words[len(words)-1], bigDot})
			if view.Finite(s.CI95[0]) && view.Finite(s.CI95[1]) {
				c.Paths = append(c.Paths, path{fmt.Sprintf("M%.1f %.1fV%.1f", x, atY(s.CI95[0]/unit), atY(s.CI95[1]/unit)), "whisker"})
			}
			if !seen[p.Value] {
				seen[p.Value] = true
				c.text(x, h-bottom+18, "middle", "axis-text", view.Cut(p.Value, 14))
			}
		}
		if numeric && len(line) > 1 {
			c.Paths = append(c.Paths, path{"M" + strings.Join(line, "L"), "curve s" + toneClass(i)})
		}
	}
	for _, m := range marks {
		fmt.Fprintf(&rules, "M%.1f %.1fH%.1f", left, atY(m), chartWidth-right)
		label := mark(m, marks)
		if m >= 1000 || m > 0 && marks[0] > 0 {
			label = power(m) // logarithmic marks have no common step
		}
		c.text(left-8, atY(m)+4, "end", "axis-text", label)
	}
	c.Paths = append([]path{{rules.String(), "rule"}}, c.Paths...)
	c.text(left-80, 14, "start", "axis-label", unitText)
	c.text((left+chartWidth-right)/2, h-6, "middle", "axis-label", knob)
	c.Desc = strings.Join(words, "; ")
	return c
}

func figureText(s *gpuprof.Series) string {
	if s.Unit == "s" {
		return view.Median(s) + " (" + view.SeriesInterval(s) + ")"
	}
	return view.RateText(s, view.Cut(s.Unit, 24))
}

// placeY places figures between bottom and top with about six marks: on
// logarithms when the setting is and they cover a range, so that growth in
// step with the setting is a straight line, else from zero.
func placeY(ys []float64, log bool, top, bottom float64) (marks []float64, at func(float64) float64) {
	if most := slices.Max(ys) * 1.08; !log || !view.Spaced(ys) {
		return steps(0, most), func(v float64) float64 { return bottom - v/most*(bottom-top) }
	}
	lo, hi := slices.Min(ys)/1.2, slices.Max(ys)*1.2
	for e := math.Floor(math.Log10(lo)); e <= math.Log10(hi); e++ {
		for _, m := range []float64{1, 2, 5} {
			if v := m * math.Pow(10, e); v >= lo && v <= hi {
				marks = append(marks, v)
			}
		}
	}
	return marks, func(v float64) float64 { return bottom - math.Log(max(v, lo)/lo)/math.Log(hi/lo)*(bottom-top) }
}

// placeX spreads values over a range, logarithmically when they are spaced so.
func placeX(xs []float64, log bool, x0, x1 float64) func(float64) float64 {
	f := func(v float64) float64 { return v }
	if log {
		f = math.Log
	}
	lo, hi := f(xs[0]), f(xs[0])
	for _, x := range xs {
		lo, hi = min(lo, f(x)), max(hi, f(x))
	}
	if hi <= lo {
		return func(float64) float64 { return (x0 + x1) / 2 }
	}
	return func(v float64) float64 { return x0 + (f(v)-lo)/(hi-lo)*(x1-x0) }
}
