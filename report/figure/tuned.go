package figure

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/tune"
	"github.com/gpuprof/gpuprof/report/internal/view"
)

// newTuningFigure returns a figure with the device, the date, and the status of an incomplete result.
func newTuningFigure(id, title, desc string, r *tune.Result) *Figure {
	f := &Figure{ID: id, Title: title, Desc: desc, Tool: r.Tool.Version, Subject: strings.TrimSpace("tuning of " + view.Cut(r.Workload, 40) + " " + view.Cut(r.Preset, 24))}
	if len(r.Claims) > 0 {
		f.Subject = "claims of tuning guides"
	}
	if r.Program != nil {
		f.Subject = "tuning of " + view.Cut(r.Program.CommandText(), 48)
	}
	device := cmp.Or(view.Cut(r.DeviceDoc, 48), view.Cut(r.Device, 24), "unknown device")
	if r.DeviceDoc != "" && r.DeviceDoc != r.Device {
		device += " [" + view.Cut(r.Device, 12) + "]"
	}
	if r.Program != nil {
		device = fmt.Sprintf("%d CPUs", r.Program.CPUs)
	}
	f.Context = []string{device}
	f.setDate(r.Started)
	if r.Status != gpuprof.Complete {
		f.Context = append(f.Context, strings.ToUpper(view.Cut(string(r.Status), 20))+": "+view.Cut(r.Reason, 100))
	}
	return f
}

// goalText names the quantity of a ratio, and the direction that is better.
func goalText(r *tune.Result) (what, better string) {
	switch r.Goal {
	case tune.Throughput:
		return "throughput", "above 1 is better"
	case tune.Energy:
		return "energy per unit of work", "below 1 is better"
	case tune.Memory:
		return "peak memory", "below 1 is better"
	case tune.Latency:
		return "p99 latency", "below 1 is better"
	}
	return "time per unit of work", "below 1 is better"
}

// KnobEffects draws each knob's effect with its interval, first the settings measured in fresh processes.
func KnobEffects(r *tune.Result) *Figure {
	what, better := goalText(r)
	f := newTuningFigure("effects", "Effect of each knob on "+what, "For each setting "+what+" over that of the default, with its interval, on logarithms.", r)
	all := confirmedRows(r)
	for _, e := range r.Effects {
		row := ratioRow{name: view.Cut(e.Knob, 30) + ": " + view.Cut(e.From, 24) + " to " + view.Cut(e.To, 24), ratio: e.Ratio, lo: e.CI95[0], hi: e.CI95[1], news: newsOf(e.Verdict.Tone()), text: string(e.Verdict)}
		switch {
		case row.hasRatio():
			row.text = ratioText(row) + ", " + row.text
		case e.Reason != "":
			row.text += ": " + view.Cut(e.Reason, 120)
		}
		all = append(all, row)
	}
	if !slices.ContainsFunc(all, ratioRow.hasRatio) {
		return f.setLacking("no knob's effect was measured yet")
	}
	unmeasured := slices.DeleteFunc(slices.Clone(all), ratioRow.hasRatio)
	all = append(slices.DeleteFunc(all, func(r ratioRow) bool { return !r.hasRatio() }), unmeasured...)
	if rec := r.Recommended; rec != nil && len(rec.Knobs) > 0 {
		f.addRemark("recommended: " + view.Cut(rec.Command, 160))
	} else if r.Conclusion.Text != "" {
		f.addRemark(view.Cut(r.Conclusion.Text, 200))
	}
	if len(all) > mostRows {
		f.addNote(fmt.Sprintf("the first %d of %d settings", mostRows, len(all)))
		all = all[:mostRows]
	}
	f.Legend = []Entry{betterNews.legendEntry("better"), worseNews.legendEntry("worse, failed or refused"), evenNews.legendEntry("no effect: within 2 %, the dashed lines"), unsureNews.legendEntry("undecided")}
	f.Panels = []Panel{forestPanel(all, what+" over the default's, "+r.IntervalText()+"; "+better, 0.98, 1.02)}
	return f
}

// confirmedRows returns the settings measured in fresh processes, with the interval that decided.
func confirmedRows(r *tune.Result) []ratioRow {
	var out []ratioRow
	for _, c := range r.Confirmations {
		row := ratioRow{name: "not confirmed: " + orDefault(c.Knobs), ratio: c.Ratio, lo: c.Interval[0], hi: c.Interval[1], news: unsureNews}
		if c.Confirmed {
			row.name, row.news = "confirmed: "+orDefault(c.Knobs), betterNews
		}
		row.text = processText(row, c.Processes)
		out = append(out, row)
	}
	if rec := r.Recommended; out == nil && rec != nil && len(rec.Knobs) > 0 {
		row := ratioRow{name: "recommended: " + orDefault(rec.Knobs), ratio: rec.Ratio, lo: rec.CI95[0], hi: rec.CI95[1], news: betterNews}
		row.text = processText(row, rec.Processes)
		out = append(out, row)
	}
	return out
}

func processText(r ratioRow, n int) string {
	text := "in " + gpuprof.Plural(n, "fresh process")
	if r.hasRatio() {
		return ratioText(r) + ", " + text
	}
	return text
}

func orDefault(s gpuprof.Settings) string { return cmp.Or(view.Cut(view.Pairs(s), 120), "the default") }

// ratioText formats a ratio with its interval, three decimals.
func ratioText(r ratioRow) string {
	if !r.hasInterval() {
		return gpuprof.FormatRatio(r.ratio)
	}
	return gpuprof.FormatRatio(r.ratio) + " (" + gpuprof.FormatFactor(r.lo) + " to " + gpuprof.FormatFactor(r.hi) + ")"
}

// Claims draws the measured speedup of each claim of the tuning guides.
func Claims(r *tune.Result) *Figure {
	f := newTuningFigure("effects", "Claims measured as a speedup", "For each claim of a guide the measured speedup with its interval, on logarithms.", r)
	var all []ratioRow
	left := 0
	for _, c := range r.Claims {
		if c.What != "" || c.CI95 == [2]float64{} {
			left++
			continue
		}
		row := ratioRow{name: view.Cut(c.ID, 24) + ": " + c.Claim, ratio: c.Measured, lo: c.CI95[0], hi: c.CI95[1], news: newsOf(tune.ClaimTone(c.Verdict))}
		row.text = ratioText(row) + ", guide: " + view.Cut(c.Figure, 24) + ", " + view.Cut(c.Verdict, 24)
		all = append(all, row)
	}
	if !slices.ContainsFunc(all, ratioRow.hasRatio) {
		return f.setLacking("no claim's speedup was measured yet")
	}
	if left > 0 {
		f.addNote(gpuprof.Plural(left, "claim") + " without a speedup not drawn: not measured here, or a share")
	}
	if len(all) > mostRows {
		f.addNote(fmt.Sprintf("the first %d of %d", mostRows, len(all)))
		all = all[:mostRows]
	}
	f.Legend = []Entry{betterNews.legendEntry("confirmed"), evenNews.legendEntry("smaller than claimed, or none"), worseNews.legendEntry("opposite"), unsureNews.legendEntry("anything else")}
	f.Panels = []Panel{forestPanel(all, "speedup, 95 % interval; x2 is twice as fast", 1)}
	return f
}

const maxCurves = 6

// Curves draws the cost over the values of each integer knob.
func Curves(r *tune.Result) *Figure {
	what, _ := goalText(r)
	over := "the values of a knob"
	if len(r.Curves) == 1 {
		over = view.Cut(r.Curves[0].Knob, 30)
	}
	f := newTuningFigure("scaling", strings.ToUpper(what[:1])+what[1:]+" over "+over, "The cost at each value of a knob, with intervals and the knee.", r)
	left := 0
	for _, c := range r.Curves {
		p, ok := knobPanel(c)
		switch {
		case !ok:
		case len(f.Panels) == maxCurves:
			left++
		default:
			f.Panels = append(f.Panels, p)
		}
	}
	if f.Empty() {
		return f.setLacking("no knob with a whole number was tried at three values")
	}
	if left > 0 {
		f.addNote(gpuprof.Plural(left, "more curve") + " in the result")
	}
	f.addNote("knee: the smallest value within 5 % of the best")
	return f
}

// Curve draws curve i, for a knob's section in a page.
func Curve(r *tune.Result, i int) *Figure {
	c := r.Curves[i]
	f := newTuningFigure(fmt.Sprintf("scaling-%d", i), "Cost over "+view.Cut(c.Knob, 40), "The cost at each value of the knob, with intervals and the knee.", r)
	p, ok := knobPanel(c)
	if !ok {
		return f.setLacking("the knob was tried at fewer than two values")
	}
	f.Panels = []Panel{p}
	return f
}

// knobPanel draws the values of a knob evenly spaced in order, since settings mostly grow by doubling.
func knobPanel(c tune.Curve) (Panel, bool) {
	out := curve{tone: "t0", joined: true}
	var ticks []Tick
	knee, cost := -1.0, 0.0
	for i, pt := range c.Points {
		ticks = append(ticks, Tick{float64(i), view.Cut(pt.Value, 16)})
		if !gpuprof.IsFinite(pt.Median) || pt.Median <= 0 {
			continue
		}
		if pt.Value == c.Knee {
			knee, cost = float64(i), pt.Median
		}
		text := view.Cost(pt.Median, c.Unit)
		if pt.CI95 != [2]float64{} {
			text += " (" + view.PointInterval(pt.CI95, c.Unit) + ")"
		}
		out.points = append(out.points, curvePoint{float64(i), view.Cut(c.Knob, 40) + "=" + view.Cut(pt.Value, 16), pt.Median, pt.CI95, text})
	}
	if len(out.points) < 2 {
		return Panel{}, false
	}
	label, unit := "cost", view.Cut(c.Unit, 24)
	base, work, per := strings.Cut(c.Unit, " per ")
	if per {
		label = "cost per " + view.Cut(work, 24)
		unit = view.Cut(base, 24)
	}
	p, ok := curvePanel(view.Cut(c.Knob, 40), label, unit, false, []curve{out})
	p.X.Ticks, p.X.Max = ticks, max(p.X.Max, float64(len(c.Points)-1)+0.1)
	if knee >= 0 {
		p.Marks = append(p.Marks, Mark{Kind: Rule, X0: knee, Y0: cost, Tone: Soft, Form: Dashed, Text: "knee at " + view.Cut(c.Knee, 16)})
	}
	return p, ok
}
