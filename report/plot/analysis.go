package plot

import (
	"fmt"
	"image/color"
	"path/filepath"
	"slices"
	"strings"

	gplot "gonum.org/v1/plot"

	"github.com/gpuprof/gpuprof/internal/trace"
	"github.com/gpuprof/gpuprof/report/internal/view"
)

// Analysis makes the picture of a kind of a trace's analysis; "" is where the
// device's time went. An unknown kind, or one that it cannot give, is ErrUsage
// naming the others.
func Analysis(a *trace.Analysis, want string) (*Figure, error) {
	if a == nil {
		return nil, view.ErrNoRun("a picture")
	}
	return pick("an analysis", []kind[*trace.Analysis]{{"stages", classes}, {"timeline", steps}}, a, want)
}

// TraceComparison is Analysis for two analyses of one program.
func TraceComparison(c *trace.Comparison, want string) (*Figure, error) {
	if c == nil {
		return nil, view.ErrNoRun("a picture")
	}
	return pick("a comparison of traces", []kind[*trace.Comparison]{{"waterfall", classChanges}}, c, want)
}

// analysisFigure names the traces and the devices; a trace has no date.
func analysisFigure(what string, a *trace.Analysis) *Figure {
	f := &Figure{title: traceName(a) + ": " + what, tool: a.Tool.Version}
	f.subtitle = deviceNames(a) + " · steps by " + view.Cut(a.StepSource, 40)
	return f
}

func traceName(a *trace.Analysis) string {
	switch len(a.Inputs) {
	case 0:
		return "a trace"
	case 1:
		return view.Cut(filepath.Base(a.Inputs[0].Path), 60)
	}
	return view.Cut(filepath.Base(a.Inputs[0].Path), 60) + " and " + view.Plural(len(a.Inputs)-1, "more trace")
}

func deviceNames(a *trace.Analysis) string {
	var names []string
	for _, d := range a.Devices {
		if n := view.Cut(d.Name, 40); n != "" && !slices.Contains(names, n) {
			names = append(names, n)
		}
	}
	if len(names) == 0 {
		return "unknown device"
	}
	return strings.Join(names[:min(len(names), 3)], ", ")
}

// part is a share of a device's time.
type part struct {
	name string
	ns   int64
	fill color.NRGBA
}

// idle shades are no colour of a class.
var (
	starvedTone = color.NRGBA{0xc9, 0xce, 0xd5, 0xff}
	queuedTone  = color.NRGBA{0xe3, 0xe6, 0xea, 0xff}
)

// classes draws where the time of all devices went, the longest first.
func classes(a *trace.Analysis) (*Figure, error) {
	f := analysisFigure("where the device's time went", a)
	parts, span := accountOf(a)
	if span <= 0 || len(parts) == 0 {
		return f.without("no device time is in the trace"), nil
	}
	longest := 0.0
	for _, p := range parts {
		longest = max(longest, float64(p.ns)*1e-9)
	}
	unit, name := view.Scale(longest)
	title := "time (" + name + ") of the mean step of " + view.Seconds(float64(span)*1e-9)
	if a.Step.Count == 0 {
		title = "time (" + name + ") of the recording window of " + view.Seconds(float64(span)*1e-9)
	}
	if len(a.Devices) > 1 {
		title += fmt.Sprintf(", mean of %d devices", len(a.Devices))
	}
	p := newPlot(title, "")
	sh := &shapes{}
	var labels []string
	for i, part := range parts {
		labels = append(labels, part.name)
		end := float64(part.ns) * 1e-9 / unit
		sh.rects = append(sh.rects, rect{x1: end, y0: -float64(i) - 0.34, y1: -float64(i) + 0.34, fill: part.fill})
		sh.texts = append(sh.texts, label{x: end, y: -float64(i), dx: 6, color: ink,
			text: view.Seconds(float64(part.ns)*1e-9) + " · " + view.Percent(float64(part.ns)/float64(span))})
	}
	p.X.Min, p.X.Max = 0, longest/unit*1.2
	p.Y.Min, p.Y.Max = rowRange(len(parts))
	p.Y.Tick.Marker = names(labels)
	p.Add(grid{}, sh)
	f.legend = []entry{{"the device works", palette[0]}, {"idle: it waits for the host", palette[3]}, {"idle: work is queued, or unknown why", grey}}
	f.plots = []*gplot.Plot{p}
	if len(a.Findings) > 0 && a.Findings[0].ClaimNS > 0 {
		f.remark("first finding: " + view.Cut(a.Findings[0].Title, 160))
	}
	return f, nil
}

// accountOf is what the mean step is made of, the longest first.
func accountOf(a *trace.Analysis) (parts []part, span int64) {
	if len(a.Devices) == 0 {
		return nil, 0
	}
	for _, c := range trace.Classes() {
		parts = append(parts, part{strings.ReplaceAll(string(c), "_", " "), a.Step.Classes[c], palette[0]})
	}
	for _, idle := range a.Step.Idle() {
		fill := grey
		if idle.Name == "starved" {
			fill = palette[3]
		}
		parts = append(parts, part{"idle, " + idle.Name, idle.NS, fill})
	}
	parts = slices.DeleteFunc(parts, func(p part) bool { return p.ns <= 0 })
	slices.SortStableFunc(parts, func(a, b part) int { return int(min(max(b.ns-a.ns, -1), 1)) })
	return parts, a.Step.NS
}

const maxSteps = 120

// steps draws each step as one bar of what its device did.
func steps(a *trace.Analysis) (*Figure, error) {
	f := analysisFigure("each step's time", a)
	var all []trace.StepTime
	for _, s := range a.Steps {
		if s.DurNS > 0 && s.Device >= 0 {
			all = append(all, s)
		}
	}
	if len(all) == 0 {
		return f.without("no step with device work is in the trace"), nil
	}
	if len(all) > maxSteps {
		f.remark(fmt.Sprintf("the first %d of %d steps", maxSteps, len(all)))
		all = all[:maxSteps]
	}
	longest := int64(0)
	for _, s := range all {
		longest = max(longest, s.DurNS)
	}
	unit, name := view.Scale(float64(longest) * 1e-9)
	tones := classTones(a)
	p := newPlot("step", "time ("+name+")")
	sh := &shapes{}
	used := map[string]color.NRGBA{}
	var order []string
	marks := gplot.ConstantTicks{}
	every := (len(all) + 14) / 15
	for i, s := range all {
		bottom := 0.0
		for _, part := range stepParts(s, tones) {
			if _, ok := used[part.name]; !ok {
				used[part.name], order = part.fill, append(order, part.name)
			}
			top := bottom + float64(part.ns)*1e-9/unit
			sh.rects = append(sh.rects, rect{x0: float64(i) - 0.42, x1: float64(i) + 0.42, y0: bottom, y1: top, fill: part.fill})
			bottom = top
		}
		if i%every == 0 {
			label := fmt.Sprint(i)
			if _, n, ok := strings.Cut(s.Name, "#"); ok {
				label = view.Cut(n, 8)
			}
			marks = append(marks, gplot.Tick{Value: float64(i), Label: label})
		}
	}
	p.X.Tick.Marker = marks
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = -0.7, float64(len(all))-0.3, 0, float64(longest)*1e-9/unit*1.05
	p.Add(sh)
	for _, n := range order {
		f.legend = append(f.legend, entry{n, used[n]})
	}
	f.plots = []*gplot.Plot{p}
	if slices.ContainsFunc(all, func(s trace.StepTime) bool { return s.Dropped }) {
		f.remark("the first step is no part of the findings")
	}
	return f, nil
}

// classTones colours the classes with the most time.
func classTones(a *trace.Analysis) map[trace.Class]color.NRGBA {
	parts, _ := accountOf(a)
	out := map[trace.Class]color.NRGBA{}
	for _, c := range trace.Classes() {
		out[c] = grey
	}
	next := 0
	for _, p := range parts {
		c := trace.Class(strings.ReplaceAll(p.name, " ", "_"))
		if _, ok := out[c]; ok && next < len(palette) {
			out[c], next = palette[next], next+1
		}
	}
	return out
}

// stepParts are a step's classes and its idle time; what is left of the
// step's duration overlaps or belongs to no device and is not drawn.
func stepParts(s trace.StepTime, tones map[trace.Class]color.NRGBA) []part {
	var out []part
	rest := int64(0)
	for _, c := range trace.Classes() {
		switch ns := s.Classes[c]; {
		case ns <= 0:
		case tones[c] == grey:
			rest += ns
		default:
			out = append(out, part{strings.ReplaceAll(string(c), "_", " "), ns, tones[c]})
		}
	}
	out = append(out, part{"other work", rest, grey}, part{"idle, starved", s.StarvedNS, starvedTone}, part{"idle, queued or unknown", s.QueuedNS + s.UnknownNS, queuedTone})
	return slices.DeleteFunc(out, func(p part) bool { return p.ns <= 0 })
}

// classChanges draws what each class of work adds to the change of a step.
func classChanges(c *trace.Comparison) (*Figure, error) {
	f := &Figure{title: "before and after: what changed the step", tool: c.Tool.Version}
	if c.Old == nil || c.New == nil || !c.Comparable() {
		return f.without("one of the traces has no steps"), nil
	}
	f.title = traceName(c.Old) + " against " + traceName(c.New) + ": what changed the step"
	f.subtitle = fmt.Sprintf("mean step %s to %s · %s", view.Seconds(float64(c.StepOldNS)*1e-9), view.Seconds(float64(c.StepNewNS)*1e-9), deviceNames(c.New))
	total, restNS := float64(c.StepNewNS-c.StepOldNS)*1e-9, c.StepNewNS-c.StepOldNS
	longest := max(total, -total)
	var bars []bar
	for _, ch := range c.Classes {
		d := float64(ch.NewNS-ch.OldNS) * 1e-9
		if d == 0 || len(bars) == maxRows-2 {
			continue
		}
		restNS, longest = restNS-(ch.NewNS-ch.OldNS), max(longest, d, -d)
		bars = append(bars, bar{name: strings.ReplaceAll(ch.Name, "_", " "), change: d, text: signedSeconds(d)})
	}
	if rest := float64(restNS) * 1e-9; rest != 0 {
		longest = max(longest, rest, -rest)
		f.remark("the rest: smaller changes")
		bars = append(bars, bar{name: "the rest", rest: true, change: rest, text: signedSeconds(rest)})
	}
	if len(bars) == 0 {
		return f.without("nothing changed"), nil
	}
	bars = append(bars, bar{name: "step", change: total, total: true, text: signedSeconds(total) + fmt.Sprintf(", x%.3f", float64(c.StepNewNS)/float64(c.StepOldNS))})
	unit, name := view.Scale(longest)
	f.legend = []entry{{"slower", slowerTone}, {"faster", fasterTone}, {"the whole step", totalTone}}
	f.plots = []*gplot.Plot{waterfallOf(bars, "change of the mean step ("+name+"), each class from where the one above ends", unit)}
	return f, nil
}
