package page

import (
	"fmt"
	"slices"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/trace/model"
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

// timelineOf is the timeline of all inputs; nil where they have nothing to draw.
func timelineOf(a *analyze.Analysis, xs []*analyze.Index) Block {
	if !slices.ContainsFunc(xs, func(x *analyze.Index) bool {
		return x.Span.Len() > 0 && (len(x.Steps) > 0 || len(x.Devices) > 0 || drawsHost(x))
	}) {
		return nil
	}
	return Timeline{Draw: func() (any, string) { return drawTimeline(a, xs) }}
}

// drawTimeline lays out every input's rows and thins them to what a page can hold.
func drawTimeline(a *analyze.Analysis, xs []*analyze.Index) (timelineData, string) {
	tones := view.ClassTones()
	var rows []boxRow
	var span int64
	for i, x := range xs {
		prefix := ""
		if len(xs) > 1 {
			prefix = inputName(a, i) + " "
		}
		rows = append(rows, rowsOf(x, claimsOf(a, i), prefix, tones)...)
		span = max(span, x.Span.Len())
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
	return d, note
}

// claimsOf are the findings of an input that say where the time is that they claim.
func claimsOf(a *analyze.Analysis, input int) []claimed {
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
	spans []model.Span
}

func toneNames(tones map[model.Class]int) (vars, ink, labels []string) {
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
