package figure

import (
	"cmp"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/compare"
	"github.com/gpuprof/gpuprof/report/internal/verdict"
	"github.com/gpuprof/gpuprof/report/internal/view"
)

// newComparisonFigure returns a figure with a comparison's sides, verdict, device and date.
func newComparisonFigure(id, title, desc string, c *compare.Comparison) *Figure {
	short := compare.Comparison{Workload: c.Workload, Preset: c.Preset, Old: sideName(c, c.Old), New: sideName(c, c.New)}
	f := &Figure{ID: id, Title: title, Desc: desc, Subject: verdict.Subject(&short), Tool: c.Tool.Version}
	if fp := c.Fingerprints.New; fp != nil && fp.Env["device"] != "" {
		f.Context = append(f.Context, view.Cut(fp.Env["device"], 48))
	}
	last := 0.0
	for _, t := range c.Order {
		last = max(last, t.StartS)
	}
	if last > 0 && last < 1e11 {
		f.setDate(time.Unix(int64(last), 0))
	}
	f.Context = append(f.Context, verdict.Headline(c))
	return f
}

// sideName names a side: a file without its folder, otherwise the name itself.
func sideName(c *compare.Comparison, name string) string {
	if c.Sides == "files" || c.Sides == "baseline" {
		return filepath.Base(name)
	}
	return name
}

// Waterfall draws how the old step became the new one: a bar for each stage with at least 1 % of the change.
func Waterfall(c *compare.Comparison) *Figure {
	f := newComparisonFigure("waterfall", "Change of the step", "A bar for each stage: how much it made the step longer or shorter.", c)
	a := c.Attribution
	if len(c.Causes) == 0 || a == nil || !gpuprof.IsFinite(float64(a.New-a.Old)) {
		return f.setLacking("the change of the step was not attributed to stages, because it is too small or only one side has stages")
	}
	rest := float64(a.Rest)
	var falls []fall
	for _, cause := range c.Causes {
		d := float64(cause.Change)
		switch {
		case !gpuprof.IsFinite(d) || d == 0:
		case len(falls) == maxRows-3:
			rest += d
		default:
			falls = append(falls, fall{cause.Stage, d, ", " + changeShare(cause.ShareOfChange) + " of the change"})
		}
	}
	if falls == nil {
		return f.setLacking("the contributions of the stages are not numbers")
	}
	f.addFalls("step time", float64(a.Old), float64(a.New), falls, rest)
	if why := c.Causes[0].ExplainedBy; why != "" {
		f.addRemark("explained by: " + view.Cut(why, 120))
	}
	f.addRemark(verdict.How(c))
	f.addRemark(strings.ToLower(verdict.AttributionNote[:1]) + strings.TrimSuffix(verdict.AttributionNote[1:], "."))
	return f
}

// fall is a bar of a waterfall: by how many seconds a part of the step changed the step.
type fall struct {
	name  string
	delta float64
	more  string // text after the change
}

// addFalls draws a waterfall between two times, s: the bars in order, then one for the unexplained rest of the change.
func (f *Figure) addFalls(label string, before, after float64, bars []fall, rest float64) {
	if gpuprof.IsFinite(rest) && math.Abs(rest) > 1e-9*max(before, after) {
		bars = append(bars, fall{"the rest", rest, ""})
	}
	p := Panel{Height: 26 * float64(len(bars)+2)}
	lo, hi, at := min(before, after), max(before, after), before
	for _, b := range bars {
		at += b.delta
		lo, hi = min(lo, at), max(hi, at)
	}
	lo = max(lo-(hi-lo)/3, 0) // the axis starts near the values: small changes of a long step stay visible
	if !(hi > lo) {
		lo, hi = 0.9*before, 1.1*before
	}
	p.X = secondsAxis(label, hi)
	if p.X.Min = lo; lo > 0 {
		p.X.Label += ", the axis does not begin at zero"
	}
	names := []string{}
	row := func(name string, from, to float64, tone Tone, text string) {
		y := float64(len(names))
		names = append(names, name)
		p.Marks = append(p.Marks, Mark{Kind: Bar, X0: min(from, to), X1: max(from, to), Y0: y + 0.12, Y1: y + 0.88, Tone: tone, Place: After, Text: text, Tip: view.Cut(name, 60) + ": " + text})
	}
	row("before", lo, before, Rest, view.Seconds(before))
	at = before
	for _, b := range bars {
		tone := Faster
		switch {
		case b.name == "the rest":
			tone = Soft
		case b.delta > 0:
			tone = Slower
		}
		y := float64(len(names))
		p.Marks = append(p.Marks, Mark{Kind: Line, Tone: Ink, Form: Hair, Points: [][2]float64{{at, y - 0.12}, {at, y + 0.12}}})
		row(b.name, at, at+b.delta, tone, signedSeconds(b.delta)+b.more)
		at += b.delta
	}
	row("after", lo, after, Rest, fmt.Sprintf("%s, %s, x%.3f", view.Seconds(after), signedSeconds(after-before), after/before))
	p.Y = rowAxis(names)
	f.Legend = []Entry{{Text: "slower", Tone: Slower}, {Text: "faster", Tone: Faster}, {Text: "the whole step", Tone: Rest}}
	f.Panels = []Panel{p}
}

func signedSeconds(v float64) string {
	if v > 0 {
		return "+" + view.Seconds(v)
	}
	return view.Seconds(v)
}

func changeShare(v float64) string {
	if !gpuprof.IsFinite(v) {
		return "an unknown share"
	}
	return fmt.Sprintf("%.0f %%", math.Round(v*100)+0) // +0 turns -0 into 0
}

// Effects draws each metric's ratio of new to old with its interval, failures first.
func Effects(c *compare.Comparison) *Figure {
	f := newComparisonFigure("effects", "New over old", "For each metric the ratio of new to old with its 95 % interval, on logarithms.", c)
	var all []ratioRow
	equal := 0
	threshold, common := 0.0, true
	for _, r := range verdict.Rows(c) {
		m := r.Of
		if m.Exact && m.Old == m.New {
			equal++
			continue
		}
		if !m.Exact {
			common = common && (threshold == 0 || m.Threshold == threshold)
			threshold = max(threshold, m.Threshold)
		}
		row := ratioRow{name: r.Name, ratio: float64(m.Ratio), lo: float64(m.CI95[0]), hi: float64(m.CI95[1]), news: newsOf(r.Verdict.Tone()), text: changeText(r) + string(r.Verdict)}
		if row.hasRatio() {
			row.text = joinInterval(r.Ratio, r.Interval) + ", " + row.text
		}
		all = append(all, row)
	}
	if !slices.ContainsFunc(all, ratioRow.hasRatio) {
		return f.setLacking("no metric has a ratio")
	}
	if len(all) > mostRows {
		f.addNote(fmt.Sprintf("the first %d of %d metrics, what failed first", mostRows, len(all)))
		all = all[:mostRows]
	}
	if equal > 0 {
		f.addNote(gpuprof.Plural(equal, "exact counter") + " the same on both sides")
	}
	var guides []float64
	if common && threshold > 0 {
		guides = []float64{1 + threshold, 1 / (1 + threshold)}
		f.addRemark("dashed: the threshold either way")
	}
	f.addNote("throughput is better above 1, all else below")
	f.addRemark(verdict.How(c))
	f.Legend = []Entry{worseNews.legendEntry("regressed"), betterNews.legendEntry("improved"), evenNews.legendEntry("the same"), unsureNews.legendEntry("inconclusive")}
	f.Panels = []Panel{forestPanel(all, "new over old, 95 % interval", guides...)}
	return f
}

func changeText(r verdict.Row) string {
	switch {
	case r.Old == view.None && r.New == view.None:
		return ""
	case r.Old == view.None:
		return r.New + ", "
	case r.New == view.None:
		return r.Old + ", "
	}
	return r.Old + " to " + r.New + ", "
}

func joinInterval(ratio, interval string) string {
	if interval == view.None || interval == "" {
		return ratio
	}
	return ratio + " (" + interval + ")"
}

const maxOverlays = 16

// Overlay draws the samples of both sides, a row with its own axis per metric: the new side as an area, the old side as
// an outline, and below both the median of each process.
func Overlay(c *compare.Comparison) *Figure {
	f := newComparisonFigure("distribution", "Distributions of both sides",
		"For each metric the samples of the old side as an outline over those of the new side as an area, with the median of every process below.", c)
	all := verdict.Overlays(c)
	if len(all) == 0 {
		return f.setLacking("the comparison holds no samples")
	}
	for _, o := range all[:min(len(all), maxOverlays)] {
		f.Panels = append(f.Panels, overlayPanel(o))
	}
	f.Legend = []Entry{{Text: "old: " + view.Cut(cmp.Or(c.Old, "the old side"), 60), Tone: Ink, Form: Stroke}, {Text: "new: " + view.Cut(cmp.Or(c.New, "the new side"), 60), Tone: "t0", Form: Filled}}
	f.addRemark("from the 1st to the 95th percentile, each side to its own height; marks: the median of every process")
	if n := len(all) - maxOverlays; n > 0 {
		f.addNote(gpuprof.Plural(n, "more metric") + " in the data")
	}
	return f
}

// overlayPanel returns a panel with the histograms of both sides, each scaled to height 1, and the medians of the
// processes below.
func overlayPanel(o verdict.Overlay) Panel {
	const oldAt, newAt = -0.25, -0.6
	m := o.Row.Of
	p := Panel{Name: o.Row.Name, Right: []string{joinInterval(o.Row.Ratio, o.Row.Interval), o.Row.Old + " to " + o.Row.New}, Height: 84,
		Y: Axis{Min: -0.75, Max: 1, Ticks: []Tick{{oldAt, "old"}, {newAt, "new"}}}, X: Axis{Min: o.Lo, Max: o.Hi}}
	unit := view.Cut(m.Unit, 12)
	if m.Unit == "s" {
		p.X.Unit, unit = view.Scale(o.Hi)
	}
	p.Right = append(p.Right, "axis in "+cmp.Or(unit, "its own unit"))
	sides := []struct {
		name string
		of   verdict.OverlaySide
		at   float64
		tone Tone
		kind Kind
		form Form
	}{{"new", o.New, newAt, "t0", Area, Filled}, {"old", o.Old, oldAt, Ink, Line, Outline}}
	for _, s := range sides {
		p.Marks = append(p.Marks, Mark{Kind: s.kind, Tone: s.tone, Form: s.form, Points: normalizedSteps(s.of.Bins, o.Lo, o.Hi)})
		for i, v := range s.of.Medians {
			wide := (o.Hi - o.Lo) * 0.0025
			p.Marks = append(p.Marks, Mark{Kind: Bar, X0: v - wide, X1: v + wide, Y0: s.at - 0.09, Y1: s.at + 0.09, Tone: s.tone,
				Tip: fmt.Sprintf("%s, %s, process %d: median %s of %s", view.Cut(m.Name, 60), s.name, i+1, compare.FormatMetric(v, view.Cut(m.Unit, 24), false), gpuprof.Plural(s.of.Counts[i], "sample"))})
		}
	}
	return p
}

// normalizedSteps outlines a histogram as steps, with its tallest bin at 1 and without the empty bins at both ends.
func normalizedSteps(bins []int, lo, hi float64) [][2]float64 {
	most, first, last := 0, -1, -1
	for i, n := range bins {
		if most = max(most, n); n > 0 {
			if last = i; first < 0 {
				first = i
			}
		}
	}
	if most == 0 {
		return nil
	}
	at := func(i int) float64 { return lo + (hi-lo)*float64(i)/float64(len(bins)) }
	out := [][2]float64{{at(first), 0}}
	for i := first; i <= last; i++ {
		high := float64(bins[i]) / float64(most)
		out = append(out, [2]float64{at(i), high}, [2]float64{at(i + 1), high})
	}
	return append(out, [2]float64{at(last + 1), 0})
}
