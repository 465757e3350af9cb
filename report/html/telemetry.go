package html

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/report/internal/view"
)

const (
	maxReadings = 600 // drawn of a quantity
	maxBlocks   = 400
)

// telemetryChart draws the quantities watched during the run one below the
// other over the blocks in which samples were taken, with what disturbed them.
// It is nil where nothing was watched.
func telemetryChart(id string, r *gpuprof.Run) (ch *chart, note string, legend []legendItem) {
	const left, right, panelH, gapH = 90.0, 20.0, 62.0, 30.0
	w := view.Telemetry(r)
	lo, hi := math.Inf(1), math.Inf(-1)
	for _, p := range w.Tracks {
		for _, t := range p.TimeS {
			lo, hi = min(lo, t), max(hi, t)
		}
	}
	if !(hi > lo) {
		return nil, "", nil
	}
	at := func(t float64) float64 { return left + (min(max(t, lo), hi)-lo)/(hi-lo)*(chartWidth-left-right) }
	h := float64(len(w.Tracks)) * (panelH + gapH)
	c := &chart{ID: id + "telemetry", Title: "Telemetry during the run", W: chartWidth, H: h + 34,
		Desc: "For each quantity its readings over the time of the run, with the blocks of samples behind them and marks where samples were disturbed."}
	blocks, flagged := c.blocks(r, lo, hi, at, h-gapH+8)
	for _, s := range w.Throttled {
		x := at(s[0])
		c.Back = append(c.Back, rect{round(x), 0, round(max(at(s[1])-x, 1.5)), round(h - gapH + 8), "throttle", "throttled from " + view.Seconds(s[0]) + " to " + view.Seconds(s[1])})
	}
	for i, p := range w.Tracks {
		c.panel(p, at, left, float64(i)*(panelH+gapH)+18, panelH)
	}
	c.axis(left, chartWidth-right, h-gapH+14, steps(lo, hi), at, h-gapH+8)
	c.text((left+chartWidth-right)/2, c.H-6, "middle", "axis-label", "time from the start of the run, s")
	legend = append(legend, legendItem{"p0", "reading", ""})
	if blocks > 0 {
		legend = append(legend, legendItem{"block-a", "samples with probes were taken", ""}, legendItem{"block-b", "bare samples were taken", ""})
	}
	if len(w.Throttled) > 0 {
		legend = append(legend, legendItem{"throttle", "throttled", ""})
	}
	if flagged > 0 {
		legend = append(legend, legendItem{"flag", "flagged sample: " + view.Cut(strings.Join(w.Codes, ", "), 80), strconv.Itoa(flagged)})
	}
	if w.Left > 0 {
		note += fmt.Sprintf("Not drawn, but in the data: %d more. ", w.Left)
	}
	return c, strings.TrimSpace(note), legend
}

// blocks draws a band a block of samples and a mark a flagged sample.
func (c *chart) blocks(r *gpuprof.Run, lo, hi float64, at func(float64) float64, bottom float64) (blocks, flagged int) {
	var marks strings.Builder
	for i := 0; i < len(r.Order); {
		from := i
		for i++; i < len(r.Order) && r.Order[i].Block == r.Order[from].Block && r.Order[i].Side == r.Order[from].Side; i++ {
		}
		for k := from; k < i && k < len(r.Flags); k++ {
			if t := r.Order[k].StartS; len(r.Flags[k]) > 0 && t >= lo && t <= hi {
				if flagged++; flagged <= maxReadings {
					fmt.Fprintf(&marks, "M%s 0v7", number(round(at(t))))
				}
			}
		}
		start, end := r.Order[from].StartS, r.Order[i-1].StartS
		if i < len(r.Order) && r.Order[i].Block == r.Order[from].Block+1 {
			end = max(end, min(r.Order[i].StartS, end+(end-start))) // the last sample ends where the next begins
		}
		if !(start <= hi && end >= lo) || blocks == maxBlocks {
			continue
		}
		blocks++
		class, side := "block-a", "with probes"
		if r.Order[from].Side == gpuprof.SideBare {
			class, side = "block-b", "bare"
		}
		c.Back = append(c.Back, rect{round(at(start)), 0, round(max(at(end)-at(start), 0.5)), round(bottom), class,
			fmt.Sprintf("block %d, %s: %s", r.Order[from].Block, side, view.Plural(i-from, "sample"))})
	}
	if marks.Len() > 0 {
		c.Paths = append(c.Paths, path{marks.String(), "flag"})
	}
	return blocks, flagged
}

// panel draws one quantity between its least and its most.
func (c *chart) panel(p view.WatchedTrack, at func(float64) float64, left, y, h float64) {
	lo, hi := math.Inf(1), math.Inf(-1)
	for _, v := range p.Value {
		if view.Finite(v) {
			lo, hi = min(lo, v), max(hi, v)
		}
	}
	c.text(left, y-5, "start", "label", p.Title)
	if lo > hi {
		return
	}
	least, most := lo, hi
	if hi-lo < 1e-3*abs(hi) { // what stands still is a line in the middle
		lo, hi = lo-0.05*abs(hi), hi+0.05*abs(hi)
	}
	atY := func(v float64) float64 { return y + h - (v-lo)/(hi-lo)*h }
	c.Paths = append(c.Paths, path{fmt.Sprintf("M%s %sH%s", number(left), number(y+h), number(at(math.Inf(1)))), "rule"})
	if least == most {
		c.text(left-8, atY(least)+4, "end", "axis-text", figureOf(least))
	} else {
		c.text(left-8, atY(most)+8, "end", "axis-text", figureOf(most))
		c.text(left-8, atY(least)+2, "end", "axis-text", figureOf(least))
	}
	var b strings.Builder
	pen := "M"
	for _, i := range readings(p.Value) {
		if !view.Finite(p.Value[i]) {
			pen = "M" // a gap where nothing is known
			continue
		}
		fmt.Fprintf(&b, "%s%s %s", pen, number(round(at(p.TimeS[i]))), number(round(atY(p.Value[i]))))
		pen = "L"
	}
	c.Paths = append(c.Paths, path{b.String(), "reading p0"})
}

// readings are the indices to draw: all, or the least and the most of every
// stretch, so that no peak is lost.
func readings(v []float64) []int {
	n := len(v)
	if n <= maxReadings {
		out := make([]int, n)
		for i := range out {
			out[i] = i
		}
		return out
	}
	var out []int
	for k := range maxReadings / 2 {
		from, to := k*n/(maxReadings/2), (k+1)*n/(maxReadings/2)
		lo, hi := from, from
		for i := from; i < to; i++ {
			if v[i] < v[lo] {
				lo = i
			}
			if v[i] > v[hi] {
				hi = i
			}
		}
		out = append(out, min(lo, hi), max(lo, hi))
	}
	return slices.Compact(out)
}

// figureOf prints a reading with the digits an axis needs.
func figureOf(v float64) string {
	switch {
	case abs(v) >= 1e5 || abs(v) < 1e-3 && v != 0:
		return strconv.FormatFloat(v, 'g', 3, 64)
	case abs(v) >= 100:
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}
