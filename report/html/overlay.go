package html

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/stat"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/compare"
	"github.com/gpuprof/gpuprof/internal/stats"
	"github.com/gpuprof/gpuprof/report/internal/verdict"
	"github.com/gpuprof/gpuprof/report/internal/view"
)

const (
	overlayRows = 16
	overlayBins = 72
)

// overlayChart lays the distributions of both sides over each other, a row a
// metric with an axis of its own: the old side's outline over the new side's
// area, and below them the median of every process. left is how many metrics
// found no room; the chart is nil where no samples were kept.
func overlayChart(c *compare.Comparison) (ch *chart, left int) {
	const x0, x1, rowH, hill = 200.0, 800.0, 102.0, 44.0
	ch = &chart{ID: "overlay", Title: "Distributions of both sides", W: chartWidth,
		Desc: "For each metric the samples of the old side as an outline over those of the new side as an area, with the median of every process below."}
	y := 6.0
	for i := range c.Metrics {
		m := &c.Metrics[i]
		if m.Exact || m.Samples == nil {
			continue
		}
		old, now := finite(m.Samples.Old), finite(m.Samples.New)
		lo, hi, ok := overlayRange(old, now)
		if !ok {
			continue
		}
		if y > rowH*overlayRows {
			left++
			continue
		}
		at := func(v float64) float64 { return x0 + (v-lo)/(hi-lo)*(x1-x0) }
		base := y + hill
		ch.hill(now, lo, hi, at, base, hill, "hill new")
		ch.hill(old, lo, hi, at, base, hill, "hill old")
		ch.medians(old, m, "old", at, base+9, "s-old")
		ch.medians(now, m, "new", at, base+21, "s-new")
		ch.ownAxis(m, lo, hi, x0, x1, base+28)
		name := view.Cut(m.Name, 26)
		ch.text(x0-14, y+20, "end", "label", name)
		ch.text(x0-14, base+13, "end", "axis-text", "old")
		ch.text(x0-14, base+25, "end", "axis-text", "new")
		row := verdict.RowOf(m)
		ch.text(x1+14, y+20, "start", "label", row.Ratio)
		ch.text(x1+14, y+36, "start", "axis-text", row.Old)
		ch.text(x1+14, y+52, "start", "axis-text", "to "+row.New)
		y += rowH
	}
	if y == 6 {
		return nil, 0
	}
	ch.H = y
	return ch, left
}

// finite are the samples that are numbers, one list a process.
func finite(s compare.Samples) [][]float64 { return view.Samples(&gpuprof.Series{Runs: s}) }

// overlayRange holds the 1st to 95th percentile of both sides and the median of
// every process; ok is false without samples.
func overlayRange(old, now [][]float64) (lo, hi float64, ok bool) {
	lo, hi = math.Inf(1), math.Inf(-1)
	for _, side := range [][][]float64{old, now} {
		all := slices.Concat(side...)
		if len(all) == 0 {
			continue
		}
		slices.Sort(all)
		lo = min(lo, stat.Quantile(0.01, stat.Empirical, all, nil))
		hi = max(hi, stat.Quantile(0.95, stat.Empirical, all, nil))
	}
	if lo > hi {
		return 0, 0, false
	}
	for _, run := range slices.Concat(old, now) { // what the verdict is drawn from is always in sight
		lo, hi = min(lo, stats.Median(run)), max(hi, stats.Median(run))
	}
	pad := max((hi-lo)*0.06, abs(hi)*0.005, 1e-300)
	return lo - pad, hi + pad, true
}

// hill is a side's histogram as an area, its tallest bin h high.
func (c *chart) hill(runs [][]float64, lo, hi float64, at func(float64) float64, base, h float64, class string) {
	var bins [overlayBins]int
	most := 0
	for _, v := range slices.Concat(runs...) {
		if v < lo || v > hi {
			continue
		}
		i := min(int((v-lo)/(hi-lo)*overlayBins), overlayBins-1)
		bins[i]++
		most = max(most, bins[i])
	}
	if most == 0 {
		return
	}
	var b strings.Builder
	first := true
	for i, n := range bins {
		// Empty stretches at the ends are not drawn.
		if first && n == 0 {
			continue
		}
		x := number(round(at(lo + (hi-lo)*float64(i)/overlayBins)))
		if first {
			fmt.Fprintf(&b, "M%s %s", x, number(base))
			first = false
		} else {
			fmt.Fprintf(&b, "H%s", x)
		}
		fmt.Fprintf(&b, "V%s", number(round(base-h*float64(n)/float64(most))))
	}
	fmt.Fprintf(&b, "H%sV%s", number(round(at(hi))), number(base))
	c.Paths = append(c.Paths, path{b.String(), class})
}

// medians marks the median of every process.
func (c *chart) medians(runs [][]float64, m *compare.MetricResult, side string, at func(float64) float64, y float64, class string) {
	for i, run := range runs {
		med := stats.Median(run)
		c.Rects = append(c.Rects, rect{round(at(med)) - 1.5, y - 3, 3, 6, class,
			fmt.Sprintf("%s, %s, process %d: median %s of %s", view.Cut(m.Name, 60), side, i+1, verdict.Figure(med, m.Unit, false), view.Plural(len(run), "sample"))})
	}
}

// ownAxis is an axis in the metric's own unit.
func (c *chart) ownAxis(m *compare.MetricResult, lo, hi, x0, x1, y float64) {
	unit, name := 1.0, view.Cut(m.Unit, 12)
	if m.Unit == "s" {
		unit, name = view.Scale(hi)
	}
	at := func(v float64) float64 { return x0 + (v*unit-lo)/(hi-lo)*(x1-x0) }
	var b strings.Builder
	fmt.Fprintf(&b, "M%s %sH%s", number(x0), number(y), number(x1))
	marks := steps(lo/unit, hi/unit)
	for i, v := range marks {
		fmt.Fprintf(&b, "M%s %sv4", number(round(at(v))), number(y))
		text := mark(v, marks)
		if i == len(marks)-1 {
			text += " " + name
		}
		c.text(at(v), y+16, "middle", "axis-text", text)
	}
	c.Paths = append(c.Paths, path{b.String(), "rule"})
}
