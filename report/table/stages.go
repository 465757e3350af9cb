package table

import (
	"fmt"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/report/internal/view"
)

// wideAt is the width from which intervals are printed with both ends.
const wideAt = 110

// Bins of a stage's sparkline.
const (
	fewBins  = 6
	manyBins = 12
)

// stageColumns answers first where the step's time goes, then how well each
// stage uses the device. Rates go first when there is little room.
func stageColumns(r *gpuprof.Run, wide bool) []column {
	cols := []column{
		{title: "stage", left: true}, {title: "exposed"}, {title: "share"}, {title: "device", drop: 1}, {title: "+/-", drop: 2},
		{title: "host", drop: 5}, {title: "GB/s", drop: 6}, {title: "GF/s", drop: 7}, {title: "bound", drop: 4}, {title: "spread", drop: 3, left: true},
	}
	bins := fewBins
	if wide {
		cols[4].title, bins = "95 % interval", manyBins
		cols = append(cols, column{title: "p05 to p95", drop: 8})
	}
	for _, s := range view.Stages(r) {
		if s.Name == view.Gap {
			continue // printed below the table, with what it means
		}
		within := view.HalfWidth(s.Device)
		if wide {
			within = view.SeriesInterval(s.Device)
		}
		row := []string{view.LeftToRight(short(view.Cut(s.Name, 24), 24)), view.Cell(s.Exposed), view.ShareCell(s), view.Cell(s.Device), within,
			view.Cell(s.Host), view.Rate(s.BytesPerS), view.Rate(s.FlopsPerS), view.FloorText(s), view.Spark(s.Typical(), bins), view.Range(s.Typical())}
		for i := range cols {
			cols[i].cells = append(cols[i].cells, row[i])
		}
	}
	return cols
}

// legend says what the stage table's columns are that do not say so
// themselves, and which found no room.
func (p *printer) legend(r *gpuprof.Run, cols []column) {
	shown, left := map[string]bool{}, []string{}
	for _, c := range fit(cols, p.o.width()) {
		shown[c.title] = true
	}
	need := -2
	for _, c := range cols {
		if c.empty() && c.title != "stage" {
			continue
		}
		need += c.width() + 2
		if !shown[c.title] {
			left = append(left, c.title)
		}
	}
	var notes []string
	if shown["spread"] {
		notes = append(notes, "spread: samples of the device's time (else the host's), 2nd to 98th percentile")
	}
	if shown["bound"] {
		notes = append(notes, "bound: the stage's roofline bound over its device time")
	}
	notes = append(notes, view.NoBounds(view.Stages(r))...)
	if len(left) > 0 {
		notes = append(notes, fmt.Sprintf("no room for %s: all of it needs %d columns", strings.Join(left, ", "), need))
	}
	for _, n := range notes {
		p.wrap("", n)
	}
}
