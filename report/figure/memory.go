package figure

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/memsnap"
	"github.com/gpuprof/gpuprof/report/internal/view"
)

// newMemoryFigure returns a figure about the device with the largest peak.
func newMemoryFigure(id, title, desc string, a *memsnap.Analysis) *Figure {
	f := &Figure{ID: id, Title: title, Desc: desc, Tool: a.Tool.Version}
	if len(a.Devices) > 0 {
		d := &a.Devices[0]
		f.Subject = "memory of " + view.CutPlace(a.Inputs[d.Input].Path, 60)
		f.Context = []string{fmt.Sprintf("device %d", d.ID), gpuprof.Plural(d.Events, "event")}
	}
	return f
}

// bytesAxis returns a linear axis of sizes in bytes, from 0 to the value most.
func bytesAxis(label string, most float64) Axis {
	unit, name := 1.0, "bytes"
	for _, u := range []struct {
		size float64
		name string
	}{{1 << 40, "TiB"}, {1 << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}} {
		if most >= u.size {
			unit, name = u.size, u.name
			break
		}
	}
	return Axis{Max: max(most, 1), Unit: unit, Label: label + " (" + name + ")"}
}

// MemoryOverTime draws live bytes by category, and reserved bytes, over the recorded events.
func MemoryOverTime(a *memsnap.Analysis) *Figure {
	f := newMemoryFigure("memory", "Memory over time", "The bytes of live tensors by category and the reserved bytes over the events of the recording.", a)
	if len(a.Devices) == 0 || len(a.Devices[0].Series.Event) == 0 {
		return f.setLacking("the snapshot has no events")
	}
	d := &a.Devices[0]
	s := &d.Series
	most := slices.Max(append(slices.Clone(s.Requested), s.Reserved...))
	p := Panel{Height: 260, X: Axis{Max: float64(max(d.Events, 1)), Label: "event of the allocator"}, Y: bytesAxis("bytes", 1.05*float64(most))}
	at := func(column int) float64 { return float64(column*d.Events) / float64(len(s.Event)) }
	floor := make([]float64, len(s.Event))
	tones := kindTones(d)
	for _, k := range s.Kinds {
		m := Mark{Kind: Boxes, Tone: tones[k.Category]}
		for c, bytes := range k.Bytes {
			top := floor[c] + float64(bytes)
			if bytes > 0 {
				m.Points = append(m.Points, [2]float64{at(c), floor[c]}, [2]float64{at(c + 1), top})
			}
			floor[c] = top
		}
		p.Marks = append(p.Marks, m)
		f.Legend = append(f.Legend, Entry{Text: k.Category, Tone: tones[k.Category]})
	}
	reserved := Mark{Kind: Line, Tone: Ink, Form: Outline}
	for c, bytes := range s.Reserved {
		reserved.Points = append(reserved.Points, [2]float64{at(c), float64(bytes)}, [2]float64{at(c + 1), float64(bytes)})
	}
	p.Marks = append(p.Marks, reserved, Mark{Kind: Dot, Small: true, X0: float64(max(d.Peak.Event, 0)), Y0: float64(d.Peak.Requested), Tone: Ink, Text: "peak " + gpuprof.FormatBytes(float64(d.Peak.Requested)), Place: Near,
		Tip: fmt.Sprintf("peak: %s of live tensors at event %d, %s reserved", gpuprof.FormatBytes(float64(d.Peak.Requested)), d.Peak.Event, gpuprof.FormatBytes(float64(d.Peak.Reserved)))})
	f.Legend = append(f.Legend, Entry{Text: "reserved", Tone: Ink, Form: Stroke})
	p.Marks = append(stepMarks(f, d), p.Marks...)
	for i, o := range d.OOMs {
		p.Marks = append(p.Marks, Mark{Kind: Rule, X0: float64(o.Event), Tone: Starved, Form: Dashed})
		if i == 0 {
			f.Legend = append(f.Legend, Entry{Text: "out of memory", Tone: Starved, Form: Dashed})
			if limit := o.Reserved + o.DeviceFree; float64(limit) < 2*float64(most) {
				p.Y.Max = max(p.Y.Max, 1.05*float64(limit))
				p.Marks = append(p.Marks, Mark{Kind: Rule, Across: true, Y0: float64(limit), Tone: Ink, Form: Dashed})
				f.Legend = append(f.Legend, Entry{Text: "limit " + gpuprof.FormatBytes(float64(limit)), Tone: Ink, Form: Dashed})
			}
		}
	}
	f.Panels = []Panel{p}
	return f
}

// mostStepMarks limits the marked step ends: more lines would hide the memory.
const mostStepMarks = 60

func stepMarks(f *Figure, d *memsnap.Device) (out []Mark) {
	if len(d.Steps) > mostStepMarks {
		return nil
	}
	for i, s := range d.Steps {
		if s.Last > 0 && s.Last < d.Events {
			out = append(out, Mark{Kind: Rule, X0: float64(s.Last), Tone: Soft, Form: Dashed, Tip: fmt.Sprintf("end of step %d: %s of live tensors", i+1, gpuprof.FormatBytes(float64(s.End)))})
		}
	}
	if len(out) > 0 {
		f.Legend = append(f.Legend, Entry{Text: "end of a step", Tone: Soft, Form: Dashed})
	}
	return out
}

// mostMemorySites limits the code lines in a chart.
const mostMemorySites = 16

// MemorySites draws the bytes that each code line of the program holds at the peak.
func MemorySites(a *memsnap.Analysis) *Figure {
	f := newMemoryFigure("sites", "Memory at the peak by line", "For each line of the program the bytes that its tensors hold at the peak, by category.", a)
	if len(a.Devices) == 0 {
		return f.setLacking("nothing was live at the peak")
	}
	d := &a.Devices[0]
	m := &d.Peak
	if d.At != nil {
		m = &d.At.Moment
		f.Title = "Memory by line at " + view.Cut(d.At.Name, 60)
	}
	if len(m.Sites) == 0 {
		return f.setLacking("nothing was live at the peak")
	}
	tones := kindTones(d)
	var names []string
	p := Panel{}
	most := 0.0
	shown := m.Sites[:min(len(m.Sites), mostMemorySites)]
	for i, s := range shown {
		names = append(names, view.CutPlace(s.Where, 44))
		tone := cmp.Or(tones[s.Category], Rest)
		text := gpuprof.FormatBytes(float64(s.Bytes))
		p.Marks = append(p.Marks, Mark{Kind: Bar, X1: float64(s.Bytes), Y0: float64(i) + 0.15, Y1: float64(i) + 0.85, Tone: tone, Text: text, Place: After,
			Tip: fmt.Sprintf("%s: %s in %s, %s", view.CutPlace(s.Where, 100), text, gpuprof.Plural(s.Blocks, "block"), s.Category)})
		most = max(most, float64(s.Bytes))
		f.addEntry(Entry{Text: s.Category, Tone: tone})
	}
	p.Y = rowAxis(names)
	p.X = bytesAxis("bytes at the peak", most)
	p.Height = 22 * float64(len(names))
	f.Panels = []Panel{p}
	if more := len(m.Sites) + m.MoreSites - len(shown); more > 0 {
		f.addNote(fmt.Sprintf("not drawn: %s", gpuprof.Plural(more, "other line")))
	}
	return f
}
