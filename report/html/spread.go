package html

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/stat"

	"github.com/gpuprof/gpuprof/internal/stats"
	"github.com/gpuprof/gpuprof/report/internal/view"
)

// Of a row of the distribution chart: where samples stand in the order they
// were taken, and the histograms beside them.
const (
	spreadLeft, spreadRight = 190.0, 640.0
	histLeft, histRight     = 668.0, 830.0
	spreadRow, stepRow      = 58.0, 92.0
	histBins                = 20
)

// spreadChart is a row a quantity: a dot a sample in the order they were taken,
// process after process, so that drift shows; beside them a histogram a process,
// so that two humps show, with the 5th to 95th percentile and the median.
func spreadChart(id string, spreads []view.Spread) *chart {
	c := &chart{ID: id + "spread", Title: "Distribution of samples about each median", W: chartWidth,
		Desc: "For the step and each stage: every sample as a dot in the order they were taken, process after process, and a histogram of each process."}
	y := 10.0
	for i, s := range spreads {
		h := spreadRow
		if i == 0 {
			h = stepRow
		}
		lo, hi := rowRange(s)
		c.spreadRow(s, lo, hi, y, h)
		y += h + 16
	}
	c.H = y + 30
	c.text((spreadLeft+spreadRight)/2, c.H-22, "middle", "axis-label", "samples in the order they were taken, process after process")
	c.text((histLeft+histRight)/2, c.H-22, "middle", "axis-label", "how often")
	c.text(spreadLeft, c.H-4, "start", "axis-label", "up and down: difference from the row's own median, %")
	return c
}

func (c *chart) spreadRow(s view.Spread, lo, hi, y, h float64) {
	at := func(v float64) float64 { return y + h - (v-lo)/(hi-lo)*h }
	zero := round(at(0))
	c.Paths = append(c.Paths, path{fmt.Sprintf("M%s %sH%sM%s %sH%sM%s %sV%s", number(spreadLeft), number(zero), number(histRight),
		number(spreadLeft), number(y+h), number(histRight), number(spreadLeft), number(y), number(y+h)), "rule"})
	c.text(spreadLeft-8, y+8, "end", "axis-text", percentMark(hi))
	c.text(spreadLeft-8, y+h+2, "end", "axis-text", percentMark(lo))
	label := view.Cut(s.Name, 18)
	c.text(8, y+h/2, "start", "label", label)
	if s.Source != "period" {
		c.text(8, y+h/2+15, "start", "axis-text", s.Source)
	}
	gap := 6.0
	wide := (spreadRight - spreadLeft - gap*float64(len(s.Process)+1)) / float64(max(len(s.Process), 1))
	if wide < 8 {
		gap, wide = 0, (spreadRight-spreadLeft)/float64(len(s.Process))
	}
	most, out := 1, 0
	counts := make([][histBins]int, len(s.Process))
	for i, run := range s.Process {
		x := spreadLeft + gap + float64(i)*(wide+gap)
		var b strings.Builder
		for k, v := range run {
			if v < lo || v > hi { // drawn at the edge, and counted
				out++
			}
			v = min(max(v, lo), hi)
			bin := min(int((v-lo)/(hi-lo)*histBins), histBins-1)
			counts[i][bin]++
			most = max(most, counts[i][bin])
			fmt.Fprintf(&b, "M%s %sh0", number(round(x+wide*(float64(k)+0.5)/float64(len(run)))), number(round(at(v))))
		}
		c.Paths = append(c.Paths, path{b.String(), "sample " + processClass(i)})
	}
	for i := range counts {
		c.Paths = append(c.Paths, path{histogram(counts[i], most, y, h), "outline " + processClass(i)})
	}
	c.spreadBox(s, lo, hi, at)
	c.text(histRight+12, y+h/2, "start", "label", view.Median(s.Series))
	if out > 0 {
		c.text(histRight+12, y+h/2+15, "start", "axis-text", fmt.Sprintf("%d beyond", out))
	}
}

// rowRange is what a row shows: where most samples lie, with room. Each row has
// its own, because a stage that takes nearly nothing can vary by a factor.
func rowRange(s view.Spread) (lo, hi float64) {
	var all []float64
	for _, run := range s.Process {
		all = append(all, run...)
	}
	slices.Sort(all)
	lo, hi = stat.Quantile(0.03, stat.Empirical, all, nil), stat.Quantile(0.97, stat.Empirical, all, nil)
	for _, run := range s.Process { // a process that is apart as a whole stays in sight
		lo, hi = min(lo, stats.Median(run)), max(hi, stats.Median(run))
	}
	room := max(0.25*(hi-lo), 0.005)
	return min(lo-room, 0), max(hi+room, 0)
}

// histogram is one process's bins as an outline that grows to the right.
func histogram(bins [histBins]int, most int, y, h float64) string {
	const room = histRight - histLeft - 14
	var b strings.Builder
	fmt.Fprintf(&b, "M%s %s", number(histLeft+14), number(round(y+h)))
	for i, n := range bins {
		fmt.Fprintf(&b, "H%sV%s", number(round(histLeft+14+room*float64(n)/float64(most))), number(round(y+h-h*float64(i+1)/histBins)))
	}
	fmt.Fprintf(&b, "H%s", number(histLeft+14))
	return b.String()
}

// spreadBox is the 5th to 95th percentile with the median on it.
func (c *chart) spreadBox(s view.Spread, lo, hi float64, at func(float64) float64) {
	if !view.Finite(s.P05) || !view.Finite(s.P95) {
		return
	}
	top, bottom := at(max(min(s.P95, hi), lo)), at(min(max(s.P05, lo), hi))
	c.Rects = append(c.Rects, rect{histLeft, round(top), 3, round(max(bottom-top, 1)), "box",
		fmt.Sprintf("%s: 5th to 95th percentile %s to %s", view.Cut(s.Name, 40), view.Seconds(s.Series.P05), view.Seconds(s.Series.P95))})
	c.Rects = append(c.Rects, rect{histLeft - 3, round(at(0)) - 1, 9, 2, "box", "median " + view.Median(s.Series)})
}

func percentMark(v float64) string {
	sign := ""
	if v > 0 {
		sign = "+"
	}
	digits := 0
	if math.Abs(v) < 0.1 {
		digits = 1
	}
	return fmt.Sprintf("%s%.*f %%", sign, digits, v*100)
}
