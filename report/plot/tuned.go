package plot

import (
	"fmt"
	"image/color"
	"slices"
	"strings"

	gplot "gonum.org/v1/plot"
	"gonum.org/v1/plot/vg/draw"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/tune"
	"github.com/gpuprof/gpuprof/report/internal/view"
)

// Tuning makes the picture of a kind of a tuning result; "" is the effect of
// each knob, or of each claim. An unknown kind, or one that it cannot give, is
// ErrUsage naming the others.
func Tuning(r *tune.Result, want string) (*Figure, error) {
	if r == nil {
		return nil, view.ErrNoRun("a picture")
	}
	kinds := []kind[*tune.Result]{{"effects", effects}, {"scaling", tuneCurves}}
	if len(r.Claims) > 0 {
		kinds = []kind[*tune.Result]{{"effects", claims}}
	}
	return pick("a tuning result", kinds, r, want)
}

func tuneFigure(what string, r *tune.Result) *Figure {
	subject := strings.TrimSpace("tuning of " + view.Cut(r.Workload, 40) + " " + view.Cut(r.Preset, 24))
	if len(r.Claims) > 0 {
		subject = "claims of tuning guides"
	}
	f := &Figure{title: subject + ": " + what, tool: r.Tool.Version}
	parts := []string{deviceText(r)}
	if !r.Started.IsZero() {
		parts = append(parts, date(r.Started))
	}
	if r.Status != gpuprof.Complete {
		parts = append(parts, strings.ToUpper(view.Cut(string(r.Status), 20))+": "+view.Cut(r.Reason, 100))
	}
	f.subtitle = strings.Join(parts, " · ")
	return f
}

func deviceText(r *tune.Result) string {
	switch {
	case r.DeviceDoc == "" && r.Device == "":
		return "unknown device"
	case r.DeviceDoc == "" || r.DeviceDoc == r.Device:
		return view.Cut(r.Device, 24)
	}
	return view.Cut(r.DeviceDoc, 48) + " [" + view.Cut(r.Device, 12) + "]"
}

// goalText is what the ratio is of, and which way is better.
func goalText(r *tune.Result) (what, better string) {
	switch r.Goal {
	case tune.Throughput:
		return "throughput", "above 1 is better"
	case tune.Energy:
		return "energy for a unit of work", "below 1 is better"
	case tune.Memory:
		return "peak memory", "below 1 is better"
	}
	return "time for a unit of work", "below 1 is better"
}

// effects draws each knob's effect with its interval, the recommendation first.
func effects(r *tune.Result) (*Figure, error) {
	what, better := goalText(r)
	f := tuneFigure("effect of each knob on "+what, r)
	var rows []forestRow
	for _, e := range r.Effects {
		tone, mark := effectMark(e.Verdict)
		row := forestRow{name: e.Knob + ": " + e.From + " to " + e.To, v: e.Ratio, lo: e.CI95[0], hi: e.CI95[1], tone: tone, mark: mark, text: string(e.Verdict)}
		switch {
		case row.drawn():
			row.text = ratioText(row) + ", " + row.text
		case e.Reason != "":
			row.text += ": " + view.Cut(e.Reason, 120)
		}
		rows = append(rows, row)
	}
	if !slices.ContainsFunc(rows, forestRow.drawn) {
		return f.without("no knob's effect was measured yet"), nil
	}
	slices.SortStableFunc(rows, func(a, b forestRow) int { // what was not measured comes last
		switch {
		case a.drawn() == b.drawn():
			return 0
		case a.drawn():
			return -1
		}
		return 1
	})
	if rec := r.Recommended; rec != nil && len(rec.Knobs) > 0 {
		rows = append([]forestRow{recommendedRow(rec)}, rows...)
		f.remark("recommended: " + view.Cut(rec.Command, 160))
	} else if r.Conclusion.Text != "" {
		f.remark(view.Cut(r.Conclusion.Text, 200))
	}
	if len(rows) > maxRows {
		f.remark(fmt.Sprintf("the first %d of %d settings", maxRows, len(rows)))
		rows = rows[:maxRows]
	}
	f.legend = []entry{{"better (circle)", fasterTone}, {"worse (square)", slowerTone}, {"no effect (circle)", ink}, {"undecided (ring)", grey}}
	f.plots = []*gplot.Plot{forest(rows, what+" over the default's, 95 % interval; "+better, 1)}
	return f, nil
}

func recommendedRow(rec *tune.Recommended) forestRow {
	row := forestRow{name: "recommended", v: rec.Ratio, lo: rec.CI95[0], hi: rec.CI95[1], tone: palette[2], mark: draw.PyramidGlyph{}}
	row.text = "confirmed in " + view.Plural(rec.Processes, "process")
	if row.drawn() {
		row.text = ratioText(row) + ", " + row.text
	}
	return row
}

func ratioText(r forestRow) string {
	if !r.ranged() {
		return fmt.Sprintf("x%.3f", r.v)
	}
	return fmt.Sprintf("x%.3f (%.3f to %.3f)", r.v, r.lo, r.hi)
}

func effectMark(v tune.Verdict) (color.NRGBA, draw.GlyphDrawer) {
	switch v {
	case tune.Faster, tune.Less:
		return fasterTone, draw.CircleGlyph{}
	case tune.Slower, tune.More, tune.Failed, tune.Refused:
		return slowerTone, draw.BoxGlyph{}
	case tune.None:
		return ink, draw.CircleGlyph{}
	}
	return grey, ring{}
}

// claims draws the speed-up of each claim that has one, with its interval.
func claims(r *tune.Result) (*Figure, error) {
	f := tuneFigure("what the advice changes here", r)
	var rows []forestRow
	left := 0
	for _, c := range r.Claims {
		if c.What != "" || c.CI95 == [2]float64{} {
			left++
			continue
		}
		row := forestRow{name: c.ID + ": " + c.Claim, v: c.Measured, lo: c.CI95[0], hi: c.CI95[1], tone: ink, mark: draw.CircleGlyph{}}
		switch {
		case row.ranged() && row.lo > 1:
			row.tone = fasterTone
		case row.ranged() && row.hi < 1:
			row.tone, row.mark = slowerTone, draw.BoxGlyph{}
		}
		row.text = ratioText(row) + ", guide: " + view.Cut(c.Figure, 24) + ", " + view.Cut(c.Verdict, 24)
		rows = append(rows, row)
	}
	if !slices.ContainsFunc(rows, forestRow.drawn) {
		return f.without("no claim's speed-up was measured yet"), nil
	}
	if left > 0 {
		f.remark(view.Plural(left, "claim") + " without a speed-up not drawn: not measured here, or a share")
	}
	if len(rows) > maxRows {
		f.remark(fmt.Sprintf("the first %d of %d", maxRows, len(rows)))
		rows = rows[:maxRows]
	}
	f.legend = []entry{{"faster with the advice (circle)", fasterTone}, {"slower (square)", slowerTone}, {"the interval holds 1 (circle)", ink}}
	f.plots = []*gplot.Plot{forest(rows, "speed-up, 95 % interval; 2 is twice as fast", 1)}
	return f, nil
}

const maxCurves = 3

// tuneCurves draws the cost over the values of each whole-number knob.
func tuneCurves(r *tune.Result) (*Figure, error) {
	what, _ := goalText(r)
	over := "the values of a knob"
	if len(r.Curves) == 1 {
		over = view.Cut(r.Curves[0].Knob, 30)
	}
	f := tuneFigure(what+" over "+over, r)
	for _, c := range r.Curves {
		curve := view.Curve{}
		for i, pt := range c.Points {
			if !view.Finite(pt.Median) || pt.Median <= 0 {
				continue
			}
			p := view.CurvePoint{X: float64(i), Value: pt.Value, Step: &gpuprof.Series{Median: pt.Median, CI95: pt.CI95}}
			if pt.Value == c.Knee {
				p.Value += " (knee)"
			}
			curve.Points = append(curve.Points, p)
		}
		if len(curve.Points) < 2 || len(f.plots) == maxCurves {
			continue
		}
		unit, name := costUnit(c)
		get := func(p view.CurvePoint) (v, lo, hi float64, ok bool) {
			return p.Step.Median / unit, p.Step.CI95[0] / unit, p.Step.CI95[1] / unit, true
		}
		// Places are evenly spaced: the values of a knob double more often than not.
		f.plots = append(f.plots, curvePlot(c.Knob, name, true, []view.Curve{curve}, get))
	}
	if len(f.plots) == 0 {
		return f.without("no knob with a whole number was tried at three values"), nil
	}
	if left := len(r.Curves) - len(f.plots); left > 0 {
		f.remark(view.Plural(left, "more curve") + " in the result")
	}
	f.remark("knee: the smallest value within 5 % of the best")
	return f, nil
}

// costUnit scales seconds; other units stay.
func costUnit(c tune.Curve) (float64, string) {
	per, ok := strings.CutPrefix(c.Unit, "s per ")
	if !ok {
		return 1, view.Cut(c.Unit, 24)
	}
	longest := 0.0
	for _, p := range c.Points {
		if view.Finite(p.Median) {
			longest = max(longest, p.Median)
		}
	}
	unit, name := view.Scale(longest)
	return unit, name + " per " + view.Cut(per, 20)
}
