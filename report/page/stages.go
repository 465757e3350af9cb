package page

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/report/internal/view"
)

// metric is a column of the stage table with its cells.
type metric struct {
	Column
	stage  func(view.Stage) Cell
	kernel func(gpuprof.StageResult) Cell // nil if it does not apply to kernels
}

// Bins of a stage's sparkline.
const (
	fewBins  = 6
	manyBins = 12
)

// stageMetrics returns the columns of the stage table: the parts of the step's time, then each stage's device use.
func stageMetrics() []metric {
	return []metric{
		{Column{Title: "stage", Left: true, Most: 24}, func(s view.Stage) Cell { return Cell{Text: s.Name} }, kernelName},
		{Column{Title: "exposed"}, func(s view.Stage) Cell { return medianCell(s.Exposed) }, nil},
		{Column{Title: "share"}, func(s view.Stage) Cell { return amountCell(view.ShareCell(s), s.Share, "1") }, nil},
		{Column{Title: "device", Drop: 1, Named: true}, func(s view.Stage) Cell { return medianCell(s.Device) }, func(k gpuprof.StageResult) Cell { return medianCell(view.Usable(k.Device)) }},
		{Column{Title: "95 % interval", Narrow: "+/-", Drop: 2, Named: true}, func(s view.Stage) Cell {
			return Cell{Text: view.SeriesInterval(s.Device), Narrow: view.HalfWidth(s.Device)}
		}, nil},
		{Column{Title: "host", Drop: 5, Named: true}, func(s view.Stage) Cell { return medianCell(s.Host) }, nil},
		{Column{Title: "GB/s", Drop: 6, Named: true}, func(s view.Stage) Cell { return amountCell(view.Rate(s.BytesPerS), s.BytesPerS/1e9, "GB/s") }, nil},
		{Column{Title: "GF/s", Drop: 7, Named: true}, func(s view.Stage) Cell { return amountCell(view.Rate(s.FlopsPerS), s.FlopsPerS/1e9, "GF/s") }, nil},
		{Column{Title: "bound time", In: HTML}, func(s view.Stage) Cell { return secondsCell(s.BoundS) }, nil},
		{Column{Title: "bound", Drop: 4, Named: true, Legend: "bound: the stage's roofline bound over its device time"},
			func(s view.Stage) Cell { return amountCell(boundShare(s), s.OfBound, "1") }, nil},
		{Column{Title: "spread", Left: true, Drop: 3, Named: true, In: printed, Legend: "spread: samples of the device's time (else the host's), 2nd to 98th percentile"},
			func(s view.Stage) Cell {
				return Cell{Text: drawSpark(stageSeries(s), manyBins), Narrow: drawSpark(stageSeries(s), fewBins)}
			}, nil},
		{Column{Title: "p05 to p95", Wide: true, Drop: 8, Named: true, In: printed}, func(s view.Stage) Cell { return Cell{Text: rangeOf(stageSeries(s))} }, nil},
	}
}

// keptShare is the share of the step from which a terminal short of lines keeps a stage.
const keptShare = 0.02

// kernelName names a kernel, with a remark if it was not timed between two events.
func kernelName(k gpuprof.StageResult) Cell {
	return Cell{Text: k.Name, Note: methodText(k.Method)}
}

func methodText(method string) string {
	if method == gpuprof.MethodSlope {
		return "replayed"
	}
	return method
}

// stagesOf builds the table of stages. Kernels are rows in HTML, and a table of their own in Markdown. On a terminal,
// the table has no row for the gap (time outside all stages), because the summary below the table states the gap.
func stagesOf(r *gpuprof.Run, id string) Section {
	s := Section{ID: id + "stages", Heading: "Stages", HeadingIn: HTML}
	if !view.HasTimes(r) {
		return s
	}
	t := Table{Name: "Table of stages", Noun: "stage", Caption: "Medians per step. Exposed is a stage's own part of the period, share its part of all exposed time; device is the time between its events, host the host thread's time inside it. " +
		"The bound time is the roofline bound: the least time that the work counted in this formulation takes at this device's peak rates; bound is that over the device time. Kernels, indented, come from a separate marked pass."}
	columns := stageMetrics()
	for _, m := range columns {
		t.Columns = append(t.Columns, m.Column)
	}
	stages := view.Stages(r)
	for _, stage := range stages {
		row := Row{Keep: stage.Share >= keptShare, Size: stage.Share}
		if stage.Name == gpuprof.StageGap {
			row.In = Markdown | HTML
		}
		for _, m := range columns {
			row.Cells = append(row.Cells, m.stage(stage))
		}
		t.Rows = append(t.Rows, row)
		for _, k := range view.Kernels(r, stage.Name) {
			row := Row{Sub: true, In: HTML}
			for _, m := range columns {
				cell := Cell{}
				if m.kernel != nil {
					cell = m.kernel(k)
				}
				row.Cells = append(row.Cells, cell)
			}
			t.Rows = append(t.Rows, row)
		}
	}
	s.Blocks = []Block{Text{S: stageNote(r), In: HTML}, t}
	for _, why := range missingBounds(stages) {
		s.Blocks = append(s.Blocks, Text{S: why, As: Remark, In: Verbose})
	}
	s.Blocks = append(s.Blocks, kernelsOf(r, stages))
	return s
}

// stageNote names the pass that timed the stages, and the method for short kernels.
func stageNote(r *gpuprof.Run) string {
	var notes []string
	if p := view.Usable(r.ProbedStep); p != nil {
		notes = append(notes, "The probes around stages cost too much for the timing passes. The step ("+view.Median(r.Step)+
			") was measured without them; the stages come from separate blocks, and their exposed times add up to the step there: "+view.Median(p)+".")
	}
	if slices.ContainsFunc(r.Stages, func(s gpuprof.StageResult) bool { return s.Method == gpuprof.MethodSlope }) {
		notes = append(notes, "Kernels marked as replayed are too short for a pair of events: their time is the slope over replays of a step's launches, with the inputs in the cache.")
	}
	return strings.Join(notes, " ")
}

// kernelsOf lists the kernels in a folded table: most readers want the stages.
func kernelsOf(r *gpuprof.Run, stages []view.Stage) Block {
	t := Table{Name: "Table of kernels", In: Markdown, Columns: []Column{{Title: "stage", Left: true}, {Title: "kernel", Left: true}, {Title: "device"}, {Title: "95 % interval"}, {Title: "timed by", Left: true}}}
	for _, s := range stages {
		for _, k := range view.Kernels(r, s.Name) {
			t.Rows = append(t.Rows, Row{Cells: []Cell{{Text: s.Name}, {Text: k.Name}, medianCell(view.Usable(k.Device)), {Text: view.SeriesInterval(k.Device)}, {Text: kernelMethod(k)}}})
		}
	}
	if len(t.Rows) == 0 {
		return nil
	}
	t.Folded = gpuprof.Plural(len(t.Rows), "kernel") + ", from a pass of their own"
	return t
}

// boundText states the distance of the largest stage from its roofline bound; "" if the bound is unknown.
func boundText(stages []view.Stage) string {
	if len(stages) == 0 {
		return ""
	}
	top := slices.MaxFunc(stages, func(a, b view.Stage) int { return cmp.Compare(a.Share, b.Share) })
	if !(top.OfBound > 0 && top.OfBound <= 1) {
		return ""
	}
	return fmt.Sprintf("At this device's peak rates the work counted in %s would take %s of the time it does.", top.Name, boundShare(top))
}

// boundShare formats the share of the device time that the roofline bound explains: "34.9 %".
func boundShare(s view.Stage) string {
	if s.OfBound <= 0 {
		return view.None
	}
	return view.Percent(s.OfBound)
}

// missingBounds names the stages without a roofline bound, a line per reason.
func missingBounds(stages []view.Stage) []string {
	var reasons []string
	of := map[string][]string{}
	for _, s := range stages {
		if s.NoBound == "" {
			continue
		}
		if of[s.NoBound] == nil {
			reasons = append(reasons, s.NoBound)
		}
		of[s.NoBound] = append(of[s.NoBound], s.Name)
	}
	for i, why := range reasons {
		reasons[i] = "no roofline bound of " + strings.Join(of[why], ", ") + ": " + why
	}
	return reasons
}
