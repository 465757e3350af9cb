package page

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/fleet"
	"github.com/gpuprof/gpuprof/report/internal/view"
)

// fleetDevices compares each device of a machine when all run together with the device running alone. The section is
// empty if the ranks are not devices of one machine.
func fleetDevices(r *fleet.Report) Section {
	d := r.Devices
	if d == nil {
		return Section{}
	}
	t := Table{Name: "Table of the devices", Noun: "device", Max: topRows(r), More: "%d more in -o NAME.html", Columns: []Column{
		{Title: "device", Left: true}, {Title: "name", Left: true, Most: 24, Drop: 6}, {Title: "together"}, {Title: "95 % interval", Drop: 5}, {Title: "alone"}, {Title: "x alone"}, {Title: "throughput", Drop: 4},
		{Title: "clock", Drop: 1}, {Title: "clock alone", Drop: 2}}}
	for i := range d.Rows {
		row := &d.Rows[i]
		cells := []Cell{wordsCell(row.Device), wordsCell(row.Name)}
		if row.Shared == nil || row.Alone == nil {
			cells = append(cells, Cell{Text: "failed", Tone: Bad})
			for len(cells) < len(t.Columns) {
				cells = append(cells, Cell{})
			}
		} else {
			cells = append(cells, reachedCell(float64(row.Shared.StepS), "s"), wordsCell(reachedInterval(row.Shared)), reachedCell(float64(row.Alone.StepS), "s"), timesCell(row.Slowdown),
				reachedCell(float64(row.Shared.Rate), d.Unit), reachedCell(float64(row.Shared.Clock), "Hz"), reachedCell(float64(row.Alone.Clock), "Hz"))
		}
		t.Rows = append(t.Rows, Row{Cells: cells})
	}
	return Section{ID: "devices", Heading: "Devices", HeadingIn: Markdown | HTML, Blocks: []Block{
		Lines{Lead: true, Lines: dropEmpty(
			Line{Label: "skew", Value: skewText(d), Note: ratioNote(d.Skew)},
			Line{Label: "scaling", Value: scalingText(d), Note: ratioNote(d.Scaling)},
			Line{Label: "driver", Value: driversOf(d), In: Verbose})},
		t,
		Text{S: fmt.Sprintf("Step times are medians of %s, in each of which all devices measured together once and each alone once. Intervals are within one process for each device.", gpuprof.Plural(d.Rounds, "round"))}}}
}

// driversOf lists the driver versions: one if all are equal, else one per device.
func driversOf(d *fleet.Devices) string {
	var all []string
	for i := range d.Rows {
		if v := d.Rows[i].Driver; v != "" && !slices.Contains(all, v) {
			all = append(all, v)
		}
	}
	return strings.Join(all, ", ")
}

// skewText states the ratio of the slowest device's step to the devices' median.
func skewText(d *fleet.Devices) string {
	if d.Skew == nil {
		return ""
	}
	return fmt.Sprintf("the step of %s takes %s times the devices' median", d.Slowest, view.Times(d.Skew.Ratio))
}

// scalingText states the joint throughput as a share of the sum of the devices alone.
func scalingText(d *fleet.Devices) string {
	if d.Scaling == nil {
		return ""
	}
	return fmt.Sprintf("together %s of the throughput that they have alone", view.Percent(d.Scaling.Ratio))
}

func ratioNote(r *gpuprof.Ratio) string {
	if r == nil || !gpuprof.IsFinite(r.CI95[0]) || !gpuprof.IsFinite(r.CI95[1]) {
		return ""
	}
	return fmt.Sprintf("95 %% %.3f to %.3f, within process", r.CI95[0], r.CI95[1])
}

func reachedCell(v float64, unit string) Cell {
	if !gpuprof.IsFinite(v) {
		return Cell{}
	}
	text := gpuprof.FormatSI(v, unit)
	if unit == "s" {
		text = gpuprof.FormatSeconds(v)
	}
	return amountCell(text, v, unit)
}

func timesCell(r *gpuprof.Ratio) Cell {
	if r == nil || !gpuprof.IsFinite(r.Ratio) {
		return Cell{}
	}
	return amountCell(view.Times(r.Ratio), r.Ratio, "1")
}

// reachedInterval formats the 95 % interval of a device's step time.
func reachedInterval(a *fleet.Reached) string {
	lo, hi := float64(a.CI95[0]), float64(a.CI95[1])
	if !gpuprof.IsFinite(lo) || !gpuprof.IsFinite(hi) {
		return view.None
	}
	return view.PointInterval([2]float64{lo, hi}, "s")
}
