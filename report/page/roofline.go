package page

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/report/figure"
	"github.com/gpuprof/gpuprof/report/internal/view"
)

// Limits of rows: operators against their bounds, and kernels without a cost model or collectives by size.
const (
	roofRows       = 5
	unmodelledRows = 3
	// shapesWidth limits the shapes in a row, in characters, so that the row's figures fit on the page.
	shapesWidth = 30
	// leastModelled: with less than 1/leastModelled of the device's time in operators with a cost, there is no table.
	leastModelled = 100
)

// rooflineBlocks compares operators with the device's peak rates; none without recorded shapes, or if a graph replays
// nearly all kernels.
func rooflineBlocks(a *analyze.Analysis) []Block {
	r := a.Roofline
	if r == nil || r.ModelledNS <= 0 || r.ModelledNS*leastModelled < r.DeviceNS {
		return nil
	}
	return []Block{Text{S: rooflineLead(a, r)}, rooflineTable(a, r), unmodelledTable(a, r), collectiveTable(a, r)}
}

// rooflineCharts returns rooflineBlocks and the chart.
func rooflineCharts(a *analyze.Analysis) []Block {
	blocks := rooflineBlocks(a)
	if blocks == nil {
		return nil
	}
	return append(blocks, Chart{ID: "roofline", Figure: func() *figure.Figure { return figure.TraceRoofline(a) }})
}

// measuredProducts names the matrix products that doctor measured; "" if the reachable rate is from public
// measurements.
func measuredProducts(r *analyze.Roofline) string {
	if r.ReachedBy == "" {
		return ""
	}
	return "Matrix products in bf16 that " + r.ReachedBy + " measured"
}

// rooflineLead states the share of device time with a cost model, and the utilisation of the step.
func rooflineLead(a *analyze.Analysis, r *analyze.Roofline) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Operators with a cost model take %s of the device's time.", view.Percent(float64(r.ModelledNS)/float64(r.DeviceNS)))
	if r.Device == "" {
		b.WriteString(" The device is in no table of peak rates: no bound is told.")
	} else {
		fmt.Fprintf(&b, " Bounds are the dense peak rates of the %s (%s).", r.Device, r.Document)
		if r.Reachable > 0 {
			fmt.Fprintf(&b, " %s reach %s of the 16-bit peak.", cmp.Or(measuredProducts(r), "The best public matrix products"), view.Percent(r.Reachable))
		}
		if r.CopyShare > 0 {
			fmt.Fprintf(&b, " Copies within the device's memory that %s measured reach %s of its bandwidth.", r.CopyBy, view.Percent(r.CopyShare))
		}
	}
	if r.HFU == 0 && r.StepFLOPs > 0 && r.Device != "" {
		fmt.Fprintf(&b, " HFU and MFU are unknown: the FLOPs of %s of the time in matrix products, convolutions and attention are.", view.Percent(r.ProductsCounted))
	}
	if r.HFU > 0 {
		fmt.Fprintf(&b, " The step does %s in matrix products, convolutions and attention: HFU %s of the %s peak", gpuprof.FormatSI(r.StepFLOPs, "FLOP"), view.Percent(r.HFU), r.Precision)
		switch {
		case r.Recomputed:
			b.WriteString("; MFU is unknown, since activations are computed again.")
		case r.MFU < r.HFU:
			fmt.Fprintf(&b, ", MFU %s without the scores that attention computes again.", view.Percent(r.MFU))
		default:
			b.WriteString(", and so is MFU.")
		}
	}
	if r.Unlisted > 0 {
		fmt.Fprintf(&b, " %s of other shapes, %s %s, are not listed.", gpuprof.Plural(r.Unlisted, "operator"), gpuprof.FormatNS(r.UnlistedNS), a.PerStep())
	}
	if r.Assumed {
		b.WriteString(" The recording has no strides: operands are taken as dense.")
	}
	return b.String()
}

func rooflineTable(a *analyze.Analysis, r *analyze.Roofline) Table {
	t := Table{
		Name: "Operators against their bounds", Noun: "row", Max: [3]int{roofRows, traceRows, traceRows}, More: "%d more operators in --format json",
		Caption: "Per step, most time above the bound first. The bound is the longest of arithmetic, memory traffic and launches at peak rates.",
	}
	t.Columns = numberColumns("operator, "+a.PerStep(), "shapes", "calls", "time", "share", "FLOP/s", "memory", "bound", "of the bound", "above it")
	t.Columns[1].Left, t.Columns[1].Drop, t.Columns[1].Most, t.Columns[7].Left = true, 1, 40, true
	t.Columns[2].Drop, t.Columns[4].Drop, t.Columns[6].Drop = 3, 2, 4
	for i := range r.Operators {
		o := &r.Operators[i]
		above, share := Cell{}, Cell{}
		if o.BoundNS > 0 {
			above, share = nsCell(o.AboveNS), amountCell(view.Percent(o.Share()), o.Share(), "1")
		}
		t.Rows = append(t.Rows, Row{Cells: []Cell{
			{Text: o.Name}, {Text: o.Shapes}, amountCell(fmt.Sprintf("%.4g", o.Calls), o.Calls, "1"), nsCell(o.NS), shareOf(o.NS, r.DeviceNS),
			perSecond(o.FLOPsPerS, "FLOP/s"), perSecond(o.BytesPerS, "B/s"), {Text: o.Bound}, share, above,
		}})
	}
	return t
}

// perSecond returns a cell with a rate; empty without one.
func perSecond(v float64, unit string) Cell {
	if v <= 0 {
		return Cell{}
	}
	return amountCell(gpuprof.FormatSI(v, unit), v, unit)
}

func collectiveTable(a *analyze.Analysis, r *analyze.Roofline) Table {
	t := Table{
		Name: "Collectives by size", Noun: "row", Max: [3]int{unmodelledRows, traceRows, traceRows}, More: "%d more in --format json",
		Caption: "Bandwidth of the shortest call, which waited least for other ranks. The bus bandwidth is what a link carries (nccl-tests).",
		Columns: numberColumns("collective, "+a.PerStep(), "ranks", "size", "calls", "time", "shortest", "algorithm", "bus"),
	}
	for _, c := range r.Collectives {
		t.Rows = append(t.Rows, Row{Cells: []Cell{
			{Text: c.Kind}, countCell(c.Ranks), {Text: gpuprof.FormatSI(float64(c.Bytes), "B")}, amountCell(fmt.Sprintf("%.4g", c.Calls), c.Calls, "1"), nsCell(c.NS),
			nsCell(c.ShortestNS), perSecond(c.AlgorithmBytesPerS, "B/s"), perSecond(c.BusBytesPerS, "B/s"),
		}})
	}
	return t
}

func unmodelledTable(a *analyze.Analysis, r *analyze.Roofline) Table {
	t := Table{
		Name: "Device time without a cost model", Noun: "row", Max: [3]int{unmodelledRows, traceRows, traceRows}, More: "%d more in --format json",
		Columns: numberColumns("without a model, "+a.PerStep(), "time", "reason"),
	}
	t.Columns[2].Left = true
	for _, u := range r.Unmodelled {
		t.Rows = append(t.Rows, Row{Cells: []Cell{{Text: u.Name}, nsCell(u.NS), {Text: u.Reason}}})
	}
	return t
}
