package html

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof/internal/tune"
	"github.com/gpuprof/gpuprof/report/internal/view"
)

// claims fills the table of guides' rules, in their own order, and the plot of
// those that were measured as a speedup.
func (v *tuneView) claims(r *tune.Result) {
	v.Claims = gridView{Heading: "Table of claims", Words: true, Caption: "Measured is a speedup, x2 is twice as fast, unless it says what else it is.",
		Titles: []string{"id", "claim", "guide's figure", "measured", "95 % interval", "verdict", "why"}}
	count := map[string]int{}
	var rows []effect
	for _, c := range r.Claims {
		verdict := view.Cut(c.Verdict, 40)
		count[verdict]++
		row := []string{view.Cut(c.ID, 24), view.Cut(c.Claim, 160), view.Cut(c.Figure, 60), view.None, view.None, verdict, orNone(view.Cut(c.Reason, 300))}
		if c.CI95 != [2]float64{} {
			row[3], row[4] = "x"+factor(c.Measured), factorSpan(c.CI95)
			if c.What != "" {
				row[3], row[4] = fmt.Sprintf("%s (%s)", view.Percent(c.Measured), view.Cut(c.What, 60)), view.Interval(c.CI95, view.Percent)
			} else {
				rows = append(rows, effect{label: row[0] + ", " + verdict, ratio: c.Measured, lo: c.CI95[0], hi: c.CI95[1], class: claimClass(c.Verdict), note: row[3] + "  " + row[4]})
			}
		}
		v.Claims.Rows = append(v.Claims.Rows, row)
		note := claimNote{ID: row[0], Claim: row[1], Guide: view.Cut(c.Guide, 80)}
		for _, t := range append([]string{c.AB, c.Reason}, c.Details...) {
			if t != "" {
				note.Lines = append(note.Lines, view.Cut(t, 600))
			}
		}
		v.ClaimNotes = append(v.ClaimNotes, note)
	}
	var parts []string
	for _, verdict := range slices.Sorted(maps.Keys(count)) {
		parts = append(parts, fmt.Sprintf("%d %s", count[verdict], verdict))
	}
	v.ClaimHeadline = view.Plural(len(r.Claims), "claim") + ": " + strings.Join(parts, ", ") + "."
	v.ClaimForest = forest("claims-measured", "Claims measured as a speedup", "speedup: time without the advice over time with it", rows)
	v.ClaimLegend = []legendItem{{"v-good", "confirmed", ""}, {"v-even", "smaller than claimed, or none", ""}, {"v-bad", "opposite", ""}, {"v-unsure", "anything else", ""}}
}

func orNone(s string) string {
	if s == "" {
		return view.None
	}
	return s
}

func claimClass(verdict string) string {
	switch verdict {
	case "confirmed":
		return "good"
	case "smaller", "none":
		return "even"
	case "opposite":
		return "bad"
	}
	return "unsure"
}

// kneeChart draws the cost over a knob's values with intervals and marks the
// knee; nil without points. Values stand in their own order, evenly spaced:
// they are settings, not measurements.
func kneeChart(id, knob string, c tune.Curve) *chart {
	const left, right, top, bottom, h = 90.0, 30.0, 26.0, 46.0, 270.0
	var ys []float64
	for _, p := range c.Points {
		if view.Finite(p.Median) && p.Median > 0 {
			ys = append(ys, p.Median)
		}
	}
	if len(ys) == 0 {
		return nil
	}
	// One interval that is known badly must not squeeze the curve to a line: it
	// is cut off at the top.
	highest := 2 * slices.Max(ys)
	for _, p := range c.Points {
		if view.Finite(p.CI95[1]) {
			ys = append(ys, min(p.CI95[1], highest))
		}
	}
	base, work, _ := strings.Cut(c.Unit, " per ")
	unit, name := 1.0, view.Cut(c.Unit, 24)
	if base == "s" {
		unit, name = view.Scale(slices.Max(ys))
		name += " per " + view.Cut(work, 24)
	}
	ch := &chart{ID: id + "-chart", Title: "Cost over " + knob, W: chartWidth, H: h}
	for i := range ys {
		ys[i] /= unit
	}
	marks, atY := placeY(ys, false, top, h-bottom)
	step := (chartWidth - left - right) / float64(len(c.Points))
	var line, words []string
	for i, p := range c.Points {
		x := left + step*(float64(i)+0.5)
		value := view.Cut(p.Value, 16)
		ch.text(x, h-bottom+18, "middle", "axis-text", value)
		if !view.Finite(p.Median) || p.Median <= 0 {
			continue
		}
		y := atY(p.Median / unit)
		if p.Value == c.Knee {
			ch.Paths = append(ch.Paths, path{fmt.Sprintf("M%.1f %.1fV%.1f", x, top, h-bottom), "limit"})
			ch.text(x+8, top+12, "start", "label", "knee at "+value)
		}
		if view.Finite(p.CI95[0]) && view.Finite(p.CI95[1]) && p.CI95[0] > 0 {
			ch.Paths = append(ch.Paths, path{fmt.Sprintf("M%.1f %.1fV%.1f", x, atY(p.CI95[0]/unit), max(atY(p.CI95[1]/unit), top)), "whisker"})
		}
		text := knob + "=" + value + ": " + view.Cost(p.Median, c.Unit)
		ch.Dots = append(ch.Dots, dot{round(x), round(y), "t0", text, bigDot})
		line, words = append(line, fmt.Sprintf("%.1f %.1f", x, y)), append(words, text)
	}
	if len(line) > 1 {
		ch.Paths = append(ch.Paths, path{"M" + strings.Join(line, "L"), "curve st0"})
	}
	var rules strings.Builder
	for _, m := range marks {
		fmt.Fprintf(&rules, "M%.1f %.1fH%.1f", left, atY(m), chartWidth-right)
		ch.text(left-8, atY(m)+4, "end", "axis-text", mark(m, marks))
	}
	ch.Paths = append([]path{{rules.String(), "rule"}}, ch.Paths...)
	ch.text(left-80, 14, "start", "axis-label", name)
	ch.text((left+chartWidth-right)/2, h-6, "middle", "axis-label", knob)
	ch.Desc = strings.Join(words, "; ")
	return ch
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
