package page

import (
	"fmt"
	"slices"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/trace"
	"github.com/gpuprof/gpuprof/report/internal/view"
)

// A page stays light with maxBoxes boxes over all rows. Beyond that the
// shortest neighbours of a row are merged: a million kernels become the
// boxes that a screen could show, and what zooming in can still tell apart
// is said below the picture.
const (
	maxBoxes = 30_000
	maxRows  = 40
)

// timelineData is what timeline.js draws. Boxes are five numbers each: start
// (as the difference to the one before) and length in ns, tone, name, how
// many operations it stands for.
type timelineData struct {
	Span   int64         `json:"span"`
	Names  []string      `json:"names"`
	Tones  []string      `json:"tones"` // CSS variables
	Ink    []string      `json:"ink"`
	Labels []string      `json:"labels"`
	Rows   []timelineRow `json:"rows"`
}

type timelineRow struct {
	Name  string  `json:"name"`
	Boxes []int64 `json:"boxes"`
}

// box is an operation, or several beside each other.
type box struct {
	from, to int64
	tone     int
	name     string
	count    int
	longest  int64 // of one of them
}

type boxRow struct {
	name  string
	boxes []box
}

// states of an idle device, after the tones of classes.
const (
	toneRest = iota + view.MaxTones
	toneStarved
	toneQueued
	toneUnknown
	toneStep
	toneHost
	toneWait
	toneCount
)

// timelineOf lays out every input's rows and thins them to what a page can hold; nil
// without any.
func timelineOf(a *trace.Analysis, xs []*trace.Index) Block {
	tones := view.ClassTones()
	var rows []boxRow
	var span int64
	for i, x := range xs {
		origin := x.Span.Start
		prefix := ""
		if len(xs) > 1 {
			prefix = inputName(a, i) + " "
		}
		rows = append(rows, rowsOf(x, claimsOf(a, i), prefix, origin, tones)...)
		span = max(span, x.Span.Len())
	}
	if len(rows) == 0 || span <= 0 {
		return nil
	}
	rows = rows[:min(len(rows), maxRows)]
	note := "Every operation is in the timeline."
	if resolution := thin(rows); resolution > 0 {
		note = fmt.Sprintf("Neighbours that together last less than %s are drawn as one; the tables hold every operation.", gpuprof.FormatNS(resolution))
	}
	d := timelineData{Span: span, Names: []string{}}
	d.Tones, d.Ink, d.Labels = toneNames(tones)
	ids := map[string]int64{}
	for _, r := range rows {
		row := timelineRow{Name: view.Cut(r.name, 40), Boxes: []int64{}}
		last := int64(0)
		for _, b := range r.boxes {
			id, ok := ids[b.name]
			if !ok {
				id = int64(len(d.Names))
				ids[b.name] = id
				d.Names = append(d.Names, view.Cut(b.name, 90))
			}
			row.Boxes = append(row.Boxes, b.from-last, b.to-b.from, int64(b.tone), id, int64(b.count))
			last = b.from
		}
		d.Rows = append(d.Rows, row)
	}
	return Timeline{Data: d, Note: note}
}

// claimsOf are the findings of an input that say where the time is that they claim.
func claimsOf(a *trace.Analysis, input int) []claimed {
	var out []claimed
	for i, spans := range a.Claimed {
		if f := &a.Findings[i]; f.Input == input && len(spans) > 0 {
			out = append(out, claimed{f.Rule, spans})
		}
	}
	return out
}

// claimed is where the time is that a rule's finding claims.
type claimed struct {
	rule  string
	spans []trace.Span
}

func toneNames(tones map[trace.Class]int) (vars, ink, labels []string) {
	vars, ink, labels = make([]string, toneCount), make([]string, toneCount), make([]string, toneCount)
	for i := range view.MaxTones {
		vars[i], ink[i] = fmt.Sprintf("t%d", i), fmt.Sprintf("o%d", i)
	}
	for class, tone := range tones {
		if tone < view.MaxTones {
			labels[tone] = string(class)
		}
	}
	for tone, v := range map[int][3]string{toneRest: {"rest", "orest", "other classes"}, toneStarved: {"bad", "bg", "starved"}, toneQueued: {"warn", "bg", "queued"},
		toneUnknown: {"soft", "bg", "launch unknown"}, toneStep: {"line", "fg", "step"}, toneHost: {"host", "fg", "host"}, toneWait: {"wait", "bg", "host waits"}} {
		vars[tone], ink[tone], labels[tone] = v[0], v[1], v[2]
	}
	return vars, ink, labels
}

// rowsOf are the rows of one input: steps, the host's ranges and calls, then
// for each device its idle states and its streams, then what findings claim.
func rowsOf(x *trace.Index, claims []claimed, prefix string, origin int64, tones map[trace.Class]int) []boxRow {
	var out []boxRow
	add := func(name string, boxes []box) {
		if len(boxes) > 0 {
			out = append(out, boxRow{prefix + name, boxes})
		}
	}
	var steps []box
	for _, s := range x.Steps {
		steps = append(steps, box{from: s.Host.Start - origin, to: s.Host.End - origin, tone: toneStep, name: s.Name, count: 1})
	}
	add("steps", steps)
	ranges, calls := hostRows(x, origin)
	add("host", ranges)
	add("host calls", calls)
	for _, d := range x.Devices {
		device := fmt.Sprintf("device %d", x.T.Devices[d.Device].ID)
		add(device+" idle", idleRow(d, origin))
		for _, s := range streamRows(x, d, origin, tones) {
			add(device+" "+s.name, s.boxes)
		}
	}
	for _, f := range claims {
		var boxes []box
		for _, s := range f.spans {
			boxes = append(boxes, box{from: s.Start - origin, to: s.End - origin, tone: toneStarved, name: f.rule, count: 1})
		}
		add(f.rule, boxes)
	}
	return out
}

// hostRows are the outermost operators and ranges of the main thread below
// the step, and its calls of the driver.
func hostRows(x *trace.Index, origin int64) (ranges, calls []box) {
	for i := range x.T.Host {
		h := &x.T.Host[i]
		if h.Lane != x.Main || h.End <= h.Start {
			continue
		}
		b := box{from: h.Start - origin, to: h.End - origin, name: x.T.Name(h.Name), count: 1, tone: toneHost}
		switch h.Kind {
		case trace.API:
			if x.Call(int32(i)) == trace.CallSync {
				b.tone = toneWait
			}
			calls = append(calls, b)
		case trace.Op, trace.Annotation:
			inner := x.Up(int32(i), func(o *trace.Host) bool { return o.Kind == trace.Op || o.Kind == trace.Annotation })
			if inner < 0 {
				ranges = append(ranges, b)
			}
		}
	}
	return disjoint(ranges), disjoint(calls)
}

// disjoint keeps the boxes that begin after the one before has ended: calls
// nest only in damaged traces, and a row holds one thing at a time.
func disjoint(v []box) []box {
	slices.SortStableFunc(v, func(a, b box) int { return int(min(max(a.from-b.from, -1), 1)) })
	out := v[:0]
	for _, b := range v {
		if n := len(out); n > 0 {
			b.from = max(b.from, out[n-1].to)
		}
		if b.to > b.from {
			out = append(out, b)
		}
	}
	return out
}

func idleRow(d *trace.DeviceTime, origin int64) []box {
	var out []box
	for _, s := range []struct {
		spans trace.Spans
		tone  int
		name  string
	}{{d.Starved, toneStarved, "starved"}, {d.Queued, toneQueued, "queued"}, {d.Unknown, toneUnknown, "unknown"}} {
		for _, v := range s.spans {
			out = append(out, box{from: v.Start - origin, to: v.End - origin, tone: s.tone, name: s.name, count: 1})
		}
	}
	return disjoint(out)
}

func streamRows(x *trace.Index, d *trace.DeviceTime, origin int64, tones map[trace.Class]int) []boxRow {
	byStream := map[int64][]box{}
	var order []int64
	for _, g := range d.Ops {
		e := &x.T.GPU[g]
		if _, seen := byStream[e.Stream]; !seen {
			order = append(order, e.Stream)
		}
		tone, ok := tones[x.Class(g)]
		if !ok || tone >= view.MaxTones {
			tone = toneRest
		}
		byStream[e.Stream] = append(byStream[e.Stream], box{from: e.Start - origin, to: e.End - origin, tone: tone, name: x.T.Name(e.Name), count: 1})
	}
	slices.Sort(order)
	var out []boxRow
	for _, s := range order {
		out = append(out, boxRow{fmt.Sprintf("stream %d", s), disjoint(byStream[s])})
	}
	return out
}

// thin merges neighbours until all rows together hold at most maxBoxes.
func thin(rows []boxRow) (resolution int64) {
	for res := int64(0); ; res = max(res*2, 500) {
		total := 0
		for i := range rows {
			if res > 0 {
				rows[i].boxes = merge(rows[i].boxes, res)
			}
			total += len(rows[i].boxes)
		}
		if total <= maxBoxes {
			return res
		}
	}
}

// merge joins neighbours shorter than res that lie within res of each other.
// A joined box has the tone and name of the longest operation in it.
func merge(v []box, res int64) []box {
	out := v[:0]
	for _, b := range v {
		if b.longest == 0 {
			b.longest = b.to - b.from
		}
		if n := len(out); n > 0 {
			l := &out[n-1]
			if b.to-l.from < res && b.from-l.to < res {
				if b.longest > l.longest {
					l.longest, l.tone, l.name = b.longest, b.tone, b.name
				}
				l.to, l.count = max(l.to, b.to), l.count+b.count
				continue
			}
		}
		out = append(out, b)
	}
	return out
}
