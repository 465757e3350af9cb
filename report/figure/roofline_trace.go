package figure

import (
	"fmt"

	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/report/internal/view"
)

// mostRoofPoints limits the operators to those with the most time above their bound.
const mostRoofPoints = 24

// TraceRoofline draws the dense peak rates of a data sheet, with a point per operator that counts FLOPs and bytes.
func TraceRoofline(a *analyze.Analysis) *Figure {
	f := newAnalysisFigure("roofline", "Roofline", "FLOP rate of operators over their arithmetic intensity, under the data sheet's dense peak rates.", a)
	r := a.Roofline
	if r == nil {
		return f.setLacking("no operator was recorded with its shapes (record_shapes=True)")
	}
	roof := view.Roof{BytesPerS: r.BytesPerS, FlopsPerS: r.FLOPsPerS["fp32"]}
	used := map[string]bool{}
	for i := range r.Operators {
		o := &r.Operators[i]
		if !(o.FLOPs > 0) || !(o.Bytes > 0) || o.NS <= 0 || len(roof.Points) == mostRoofPoints {
			continue
		}
		used[o.Precision] = true
		roof.Points = append(roof.Points, view.RoofPoint{Name: view.Cut(o.Name, 24), Intensity: o.FLOPs / o.Bytes, FlopsPerS: o.FLOPsPerS})
	}
	if len(roof.Points) == 0 {
		return f.setLacking("no operator counts both FLOPs and bytes")
	}
	for _, p := range []string{"tf32", "16-bit", "fp8"} {
		if rate := r.FLOPsPerS[p]; used[p] && rate > 0 {
			roof.Also = append(roof.Also, view.RoofLine{Name: p, FlopsPerS: rate})
		}
	}
	p := Panel{Height: 400, X: Axis{Scale: Log, Label: "arithmetic intensity (FLOP per byte, from the recorded shapes)"}, Y: Axis{Scale: Log, Label: "FLOP/s (over device time)"}}
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = roof.Range()
	if roof.FlopsPerS > 0 && roof.BytesPerS > 0 {
		p.Marks = ceilingMarks(roof, p.X, p.Y)
		f.addNote("dense peak rates of the " + r.Document)
	} else {
		f.addNote("the peak rates of this device are not in the table")
	}
	names := map[string]bool{}
	for _, pt := range roof.Points {
		m := Mark{Kind: Dot, X0: pt.Intensity, Y0: pt.FlopsPerS, Place: Near, Text: pt.Name, Tone: Ink}
		m.Tip = fmt.Sprintf("%s: %s at %.3g FLOP per byte", pt.Name, view.SI(pt.FlopsPerS, "FLOP/s"), pt.Intensity)
		if names[pt.Name] { // one label per operator
			m.Small, m.Text = true, ""
		}
		names[pt.Name] = true
		p.Marks = append(p.Marks, m)
	}
	f.Panels = []Panel{p}
	return f
}
