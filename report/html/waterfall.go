package html

import (
	"strings"

	"github.com/gpuprof/gpuprof/report/internal/view"
)

// fall is one bar of a waterfall: by how much it changed the whole, in seconds.
type fall struct {
	name  string
	delta float64
}

// waterfall leads from the step before to the step after, both in seconds, a
// bar a part in the order given. What the parts leave over closes the sum
// under the name rest. It is nil where a side is not known.
func waterfall(before, after float64, falls []fall, rest string) *chart {
	const left, rowH, right = 190.0, 26.0, 130.0
	if !(before > 0) || !(after > 0) || !view.Finite(before) || !view.Finite(after) {
		return nil
	}
	left0 := after - before
	var rows []fall
	for _, f := range falls {
		if view.Finite(f.delta) && f.delta != 0 {
			rows = append(rows, f)
			left0 -= f.delta
		}
	}
	if abs(left0) > 1e-6*max(before, after) {
		rows = append(rows, fall{rest, left0})
	}
	lo, hi, at := min(before, after), max(before, after), before
	for _, r := range rows {
		at += r.delta
		lo, hi = min(lo, at), max(hi, at)
	}
	lo = max(lo-(hi-lo)/3, 0) // room before the smallest, so that small changes of a long step show
	if !(hi > lo) {
		lo, hi = 0.9*before, 1.1*before
	}
	unit, unitName := view.Scale(hi)
	c := &chart{ID: "waterfall", Title: "From the step before to the step after", W: chartWidth, Desc: "A bar a part: how much it made the step longer or shorter."}
	x := func(v float64) float64 { return left + (v-lo)/(hi-lo)*(chartWidth-left-right) }
	y := 6.0
	row := func(label string, from, to float64, class, note string) {
		a, b := x(min(from, to)), x(max(from, to))
		c.text(left-12, y+15, "end", "label", view.Cut(label, 24))
		c.Rects = append(c.Rects, rect{round(a), y, round(max(b-a, 1)), rowH - 6, class, label + ": " + note})
		c.text(b+6, y+15, "start", "label", note)
		y += rowH
	}
	row("before", lo, before, "t-rest", view.Seconds(before))
	at = before
	var joints strings.Builder
	for _, r := range rows {
		class := "t2"
		if r.delta > 0 {
			class = "t3"
		}
		joints.WriteString("M" + number(round(x(at))) + " " + number(y-6) + "v6")
		row(view.Cut(r.name, 60), at, at+r.delta, class, signedSeconds(r.delta))
		at += r.delta
	}
	row("after", lo, after, "t-rest", view.Seconds(after))
	if joints.Len() > 0 {
		c.Paths = append(c.Paths, path{joints.String(), "joint"})
	}
	c.axis(left, chartWidth-right, y+2, steps(lo/unit, hi/unit), func(v float64) float64 { return x(v * unit) }, 4)
	c.H = y + 42
	label := "time of a step, " + unitName
	if lo > 0 {
		label += " (the axis does not begin at zero)"
	}
	c.text((left+chartWidth-right)/2, c.H-4, "middle", "axis-label", label)
	return c
}

func abs(v float64) float64 { return max(v, -v) }

// signedSeconds prints a change with its sign.
func signedSeconds(v float64) string {
	if v > 0 {
		return "+" + view.Seconds(v)
	}
	return view.Seconds(v)
}
