package html

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof/internal/trace"
	"github.com/gpuprof/gpuprof/report/internal/view"
)

// part is a share of a bar.
type part struct {
	name, class string
	ns          int64
}

// states are the parts of a device's idle time.
func states(p *trace.Parts) []part {
	var out []part
	for _, idle := range p.Idle() {
		class := "s-" + idle.Name
		if idle.Name == "outside" {
			class = "s-idle"
		}
		out = append(out, part{idle.Name, class, idle.NS})
	}
	return out
}

func classParts(classes map[trace.Class]int64, tones map[trace.Class]int) []part {
	order := trace.Classes()
	slices.SortStableFunc(order, func(a, b trace.Class) int { return cmp.Compare(classes[b], classes[a]) })
	var out []part
	var rest int64
	for _, c := range order {
		if tones[c] >= view.MaxTones {
			rest += classes[c]
			continue
		}
		out = append(out, part{string(c), toneClass(tones[c]), classes[c]})
	}
	return append(out, part{"other classes", "t-rest", rest})
}

// bar draws parts beside each other from x on, w wide for whole ns.
func (c *chart) bar(parts []part, whole int64, x, y, w, h float64) (words []string) {
	for _, p := range parts {
		if p.ns <= 0 || whole <= 0 {
			continue
		}
		pw := float64(p.ns) / float64(whole) * w
		text := p.name + " " + view.Percent(float64(p.ns)/float64(whole))
		c.Rects = append(c.Rects, rect{round(x), y, round(max(pw-0.5, 0.3)), h, p.class, text + ", " + ns(p.ns)})
		words = append(words, text)
		x += pw
	}
	return words
}

// accountChart is one bar: a device's mean step.
func accountChart(a *trace.Analysis, i int, tones map[trace.Class]int) *chart {
	d := a.Devices[i]
	whole := d.Step.Total()
	c := &chart{ID: fmt.Sprintf("account%d", i), Title: "Where " + deviceLabel(a, d) + "'s time went", W: chartWidth, H: 64}
	c.text(0, 14, "start", "label", fmt.Sprintf("%s: %s busy in %s %s", deviceLabel(a, d), nsShare(d.Step.BusyNS, whole), ns(whole), a.PerStep()))
	words := c.bar(append(classParts(d.Step.Classes, tones), states(&d.Step)...), whole, 0, 24, chartWidth, 34)
	c.Desc = strings.Join(words, ", ")
	return c
}

func deviceLabel(a *trace.Analysis, d trace.DeviceAccount) string {
	s := fmt.Sprintf("device %d", d.ID)
	if len(a.Inputs) > 1 {
		s = rankLabel(a, d.Input) + " " + s
	}
	if d.Name != "" {
		s += " (" + view.Cut(d.Name, 40) + ")"
	}
	return s
}

// classLegend is what the mean step is made of, in the colours of the bars.
func classLegend(a *trace.Analysis, tones map[trace.Class]int) []legendItem {
	var out []legendItem
	for _, p := range append(classParts(a.Step.Classes, tones), states(&a.Step.Parts)...) {
		if p.ns > 0 {
			out = append(out, legendItem{p.class, p.name, ns(p.ns) + ", " + nsShare(p.ns, a.Step.NS)})
		}
	}
	return out
}

// stepChart is a bar a step, of at most maxSteps evenly chosen ones.
func stepChart(a *trace.Analysis) (*chart, string, []legendItem) {
	const maxSteps, left, rowH, stepNotes = 40, 150.0, 18.0, 130.0
	if len(a.Steps) == 0 {
		return nil, "", nil
	}
	stride := (len(a.Steps) + maxSteps - 1) / maxSteps
	var longest int64
	shown := 0
	for i := 0; i < len(a.Steps); i += stride {
		longest = max(longest, a.Steps[i].DurNS)
		shown++
	}
	c := &chart{ID: "stepbars", Title: "Time of each step", W: chartWidth, H: float64(shown)*rowH + 8, Desc: "A bar a step, divided into busy, starved, queued, unknown and the rest."}
	y := 4.0
	for i := 0; i < len(a.Steps); i += stride {
		s := a.Steps[i]
		parts := stepParts(s)
		c.text(left-8, y+rowH-6, "end", "label", view.Cut(s.Name, 20))
		c.bar(parts, longest, left, y, chartWidth-left-stepNotes, rowH-3)
		note := ns(s.DurNS)
		if s.Dropped {
			note += ", left out"
		}
		c.text(left+float64(s.DurNS)/float64(max(longest, 1))*(chartWidth-left-stepNotes)+6, y+rowH-6, "start", "axis-text", note)
		y += rowH
	}
	note := "A step begins on the host, or when the device has done the work of the steps before, and lasts until the last operation launched in it has ended; the mean is " + ns(a.Step.NS) + "."
	if stride > 1 {
		note += fmt.Sprintf(" One step of every %d is drawn.", stride)
	}
	legend := []legendItem{{"t0", "busy", ""}, {"s-starved", "starved", ""}, {"s-queued", "queued", ""}, {"s-unknown", "unknown", ""}, {"s-idle", "before the first and after the last operation", ""}}
	if len(a.Devices) == 0 {
		legend = []legendItem{{"t4", "data loader", ""}, {"s-idle", "the rest of the step", ""}}
	}
	return c, note, legend
}

func stepParts(s trace.StepTime) []part {
	if s.BusyNS+s.StarvedNS+s.QueuedNS+s.UnknownNS == 0 {
		return []part{{"data loader", "t4", s.LoaderNS}, {"rest", "s-idle", s.DurNS - s.LoaderNS}}
	}
	p := trace.Parts{StarvedNS: s.StarvedNS, QueuedNS: s.QueuedNS, UnknownNS: s.UnknownNS}
	p.OutsideNS = max(s.DurNS-s.BusyNS-s.StarvedNS-s.QueuedNS-s.UnknownNS, 0)
	return append([]part{{"busy", "t0", s.BusyNS}}, states(&p)...)
}

// overviewChart is the whole trace at a glance, and what print and pages
// without scripts show: for each device, columns of busy classes above idle
// states.
func overviewChart(xs []*trace.Index, tones map[trace.Class]int) *chart {
	const columns, rowH, left = 200, 46.0, 0.0
	c := &chart{ID: "overview", Title: "The whole trace at a glance", W: chartWidth, Desc: "Columns of equal time from left to right; each shows how much of it the device was busy, by class, starved, queued or unknown."}
	y := 0.0
	var longest int64 = 1
	for _, x := range xs {
		longest = max(longest, x.Span.Len())
	}
	for i, x := range xs {
		for _, d := range x.Devices {
			label := fmt.Sprintf("device %d", x.T.Devices[d.Device].ID)
			if len(xs) > 1 {
				label = fmt.Sprintf("file %d, ", i+1) + label
			}
			c.text(left, y+12, "start", "axis-text", label)
			c.deviceColumns(x, d, tones, longest, y+18, rowH)
			y += rowH + 34
			if y > 600 {
				break
			}
		}
	}
	if y == 0 {
		return nil
	}
	c.text(chartWidth, y, "end", "axis-text", "time, "+ns(longest)+" in all")
	c.H = y + 10
	return c
}

func (c *chart) deviceColumns(x *trace.Index, d *trace.DeviceTime, tones map[trace.Class]int, longest int64, y, h float64) {
	const columns = 200
	w := float64(chartWidth) / columns
	for k := range int64(columns) {
		win := trace.Span{Start: x.Span.Start + longest*k/columns, End: x.Span.Start + longest*(k+1)/columns}
		idle := trace.Parts{StarvedNS: d.Starved.Within(win).Total(), QueuedNS: d.Queued.Within(win).Total(), UnknownNS: d.Unknown.Within(win).Total()}
		parts := append(classParts(d.ClassesIn(win), tones), states(&idle)...)
		at := y
		for _, p := range parts {
			if p.ns <= 0 {
				continue
			}
			ph := float64(p.ns) / float64(win.Len()) * h
			c.Rects = append(c.Rects, rect{round(float64(k) * w), round(at), round(w), round(max(ph, 0.3)), p.class, ""})
			at += ph
		}
	}
}
