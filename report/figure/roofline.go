package figure

import (
	"fmt"
	"math"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/report/internal/view"
)

// Roofline draws the measured peak rates, with a large point per stage and a small one per kernel, if their flops and
// bytes are counted.
func Roofline(r *gpuprof.Run) *Figure {
	f := newRunFigure("roofline", "Roofline", "Flop rate over arithmetic intensity on logarithms, under the peak rates measured on this device.", r)
	roof := view.Roofline(r)
	if len(roof.Points) == 0 {
		return f.setRunLacking(r, "no stage counts both flops and bytes with a device time")
	}
	stages := len(roof.Points)
	kernels := kernelPoints(r)
	for _, k := range kernels {
		roof.Points = append(roof.Points, k.RoofPoint)
	}
	p := Panel{Height: 400}
	p.X = Axis{Scale: Log, Label: "arithmetic intensity (flop per byte, counted)"}
	p.Y = Axis{Scale: Log, Label: "flop/s (counted over median device time)"}
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = roof.Range()
	if roof.FlopsPerS > 0 {
		p.Marks = ceilingMarks(roof, p.X, p.Y)
		f.addNote("peak rates measured on this device: " + roof.Peaks())
	} else {
		f.addNote("the peak rates of this device were not measured")
	}
	tones := view.Tones(r)
	for i, pt := range roof.Points {
		m := Mark{Kind: Dot, X0: pt.Intensity, Y0: pt.FlopsPerS, Place: Near, Text: pt.Name}
		what := pt.Name
		if m.Small = i >= stages; m.Small {
			m.Tone, what = stageTone(tones, kernels[i-stages].stage), "kernel "+pt.Name
		} else {
			m.Tone = stageTone(tones, pt.Name)
		}
		m.Tip = fmt.Sprintf("%s: %s at %.3g flop per byte", what, view.SI(pt.FlopsPerS, "flop/s"), pt.Intensity)
		p.Marks = append(p.Marks, m)
	}
	if len(kernels) > 0 {
		f.addNote("large points are stages, small ones their kernels")
	}
	f.Panels = []Panel{p}
	return f
}

type kernelPoint struct {
	view.RoofPoint
	stage string
}

// kernelPoints returns the kernels with counted flops and bytes.
func kernelPoints(r *gpuprof.Run) []kernelPoint {
	var out []kernelPoint
	for _, k := range r.Stages {
		flops, bytes := k.Counters["flops"], k.Counters["bytes_read"]+k.Counters["bytes_written"]
		d := view.Usable(k.Device)
		if k.Parent == "step" || d == nil || !(d.Median > 0) || !(flops > 0) || !(bytes > 0) || !gpuprof.IsFinite(flops/bytes) || !gpuprof.IsFinite(flops/d.Median) {
			continue
		}
		out = append(out, kernelPoint{view.RoofPoint{Name: view.Cut(k.Name, 24), Intensity: flops / bytes, FlopsPerS: flops / d.Median}, k.Parent})
	}
	return out
}

// ceilingMarks draws the peak rates of copies and matrix products.
func ceilingMarks(roof view.Roof, x, y Axis) []Mark {
	ridge := roof.FlopsPerS / roof.BytesPerS
	left := max(x.Min, y.Min/roof.BytesPerS)
	mid := math.Sqrt(left * ridge)
	line := func(own view.Roof, xs ...float64) Mark {
		m := Mark{Kind: Line, Tone: Ink, Form: Stroke}
		for _, v := range xs {
			m.Points = append(m.Points, [2]float64{v, own.At(v)})
		}
		return m
	}
	say := func(at float64, over view.Roof, text string) Mark {
		return Mark{Kind: Label, X0: at, Y0: over.At(at), Place: Left, Text: text}
	}
	out := []Mark{line(roof, left, ridge, x.Max), say(x.Max, roof, "matrix product "+view.SI(roof.FlopsPerS, "flop/s")), say(mid, roof, "copy "+view.SI(roof.BytesPerS, "B/s"))}
	for _, l := range roof.Also { // a higher ceiling extends the copy line; a lower one starts on it
		own, ends := roof.With(l), l.FlopsPerS/roof.BytesPerS
		out = append(out, line(own, min(ridge, ends), ends, x.Max), say(x.Max, own, l.Name+" product "+view.SI(l.FlopsPerS, "flop/s")))
	}
	return out
}
