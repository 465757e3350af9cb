package plot

import (
	"fmt"
	"math"
	"slices"

	gplot "gonum.org/v1/plot"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/report/internal/view"
)

// More rows than these a picture cannot label; strips have part of it.
const (
	maxRows   = 24
	maxStrips = 16
)

// stages draws device, host and exposed time of each stage, in step order.
func stages(runs []*gpuprof.Run) (*Figure, error) {
	r := runs[0]
	f := newFigure("time by stage", runs)
	all := view.Stages(r)
	if !view.HasTimes(r) || len(all) == 0 {
		return f.empty(r, "no stage was measured"), nil
	}
	if len(all) > maxRows {
		f.remark(fmt.Sprintf("the first %d of %d stages", maxRows, len(all)))
		all = all[:maxRows]
	}
	longest := 0.0
	for _, s := range all {
		for _, v := range []*gpuprof.Series{s.Device, s.Host, s.Exposed} {
			if v != nil {
				longest = max(longest, v.Median, v.CI95[1])
			}
		}
	}
	unit, unitName := view.Scale(longest)
	p := newPlot("median time a step ("+unitName+"), whiskers: 95 % interval, "+view.IntervalScope(r.Step), "")
	sh := &shapes{}
	var labels []string
	colors := []entry{{"device: between the stage's events", palette[0]}, {"host: the caller's time", palette[1]}, {"exposed: its own part of the period, with its share", palette[2]}}
	for i, s := range all {
		labels = append(labels, view.Cut(s.Name, 22))
		for j, v := range []*gpuprof.Series{s.Device, s.Host, s.Exposed} {
			stageBar(sh, s, v, float64(-i)+0.27*float64(1-j), j, unit, named(s, j, len(all), longest))
		}
	}
	p.Add(grid{}, sh)
	p.Y.Tick.Marker = names(labels)
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = 0, longest/unit*1.18, -float64(len(all))+0.45, 0.55
	f.legend, f.plots = colors, []*gplot.Plot{p}
	return f, nil
}

// named says that a stage's bar has its figure beside it: all of them where
// there is room, of many stages the longest one.
func named(s view.Stage, kind, rows int, longest float64) bool {
	if rows <= 8 {
		return true
	}
	best, most := 2, -1.0
	for j, v := range []*gpuprof.Series{s.Device, s.Host, s.Exposed} {
		if v == nil {
			continue
		}
		if rows <= 14 && v.Median > 0.03*longest && j == kind {
			return true // its neighbours are as long, or short and without a figure
		}
		if v.Median >= most {
			best, most = j, v.Median
		}
	}
	return kind == best
}

func stageBar(sh *shapes, s view.Stage, v *gpuprof.Series, y float64, kind int, unit float64, figure bool) {
	if v == nil || v.Median == 0 {
		return // nothing happened: no bar, and no figure to read
	}
	end := v.Median / unit
	sh.rects = append(sh.rects, rect{x0: 0, x1: end, y0: y - 0.12, y1: y + 0.12, fill: palette[kind]})
	lo, hi := v.CI95[0]/unit, v.CI95[1]/unit
	if view.Finite(lo) && view.Finite(hi) {
		sh.segment(max(lo, 0), y, hi, y, ink, 1)
		end = max(end, hi)
	}
	if !figure {
		return
	}
	text := view.Median(v)
	if kind == 2 {
		text += " · " + view.Percent(s.Share)
	}
	sh.texts = append(sh.texts, label{x: end, y: y, dx: 6, text: text, color: ink})
}

// distribution draws the step's samples of every process as cumulative
// curves, and below each stage's spread about its own median.
func distribution(runs []*gpuprof.Run) (*Figure, error) {
	r := runs[0]
	f := newFigure("distribution of samples", runs)
	const limit = 2000
	spreads, lo, hi := view.Spreads(r, limit)
	if len(spreads) == 0 {
		return f.empty(r, "no samples were kept"), nil
	}
	if top := cumulative(r); top != nil {
		f.plots = append(f.plots, top)
	}
	for i := range min(len(view.Samples(r.Step)), len(palette)) {
		f.legend = append(f.legend, entry{fmt.Sprintf("process %d", i+1), tone(i)})
	}
	if len(spreads) > maxStrips {
		f.remark(fmt.Sprintf("the first %d of %d rows", maxStrips, len(spreads)))
		spreads = spreads[:maxStrips]
	}
	bottom := strips(spreads, lo, hi)
	if slices.ContainsFunc(spreads, func(s view.Spread) bool { return s.Kept < s.Total }) {
		f.remark(fmt.Sprintf("at most %d points a row are drawn; extremes are kept", limit))
	}
	f.plots, f.lastTaller = append(f.plots, bottom), true
	return f, nil
}

// cumulative is the share of samples at or below a time, a curve a process.
func cumulative(r *gpuprof.Run) *gplot.Plot {
	runs := view.Samples(r.Step)
	if len(runs) == 0 || view.Usable(r.Step) == nil {
		return nil
	}
	unit, name := view.Scale(r.Step.P95)
	p := newPlot("step ("+name+")", "samples at or below")
	sh := &shapes{}
	lo, hi := math.Inf(1), math.Inf(-1)
	for i, run := range runs {
		pts := cumulated(run, unit)
		lo, hi = min(lo, float64(pts[0].X)), max(hi, float64(pts[len(pts)-1].X))
		sh.lines = append(sh.lines, line{pts: pts, color: tone(i), width: 1.6})
	}
	// One sample several times slower must not squeeze the rest.
	if far := r.Step.P95 / unit * 1.5; view.Finite(far) && hi > far && far > lo {
		sh.texts = append(sh.texts, label{x: far, y: 0.08, dx: 4, right: true, color: faint, text: "slowest " + view.Seconds(hi*unit)})
		hi = far
	}
	pad := max((hi-lo)*0.03, math.Abs(hi)*1e-3, 1e-12)
	p.Add(grid{}, sh)
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = lo-pad, hi+pad, 0, 1
	p.Y.Tick.Marker = shareTicks()
	return p
}

// strips draws a row a quantity: a tick a sample, a sub-row a process, the
// 5th to 95th percentile as a bar below.
func strips(spreads []view.Spread, lo, hi float64) *gplot.Plot {
	p := newPlot("difference from the row's median (%), bar: 5th to 95th percentile", "")
	sh := &shapes{}
	var labels []string
	for i, s := range spreads {
		text := view.Cut(s.Name, 20)
		if s.Source != "period" {
			text += " " + s.Source
		}
		labels = append(labels, text)
		base := -float64(i)
		n := float64(len(s.Process))
		beyond := 0
		for k, run := range s.Process {
			y := base + 0.36 - 0.5*float64(k)/n
			for _, v := range run {
				if v < lo || v > hi {
					beyond++
					continue
				}
				sh.segment(v*100, y, v*100, y-0.5/n*0.8, tone(k), 0.9)
			}
		}
		if view.Finite(s.P05) && view.Finite(s.P95) {
			sh.segment(min(max(s.P05, lo), hi)*100, base-0.26, max(min(s.P95, hi), lo)*100, base-0.26, ink, 2)
		}
		if beyond > 0 {
			sh.texts = append(sh.texts, label{x: hi * 100, y: base, dx: 6, color: faint, text: fmt.Sprintf("%d beyond", beyond)})
		}
	}
	sh.segment(0, 0.5, 0, -float64(len(spreads))+0.5, faint, 0.7)
	p.Add(grid{}, sh)
	p.Y.Tick.Marker = names(labels)
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = lo*100, hi*100+(hi-lo)*11, -float64(len(spreads))+0.5, 0.5
	return p
}

// timeline draws the example step on its lanes.
func timeline(runs []*gpuprof.Run) (*Figure, error) {
	r := runs[0]
	f := newFigure("example step", runs)
	const limit = 3000
	lanes, from, to, left := view.Timeline(r, limit)
	if len(lanes) == 0 || r.Status == gpuprof.Invalid {
		return f.empty(r, "the run holds no example step"), nil
	}
	if len(lanes) > maxRows {
		lanes = lanes[:maxRows]
	}
	unit, name := view.Scale(to - from)
	p := newPlot("time from the step's begin ("+name+")", "")
	sh, tones, labels := &shapes{}, view.Tones(r), []string{}
	used := map[string]bool{}
	for i, l := range lanes {
		labels = append(labels, view.Cut(l.Name, 20))
		for _, s := range l.Spans {
			t, ok := tones[s.Stage]
			if !ok {
				t = view.MaxTones
			}
			fill := tone(t)
			if s.Neighbour {
				fill = light(fill)
			}
			used[s.Stage] = true
			sh.rects = append(sh.rects, rect{s.From / unit, s.To / unit, -float64(i) - 0.32, -float64(i) + 0.32, fill, s.Label()})
		}
	}
	f.legend = legendOf(r, used)
	f.remark("paler: the steps before and after; kernels come from a separate marked pass")
	if left > 0 {
		f.remark(fmt.Sprintf("the %d shortest spans are left out", left))
	}
	p.Add(grid{}, sh)
	p.Y.Tick.Marker = names(labels)
	pad := (to - from) / unit * 0.01
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = from/unit-pad, to/unit+pad, -float64(len(lanes))+0.5, 0.5
	f.plots = []*gplot.Plot{p}
	return f, nil
}

// legendOf names the coloured stages in order of their share.
func legendOf(r *gpuprof.Run, used map[string]bool) []entry {
	var byTone [view.MaxTones]entry
	rest := false
	for name, t := range view.Tones(r) {
		if used[name] && t < view.MaxTones {
			byTone[t] = entry{view.Cut(name, 24), tone(t)}
		}
		rest = rest || used[name] && t == view.MaxTones
	}
	out := slices.DeleteFunc(byTone[:], func(e entry) bool { return e.label == "" })
	if rest {
		out = append(out, entry{"other stages", grey})
	}
	return out
}
