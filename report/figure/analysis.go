package figure

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/trace/model"
	"github.com/gpuprof/gpuprof/report/internal/view"
)

// newAnalysisFigure returns a figure with the names of traces and devices. It has no date, because traces have none.
func newAnalysisFigure(id, title, desc string, a *analyze.Analysis) *Figure {
	return &Figure{ID: id, Title: title, Desc: desc, Subject: traceName(a), Tool: a.Tool.Version, Context: []string{deviceNames(a), "steps by " + view.Cut(a.StepSource, 40)}}
}

func traceName(a *analyze.Analysis) string {
	if len(a.Inputs) == 0 {
		return "a trace"
	}
	name := view.Cut(filepath.Base(a.Inputs[0].Path), 60)
	if n := len(a.Inputs) - 1; n > 0 {
		name += " and " + gpuprof.Plural(n, "more trace")
	}
	return name
}

func deviceNames(a *analyze.Analysis) string {
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

// part is a named part of a device's time, in ns.
type part struct {
	name string
	tone Tone
	ns   int64
}

func (p part) durationSeconds() float64 { return gpuprof.Seconds(p.ns) }

// formatShare formats a part with its share of the time whole, in ns: "1.50 ms, 48.0 %".
func (p part) formatShare(whole int64) string {
	return gpuprof.FormatNS(p.ns) + ", " + view.Percent(float64(p.ns)/float64(whole))
}

// splitParts divides a device's time into classes of operations, longest first, then idle states. Classes without a
// colour of their own are joined to one part; tones has the number of each class's colour.
func splitParts(classes map[model.Class]int64, idle []analyze.Part, tones map[model.Class]int) []part {
	order := model.Classes()
	slices.SortStableFunc(order, func(a, b model.Class) int { return cmp.Compare(classes[b], classes[a]) })
	var out []part
	rest := part{"other classes", Rest, 0}
	for _, c := range order {
		if tone := toneOf(tones[c]); tone == Rest {
			rest.ns += classes[c]
		} else {
			out = append(out, part{string(c), tone, classes[c]})
		}
	}
	out = append(out, rest)
	for _, p := range idle {
		out = append(out, part{p.Name, partTone(p.Name), p.NS})
	}
	return slices.DeleteFunc(out, func(p part) bool { return p.ns <= 0 })
}

// Accounts draws how the mean step divides into classes of operations and idle states, the longest first. Below them is
// a divided bar per device.
func Accounts(a *analyze.Analysis) *Figure {
	f := newAnalysisFigure("stages", "Device time", "A bar for each part of the mean step, the longest first; below it one divided bar for each device.", a)
	whole := a.Step.NS
	tones := view.ClassTones()
	parts := splitParts(a.Step.Classes, a.Step.Idle(), tones)
	if whole <= 0 || len(parts) == 0 || len(a.Devices) == 0 {
		return f.setLacking("no device time is in the trace")
	}
	slices.SortStableFunc(parts, func(x, y part) int { return cmp.Compare(y.ns, x.ns) })
	p := Panel{Height: 24 * float64(len(parts)), X: secondsAxis("time", parts[0].durationSeconds())}
	p.X.Label += " of the mean step of " + gpuprof.FormatNS(whole)
	if a.Step.Count == 0 {
		p.X.Label = strings.Replace(p.X.Label, "mean step", "recording window", 1)
	}
	if len(a.Devices) > 1 {
		p.X.Label += fmt.Sprintf(", mean of %d devices", len(a.Devices))
	}
	var names []string
	for i, part := range parts {
		names = append(names, strings.ReplaceAll(part.name, "_", " "))
		p.Marks = append(p.Marks, Mark{Kind: Bar, X1: part.durationSeconds(), Y0: float64(i) + 0.12, Y1: float64(i) + 0.88, Tone: part.tone, Place: After,
			Text: part.formatShare(whole), Tip: names[i] + ": " + part.formatShare(whole)})
	}
	p.Y = rowAxis(names)
	f.Panels = []Panel{p, devicePanel(a, tones)}
	if len(a.Findings) > 0 && a.Findings[0].ClaimNS > 0 {
		f.addRemark("first finding: " + view.Cut(a.Findings[0].Title, 160))
	}
	return f
}

// devicePanel draws a divided bar per device.
func devicePanel(a *analyze.Analysis, tones map[model.Class]int) Panel {
	p := Panel{Height: 34 * float64(len(a.Devices)), X: Axis{Max: 1, Bare: true}}
	var names []string
	for i := range a.Devices {
		d := &a.Devices[i]
		whole := d.Step.Total()
		names = append(names, deviceLabel(a, d))
		p.RowNotes = append(p.RowNotes, "busy "+formatRatio(d.Step.BusyNS, whole)+" of "+gpuprof.FormatNS(whole))
		at := 0.0
		for _, part := range splitParts(d.Step.Classes, d.Step.Idle(), tones) {
			if whole <= 0 {
				break
			}
			wide := float64(part.ns) / float64(whole)
			p.Marks = append(p.Marks, Mark{Kind: Bar, X0: at, X1: at + wide, Y0: float64(i) + 0.1, Y1: float64(i) + 0.9, Tone: part.tone, Text: part.name + " " + view.Percent(wide), Brief: part.name,
				Tip: names[i] + ", " + part.name + ": " + part.formatShare(whole)})
			at += wide
		}
	}
	p.Y = rowAxis(names)
	return p
}

func formatRatio(part, whole int64) string {
	if whole <= 0 || part == 0 {
		return view.None
	}
	return view.Percent(float64(part) / float64(whole))
}

func deviceLabel(a *analyze.Analysis, d *analyze.DeviceAccount) string {
	s := fmt.Sprintf("device %d", d.ID)
	if len(a.Inputs) > 1 {
		s = inputLabel(a, d.Input) + " " + s
	}
	if d.Name != "" {
		s += " (" + view.Cut(d.Name, 40) + ")"
	}
	return s
}

// inputLabel returns an input's rank, or else its file.
func inputLabel(a *analyze.Analysis, input int) string {
	if input < len(a.Inputs) && a.Inputs[input].Rank >= 0 {
		return fmt.Sprintf("rank %d", a.Inputs[input].Rank)
	}
	if input < len(a.Inputs) {
		return view.Cut(filepath.Base(a.Inputs[input].Path), 16)
	}
	return fmt.Sprintf("file %d", input+1)
}

const maxSteps = 120

// Steps draws a column per step, divided by what the device did.
func Steps(a *analyze.Analysis) *Figure {
	f := newAnalysisFigure("timeline", "Time of each step", "A column for each step, divided by class, starved, queued, unknown and the rest.", a)
	var all []analyze.StepTime
	for _, s := range a.Steps {
		if s.DurNS > 0 {
			all = append(all, s)
		}
	}
	if len(all) == 0 {
		return f.setLacking("no step is in the trace")
	}
	stride := (len(all) + maxSteps - 1) / maxSteps
	if stride > 1 {
		f.addNote(fmt.Sprintf("one step of every %d is drawn", stride))
	}
	tones := view.ClassTones()
	longest, n := int64(0), 0
	for i := 0; i < len(all); i += stride {
		longest, n = max(longest, all[i].DurNS), n+1
	}
	p := Panel{Height: 260, Y: secondsAxis("step time", gpuprof.Seconds(longest)*1.05), X: Axis{Min: -0.7, Max: float64(n) - 0.3, Label: "step"}}
	for k := range n {
		s := &all[k*stride]
		bottom := 0.0
		for _, part := range stepParts(s, tones) {
			top := min(bottom+part.durationSeconds(), p.Y.Max)
			p.Marks = append(p.Marks, Mark{Kind: Bar, X0: float64(k) - 0.42, X1: float64(k) + 0.42, Y0: bottom, Y1: top, Tone: part.tone,
				Tip: view.Cut(s.Name, 40) + " of " + gpuprof.FormatNS(s.DurNS) + ", " + part.name + ": " + part.formatShare(s.DurNS)})
			bottom = top
			f.addEntry(Entry{Text: strings.ReplaceAll(part.name, "_", " "), Tone: part.tone})
		}
		p.X.Ticks = append(p.X.Ticks, Tick{float64(k), stepLabel(s, k*stride)})
	}
	f.Panels = []Panel{p}
	if a.Step.Count > 0 {
		f.addRemark(fmt.Sprintf("mean %s, %s to %s", gpuprof.FormatNS(a.Step.NS), gpuprof.FormatNS(a.Step.MinNS), gpuprof.FormatNS(a.Step.MaxNS)))
	}
	if slices.ContainsFunc(all, func(s analyze.StepTime) bool { return s.Dropped }) {
		f.addNote("the first step is no part of the findings")
	}
	return f
}

func stepLabel(s *analyze.StepTime, i int) string {
	if _, n, ok := strings.Cut(s.Name, "#"); ok {
		return view.Cut(n, 8)
	}
	return fmt.Sprint(i)
}

// stepParts divides a step as splitParts does. A step without device time is divided into the time in the data loader
// and the remainder.
func stepParts(s *analyze.StepTime, tones map[model.Class]int) []part {
	var out []part
	if s.BusyNS+s.StarvedNS+s.QueuedNS+s.UnknownNS == 0 {
		out = []part{{"data loader", "t4", s.LoaderNS}, {"the rest of the step", Faint, s.DurNS - s.LoaderNS}}
	} else {
		idle := analyze.Parts{StarvedNS: s.StarvedNS, QueuedNS: s.QueuedNS, UnknownNS: s.UnknownNS}
		idle.OutsideNS = max(s.DurNS-s.BusyNS-s.StarvedNS-s.QueuedNS-s.UnknownNS, 0)
		out = splitParts(s.Classes, idle.Idle(), tones)
	}
	return slices.DeleteFunc(out, func(p part) bool { return p.ns <= 0 })
}

const (
	overviewColumns = 200
	maxDevices      = 8
)

// Traces is an analysis with the indexes of its traces, nil if the traces were not loaded. Name labels one of two
// analyses.
type Traces struct {
	Name string
	Of   *analyze.Analysis
	Xs   []*analyze.Index
}

// Overview draws the whole trace: for each device columns of equal time, divided by activity. Several traces share one
// time axis, each from its own start.
func Overview(all ...Traces) *Figure {
	f := newAnalysisFigure("overview", "The whole trace at a glance", "Columns of equal time from left to right; each shows how much of it the device was busy, by class, starved, queued or unknown.", all[0].Of)
	if len(all) > 1 {
		f.Subject += " against " + traceName(all[1].Of)
	}
	var longest int64
	for _, side := range all {
		for _, x := range side.Xs {
			longest = max(longest, x.Span.Len())
		}
	}
	tones := view.ClassTones()
	devices := 0
	for _, side := range all {
		for i, x := range side.Xs {
			for _, d := range x.Devices {
				if devices++; devices > maxDevices || longest <= 0 {
					continue
				}
				p := overviewPanel(f, x, d, longest, tones)
				p.Title = fmt.Sprintf("device %d", x.T.Devices[d.Device].ID)
				if len(side.Xs) > 1 {
					p.Title = inputLabel(side.Of, i) + " " + p.Title
				}
				if side.Name != "" {
					p.Title = side.Name + ", " + p.Title
				}
				f.Panels = append(f.Panels, p)
			}
		}
	}
	if f.Empty() {
		return f.setLacking("it shows the trace itself, which is not in the file: gpuprof analyze TRACE --plot overview -o overview.png")
	}
	last := &f.Panels[len(f.Panels)-1].X
	last.Bare, last.Label = false, last.Label+", "+gpuprof.FormatNS(longest)+" in all"
	if devices > maxDevices {
		f.addNote(fmt.Sprintf("the first %d of %d devices", maxDevices, devices))
	}
	return f
}

// BothOverviews draws the traces before and after a change on one time axis.
func BothOverviews(c *analyze.Comparison, old, now []*analyze.Index) *Figure {
	return Overview(Traces{"before", c.Old, old}, Traces{"after", c.New, now})
}

// overviewPanel draws a device's time in columns. Each class or idle state is one mark with a box per column. longest
// is the length of the time axis in ns.
func overviewPanel(f *Figure, x *analyze.Index, d *analyze.DeviceTime, longest int64, tones map[model.Class]int) Panel {
	p := Panel{Height: 46, Y: Axis{Max: 1, Bare: true}, X: secondsAxis("time", gpuprof.Seconds(longest))}
	p.X.Bare = true
	boxes := map[string]*Mark{}
	var order []string
	for k := range int64(overviewColumns) {
		win := model.Span{Start: x.Span.Start + longest*k/overviewColumns, End: x.Span.Start + longest*(k+1)/overviewColumns}
		idle := analyze.Parts{StarvedNS: d.Starved.Within(win).Total(), QueuedNS: d.Queued.Within(win).Total(), UnknownNS: d.Unknown.Within(win).Total()}
		at := 1.0
		x0, x1 := gpuprof.Seconds(longest*k/overviewColumns), gpuprof.Seconds(longest*(k+1)/overviewColumns)
		for _, part := range splitParts(d.ClassesIn(win), idle.Idle(), tones) {
			m := boxes[part.name]
			if m == nil {
				m = &Mark{Kind: Boxes, Tone: part.tone}
				boxes[part.name], order = m, append(order, part.name)
			}
			high := float64(part.ns) / float64(max(win.Len(), 1))
			m.Points = append(m.Points, [2]float64{x0, at}, [2]float64{x1, at - high})
			at -= high
		}
	}
	for _, name := range order {
		p.Marks = append(p.Marks, *boxes[name])
		f.addEntry(Entry{Text: strings.ReplaceAll(name, "_", " "), Tone: boxes[name].Tone})
	}
	return p
}

// ClassChanges draws a waterfall from the old mean step to the new one: a bar for each class of work or idle state.
func ClassChanges(c *analyze.Comparison) *Figure {
	f := &Figure{ID: "waterfall", Title: "Change of the step", Desc: "A bar for each class of work: how much it made the step longer or shorter.", Tool: c.Tool.Version}
	if c.Old == nil || c.New == nil || !c.Comparable() {
		return f.setLacking("one of the traces has no steps")
	}
	f.Subject, f.Context = traceName(c.Old)+" against "+traceName(c.New), []string{c.Headline(), deviceNames(c.New)}
	rest := c.StepNewNS - c.StepOldNS
	var bars []fall
	for _, ch := range c.Classes {
		if d := ch.NewNS - ch.OldNS; d != 0 && len(bars) < maxRows-3 {
			rest -= d
			bars = append(bars, fall{strings.ReplaceAll(ch.Name, "_", " "), gpuprof.Seconds(d), ""})
		}
	}
	if len(bars) == 0 {
		return f.setLacking("nothing changed")
	}
	f.addFalls("mean step time", gpuprof.Seconds(c.StepOldNS), gpuprof.Seconds(c.StepNewNS), bars, gpuprof.Seconds(rest))
	return f
}
