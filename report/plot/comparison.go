package plot

import (
	"fmt"
	"image/color"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"time"

	gplot "gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/gpuprof/gpuprof/internal/compare"
	"github.com/gpuprof/gpuprof/report/internal/verdict"
	"github.com/gpuprof/gpuprof/report/internal/view"
)

// Comparison makes the picture of a kind of a comparison; "" is the waterfall
// where the step's change could be attributed, else the ratio of each metric.
// An unknown kind, or one that it cannot give, is ErrUsage naming the others.
func Comparison(c *compare.Comparison, want string) (*Figure, error) {
	if c == nil {
		return nil, view.ErrNoRun("a picture")
	}
	return pick("a comparison", []kind[*compare.Comparison]{{"waterfall", waterfall}, {"effects", metricRatios}, {"distribution", sides}}, c, want)
}

// comparisonFigure says what was compared, with what verdict, where and when.
func comparisonFigure(what string, c *compare.Comparison) *Figure {
	short := compare.Comparison{Workload: c.Workload, Preset: c.Preset, Old: side(c, c.Old), New: side(c, c.New)}
	f := &Figure{title: verdict.Subject(&short) + ": " + what, tool: c.Tool.Version}
	var parts []string
	if fp := c.Fingerprints.New; fp != nil && fp.Env["device"] != "" {
		parts = append(parts, view.Cut(fp.Env["device"], 48))
	}
	last := 0.0
	for _, t := range c.Order {
		last = max(last, t.StartS)
	}
	if last > 0 && last < 1e11 {
		parts = append(parts, date(time.Unix(int64(last), 0)))
	}
	f.subtitle = strings.Join(append(parts, verdict.Headline(c)), " · ")
	f.note = verdict.How(c)
	return f
}

// side is the name of one side, of a file without its folder.
func side(c *compare.Comparison, name string) string {
	if c.Kind == "files" || c.Kind == "baseline" {
		return filepath.Base(name)
	}
	return name
}

// waterfall draws what each stage adds to the step's change.
func waterfall(c *compare.Comparison) (*Figure, error) {
	f := comparisonFigure("what changed the step", c)
	a := c.Attribution
	if len(c.Causes) == 0 || a == nil || !view.Finite(float64(a.New-a.Old)) {
		return f.without("the change of the step was not attributed to stages, because it is too small or only one side has stages"), nil
	}
	bars := stageBars(c)
	if bars == nil {
		return f.without("the contributions of the stages are not numbers"), nil
	}
	longest := 0.0
	for _, b := range bars {
		longest = max(longest, math.Abs(b.change))
	}
	unit, name := view.Scale(longest)
	f.subtitle = "step " + view.Seconds(float64(a.Old)) + " to " + view.Seconds(float64(a.New)) + " · " + f.subtitle
	f.legend = []entry{{"slower", slowerTone}, {"faster", fasterTone}, {"the whole step", totalTone}}
	f.plots = []*gplot.Plot{waterfallOf(bars, "change of the step's time ("+name+"), each stage from where the one above ends", unit)}
	if why := c.Causes[0].ExplainedBy; why != "" { // more useful than how it was compared
		f.note = "explained by: " + view.Cut(why, 120)
	}
	f.remark(verdict.AttributionNote)
	return f, nil
}

// stageBars are the causes, the stages too small to be one, and the change
// itself; nil when no cause has a figure.
func stageBars(c *compare.Comparison) []bar {
	var bars []bar
	total, rest := float64(c.Attribution.New-c.Attribution.Old), float64(c.Attribution.Rest)
	for _, cause := range c.Causes {
		d := float64(cause.Change)
		if !view.Finite(d) {
			continue
		}
		if len(bars) == maxRows-2 {
			rest += d
			continue
		}
		bars = append(bars, bar{name: strings.TrimPrefix(cause.Stage, "step/"), change: d, text: signedSeconds(d) + ", " + signedShare(cause.ShareOfChange) + " of the change"})
	}
	if bars == nil {
		return nil
	}
	if rest != 0 && view.Finite(rest) {
		bars = append(bars, bar{name: "the rest", rest: true, change: rest, text: signedSeconds(rest)})
	}
	return append(bars, bar{name: "step", change: total, total: true, text: signedSeconds(total)})
}

func metric(c *compare.Comparison, name string) *compare.MetricResult {
	for i := range c.Metrics {
		if c.Metrics[i].Name == name {
			return &c.Metrics[i]
		}
	}
	return nil
}

func signedSeconds(v float64) string {
	if v > 0 {
		return "+" + view.Seconds(v)
	}
	return view.Seconds(v)
}

func signedShare(v float64) string {
	if !view.Finite(v) {
		return "an unknown share"
	}
	return fmt.Sprintf("%.0f %%", math.Round(v*100)+0) // +0 makes nothing of minus nothing
}

// metricRatios draws every metric's ratio with its interval.
func metricRatios(c *compare.Comparison) (*Figure, error) {
	f := comparisonFigure("new over old", c)
	var rows []forestRow
	equal := 0
	for _, r := range verdict.Rows(c) {
		tone, mark := verdictMark(r.Verdict)
		m := r.Of
		if m.Exact && m.Old == m.New {
			equal++
			continue
		}
		row := forestRow{name: r.Name, v: float64(m.Ratio), lo: float64(m.CI95[0]), hi: float64(m.CI95[1]), tone: tone, mark: mark, text: r.Old + " to " + r.New + ", " + string(r.Verdict)}
		if row.drawn() {
			row.text = r.Ratio + ", " + row.text
		}
		rows = append(rows, row)
	}
	if !slices.ContainsFunc(rows, forestRow.drawn) {
		return f.without("no metric has a ratio"), nil
	}
	if len(rows) > maxRows {
		f.remark(fmt.Sprintf("the first %d of %d metrics, what failed first", maxRows, len(rows)))
		rows = rows[:maxRows]
	}
	if equal > 0 {
		f.remark(view.Plural(equal, "exact counter") + " the same on both sides")
	}
	f.remark("dashed: the threshold either way; throughput is better above 1, all else below")
	f.legend = []entry{{"regressed (square)", slowerTone}, {"improved (circle)", fasterTone}, {"the same (circle)", ink}, {"inconclusive (ring)", grey}}
	f.plots = []*gplot.Plot{forest(rows, "new over old, 95 % interval", 1, 1+c.Threshold, 1/(1+c.Threshold))}
	return f, nil
}

func verdictMark(v compare.Verdict) (tone color.NRGBA, mark draw.GlyphDrawer) {
	switch v {
	case compare.Regressed:
		return slowerTone, draw.BoxGlyph{}
	case compare.Improved:
		return fasterTone, draw.CircleGlyph{}
	case compare.Inconclusive:
		return grey, ring{}
	}
	return ink, draw.CircleGlyph{}
}

// sides draws the step's samples of both sides as cumulative curves, one a
// process: what lies between the curves of one side is the noise.
func sides(c *compare.Comparison) (*Figure, error) {
	f := comparisonFigure("distribution of both sides", c)
	m := metric(c, "step")
	if m == nil && len(c.Metrics) > 0 {
		m = &c.Metrics[0]
	}
	if m == nil || m.Samples == nil {
		return f.without("the comparison holds no samples"), nil
	}
	sets := [2]compare.Samples{m.Samples.Old, m.Samples.New}
	unit, name := 1.0, m.Unit
	if m.Unit == "s" {
		unit, name = view.Scale(float64(m.New))
	}
	sh := &shapes{}
	lo, hi := math.Inf(1), math.Inf(-1)
	var all []float64
	for i, set := range sets {
		for _, run := range set {
			run = slices.DeleteFunc(slices.Clone(run), func(v float64) bool { return !view.Finite(v) })
			if len(run) == 0 {
				continue
			}
			pts := cumulated(run, unit)
			all = append(all, run...)
			lo, hi = min(lo, float64(pts[0].X)), max(hi, float64(pts[len(pts)-1].X))
			sh.lines = append(sh.lines, line{pts: pts, color: [2]color.NRGBA{fasterTone, slowerTone}[i], width: 1.5, dash: i == 1})
		}
	}
	if len(all) == 0 {
		return f.without("the comparison holds no samples"), nil
	}
	slices.Sort(all)
	// One sample several times slower must not squeeze the rest.
	if far := all[len(all)*99/100] / unit * 1.3; far < hi && far > lo {
		sh.texts = append(sh.texts, label{x: far, y: 0.06, dx: 4, right: true, color: faint, text: "slowest " + verdict.Figure(hi*unit, m.Unit, false)})
		hi = far
	}
	p := newPlot(view.Cut(m.Name, 40)+" ("+view.Cut(name, 20)+")", "samples at or below")
	pad := max((hi-lo)*0.03, math.Abs(hi)*1e-3, 1e-12)
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = lo-pad, hi+pad, 0, 1
	p.Y.Tick.Marker = shareTicks()
	p.Add(grid{}, sh)
	f.legend = []entry{{"old: " + view.Cut(side(c, c.Old), 40) + ", a line a process", fasterTone}, {"new (dashed): " + view.Cut(side(c, c.New), 40), slowerTone}}
	f.plots = []*gplot.Plot{p}
	return f, nil
}

// cumulated are the corners of the cumulative distribution of samples.
func cumulated(run []float64, unit float64) []vg.Point {
	sorted := slices.Clone(view.Thin(run, 2000))
	slices.Sort(sorted)
	pts := make([]vg.Point, 0, 2*len(sorted))
	for k, v := range sorted {
		x := vg.Length(v / unit)
		pts = append(pts, vg.Point{X: x, Y: vg.Length(k) / vg.Length(len(sorted))}, vg.Point{X: x, Y: vg.Length(k+1) / vg.Length(len(sorted))})
	}
	return pts
}

func shareTicks() gplot.Ticker {
	return gplot.ConstantTicks{{Value: 0, Label: "0 %"}, {Value: 0.25}, {Value: 0.5, Label: "50 %"}, {Value: 0.75}, {Value: 1, Label: "100 %"}}
}
