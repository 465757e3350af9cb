package html

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuprof/gpuprof/report/internal/view"
)

// effect is a row of a forest plot: a ratio with its interval.
type effect struct {
	label, note   string // note stands to the right
	ratio, lo, hi float64
	class         string // good, bad, even or unsure
}

// Ratios beyond these are drawn at the edge, and so are intervals that reach
// farther than intervalReach times beyond the outermost ratio: one figure that
// is known badly must not squeeze the others to a line.
const (
	leastRatio    = 0.05
	mostRatio     = 20
	intervalReach = 1.5
)

// forest draws ratios to one with their intervals on a logarithmic axis, and
// a dashed line at each of marks. Rows without a ratio are left out; nil
// without rows.
func forest(id, title, axis string, rows []effect, marks ...float64) *chart {
	const left, right, rowH = 250.0, 210.0, 24.0
	rows = slices.DeleteFunc(slices.Clone(rows), func(e effect) bool { return !view.Finite(e.ratio) || e.ratio <= 0 })
	if len(rows) == 0 {
		return nil
	}
	lo, hi := 0.98, 1.02
	for _, m := range marks {
		lo, hi = min(lo, m), max(hi, m)
	}
	lo, hi = ratioRange(rows, lo, hi)
	pad := math.Pow(hi/lo, 0.04)
	lo, hi = lo/pad, hi*pad
	at := func(v float64) float64 {
		return left + math.Log(min(max(v, lo), hi)/lo)/math.Log(hi/lo)*(chartWidth-left-right)
	}
	c := &chart{ID: id, Title: title, W: chartWidth}
	var words []string
	y := 8.0
	for _, e := range rows {
		mid := y + rowH/2
		c.text(left-12, mid+4, "end", "label", view.Cut(e.label, 32))
		if view.Finite(e.lo) && view.Finite(e.hi) && e.lo > 0 && e.hi >= e.lo {
			d := fmt.Sprintf("M%s %sH%s", number(round(at(e.lo))), number(mid), number(round(at(e.hi))))
			for _, end := range []float64{e.lo, e.hi} {
				if end >= lo && end <= hi { // an open end goes on
					d += fmt.Sprintf("M%s %sv8", number(round(at(end))), number(mid-4))
				}
			}
			c.Paths = append(c.Paths, path{d, "whisker v-" + e.class})
		}
		c.Dots = append(c.Dots, dot{round(at(e.ratio)), mid, "v-" + e.class, e.label + ": " + e.note, bigDot})
		c.text(chartWidth-right+14, mid+4, "start", "label", view.Cut(e.note, 32))
		words = append(words, e.label+" "+e.note)
		y += rowH
	}
	y += 4
	for _, m := range marks {
		c.Paths = append(c.Paths, path{fmt.Sprintf("M%s 4V%s", number(round(at(m))), number(y)), "limit"})
	}
	c.Paths = append([]path{{fmt.Sprintf("M%s 4V%s", number(round(at(1))), number(y)), "one"}}, c.Paths...)
	c.ratioAxis(left, chartWidth-right, y, lo, hi, at)
	c.H = y + 42
	c.text((left+chartWidth-right)/2, c.H-4, "middle", "axis-label", axis)
	c.Desc = strings.Join(words, "; ")
	return c
}

// ratioRange widens a range to hold every ratio and most of every interval.
func ratioRange(rows []effect, lo, hi float64) (least, most float64) {
	for _, e := range rows {
		lo, hi = min(lo, e.ratio), max(hi, e.ratio)
	}
	least, most = lo, hi
	for _, e := range rows {
		if view.Finite(e.lo) && e.lo > 0 {
			least = min(least, max(e.lo, lo/intervalReach))
		}
		if view.Finite(e.hi) && e.hi > 0 {
			most = max(most, min(e.hi, hi*intervalReach))
		}
	}
	return max(least, leastRatio), min(most, mostRatio)
}

// ratioAxis marks small changes in percent and large ones as factors.
func (c *chart) ratioAxis(x0, x1, y, lo, hi float64, at func(float64) float64) {
	var b strings.Builder
	fmt.Fprintf(&b, "M%s %sH%s", number(x0), number(y), number(x1))
	for _, m := range ratioMarks(lo, hi) {
		x := round(at(m.at))
		fmt.Fprintf(&b, "M%s 4V%s", number(x), number(y+4))
		c.text(x, y+17, "middle", "axis-text", m.text)
	}
	c.Paths = append([]path{{b.String(), "rule"}}, c.Paths...)
}

type ratioMark struct {
	at   float64
	text string
}

func ratioMarks(lo, hi float64) []ratioMark {
	var out []ratioMark
	if hi/lo < 1.8 {
		for _, v := range steps((lo-1)*100, (hi-1)*100) {
			text := strconv.FormatFloat(math.Round(v*100)/100, 'f', -1, 64) + " %"
			if v > 0 {
				text = "+" + text
			}
			out = append(out, ratioMark{1 + v/100, text})
		}
		return out
	}
	values := []float64{0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20}
	if hi/lo < 6 {
		values = []float64{0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1, 1.25, 1.5, 2, 2.5, 3, 4, 5}
	}
	for _, v := range values {
		if v >= lo && v <= hi {
			out = append(out, ratioMark{v, "x" + strconv.FormatFloat(v, 'f', -1, 64)})
		}
	}
	return out
}
