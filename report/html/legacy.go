package html

import (
	"bytes"
	"fmt"
	"html/template"
	"strconv"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/report/internal/view"
	"github.com/gpuprof/gpuprof/report/page"
)

// number prints a coordinate: a tenth of a pixel is enough.
func number(v float64) string { return strconv.FormatFloat(v, 'f', -1, 32) }

type legendItem struct {
	Class, Text, Value string
}

// labelled is a label and its text.
type labelled struct{ Label, Value string }

// drawn is a chart's markup and what it leaves out, "" where there is nothing to draw.
func drawn(c page.Chart) (markup template.HTML, note string, err error) {
	if len(c.Of) == 0 {
		return "", "", nil
	}
	var ch *chart
	var legend []legendItem
	kind := c.ID[strings.LastIndexByte(c.ID, '-')+1:]
	switch of := c.Of[0].(type) {
	case *gpuprof.Run:
		ch, note, legend = chartOfRun(kind, of, c.Of)
	case []*gpuprof.Run:
		ch, legend = chartOfSweep(kind, of)
	}
	if ch == nil {
		return "", "", nil
	}
	ch.ID = c.ID
	var b bytes.Buffer
	if len(legend) > 0 && kind != "stack" {
		err = templates.ExecuteTemplate(&b, "legend", legend)
	}
	if err == nil {
		err = templates.ExecuteTemplate(&b, "chart", ch)
	}
	if err == nil && kind == "stack" {
		err = templates.ExecuteTemplate(&b, "legend", legend)
	}
	return template.HTML(b.String()), note, err
}

func chartOfRun(kind string, r *gpuprof.Run, of []any) (ch *chart, note string, legend []legendItem) {
	tones := view.Tones(r)
	switch kind {
	case "stack":
		stages := view.Stages(r)
		for _, s := range stages {
			if s.Share >= 0.0005 {
				legend = append(legend, legendItem{toneClass(tones[s.Name]), view.Cut(s.Name, 40), view.Percent(s.Share)})
			}
		}
		return stackChart("", stages, tones), "", legend
	case "spread":
		spreads := view.Spreads(r, of[1].(int))
		if len(spreads) == 0 {
			return nil, "", nil
		}
		return spreadChart("", spreads), drawnOf(spreads) + " What lies beyond a row's range is drawn at its edge and counted.", processLegend(len(spreads[0].Process))
	case "timeline":
		lanes, from, to, left := view.Timeline(r, 1500)
		if len(lanes) == 0 {
			return nil, "", nil
		}
		if left > 0 {
			note = fmt.Sprintf("The %d shortest spans are left out.", left)
		}
		return timelineChart("", lanes, from, to, tones), note, nil
	case "roof":
		roof := view.Roofline(r)
		if len(roof.Points) == 0 {
			return nil, "", nil
		}
		note = "The peak rates of this device were not measured."
		if roof.FlopsPerS > 0 {
			note = "Peak rates measured on this device: " + roof.Peaks() + "."
		}
		return roofChart("", r, roof, tones), note, nil
	}
	return telemetryChart("", r)
}

// processLegend names the rows of ticks; with more processes than colours the
// order is what tells them apart.
func processLegend(n int) []legendItem {
	if n > 3 {
		return []legendItem{{processClass(0), "processes 1 to " + strconv.Itoa(n) + " from top to bottom", ""}}
	}
	var out []legendItem
	for i := range n {
		out = append(out, legendItem{processClass(i), "process " + strconv.Itoa(i+1), ""})
	}
	return out
}

// drawnOf says how many of a chart's samples are shown.
func drawnOf(spreads []view.Spread) string {
	kept, total := 0, 0
	for _, s := range spreads {
		kept, total = kept+s.Kept, total+s.Total
	}
	if kept == total {
		return fmt.Sprintf("All %d samples are drawn.", total)
	}
	return fmt.Sprintf("%d of %d samples are drawn, evenly spaced in time, with the extremes.", kept, total)
}

func chartOfSweep(kind string, runs []*gpuprof.Run) (*chart, []legendItem) {
	knob, numeric, curves, ok := view.Scaling(runs)
	if !ok {
		return nil, nil
	}
	knob = view.Cut(knob, 40)
	if kind == "rate" {
		u := view.RateUnit(runs)
		if u == "" {
			return nil, nil
		}
		return curveChart("", "Throughput over "+knob, knob, "throughput, "+u, numeric, curves, func(p view.CurvePoint) *gpuprof.Series { return p.Rate }, 1), nil
	}
	var legend []legendItem
	longest := 0.0
	for i, c := range curves {
		if c.Label != "" {
			legend = append(legend, legendItem{toneClass(i), c.Label, ""})
		}
		for _, p := range c.Points {
			longest = max(longest, p.Step.Median)
		}
	}
	unit, name := view.Scale(longest)
	return curveChart("", "Step time over "+knob, knob, "step, "+name, numeric, curves, func(p view.CurvePoint) *gpuprof.Series { return p.Step }, unit), legend
}
