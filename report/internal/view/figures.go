package view

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/sweep"
)

// Lane is a row of a timeline.
type Lane struct {
	Name  string
	Spans []Span
}

// Span is a part of a lane. From and To are seconds from the step's start.
type Span struct {
	Name, Stage string
	From, To    float64
	Neighbour   bool // part of the previous or next step
	Count       int  // number of joined spans, if more than one
}

// Timeline returns the lanes of the example step, host first and kernels below their stream, and the shown range of
// time, from and to, in s. The range begins with the step, or earlier if work on the device, such as a copy, began
// earlier and extends into the step. Spans outside of the range are dropped, others are cut to it. At most limit spans
// are kept, the longest ones; left counts the spans dropped for this limit.
func Timeline(r *gpuprof.Run, limit int) (lanes []Lane, from, to float64, left int) {
	var spans []gpuprof.Span
	from, to = math.Inf(1), math.Inf(-1)
	for _, s := range r.ExampleStep {
		if !gpuprof.IsFinite(s.StartS) || !gpuprof.IsFinite(s.DurS) || s.DurS < 0 {
			continue
		}
		spans = append(spans, s)
		if s.Step == 0 && s.StartS+s.DurS > 0 {
			start := s.StartS
			if s.Lane == "host" { // a wait for earlier steps may extend into this one
				start = max(start, 0)
			}
			from, to = min(from, start), max(to, s.StartS+s.DurS)
		}
	}
	if !(to > from) {
		return nil, 0, 0, 0
	}
	spans = slices.DeleteFunc(spans, func(s gpuprof.Span) bool { return s.StartS >= to || s.StartS+s.DurS <= from })
	if len(spans) > limit {
		slices.SortStableFunc(spans, func(a, b gpuprof.Span) int { return cmp.Compare(b.DurS, a.DurS) })
		left, spans = len(spans)-limit, spans[:limit]
	}
	slices.SortStableFunc(spans, func(a, b gpuprof.Span) int { return cmp.Compare(a.StartS, b.StartS) })
	index := map[string]int{}
	for _, s := range spans {
		name := Cut(s.Lane, 20)
		if s.Kernel != "" {
			name += " kernels"
		}
		if _, ok := index[name]; !ok {
			index[name] = len(lanes)
			lanes = append(lanes, Lane{Name: name})
		}
		label := s.Stage
		if s.Kernel != "" {
			label = s.Kernel
		}
		l := &lanes[index[name]]
		l.Spans = append(l.Spans, Span{Cut(label, 60), s.Stage, max(s.StartS, from), min(s.StartS+s.DurS, to), s.Step != 0, 1})
	}
	for i := range lanes {
		lanes[i].Spans = joinShort(lanes[i].Spans, (to-from)/1000)
	}
	slices.SortStableFunc(lanes, func(a, b Lane) int { return strings.Compare(laneKey(a.Name), laneKey(b.Name)) })
	return lanes, from, to, left
}

// joinShort joins neighbouring spans of one stage that are too short to see, such as reads of single items. tiny is the
// length from which a span is visible, s.
func joinShort(spans []Span, tiny float64) []Span {
	var out []Span
	for _, s := range spans {
		if n := len(out) - 1; n >= 0 && s.To-s.From < tiny {
			l := &out[n]
			small := l.Count > 1 || l.To-l.From < tiny
			if small && l.Name == s.Name && l.Stage == s.Stage && l.Neighbour == s.Neighbour && s.From-l.To < tiny {
				l.To, l.Count = max(l.To, s.To), l.Count+1
				continue
			}
		}
		out = append(out, s)
	}
	return out
}

// Label returns the span's name with its count.
func (s Span) Label() string {
	if s.Count > 1 {
		return fmt.Sprintf("%d x %s", s.Count, s.Name)
	}
	return s.Name
}

// laneKey orders lanes: host, main stream, then by name.
func laneKey(name string) string {
	switch {
	case strings.HasPrefix(name, "host"):
		return "0" + name
	case strings.HasPrefix(name, "main"):
		return "1" + name
	}
	return "2" + name
}

// Roof is a run's roofline: the ceilings, and a point per stage with counted work.
type Roof struct {
	BytesPerS, FlopsPerS float64    // peak rates of a copy and of float32 products; 0 if unknown
	Also                 []RoofLine // ceilings of another precision in which the run computes
	Points               []RoofPoint
}

// RoofLine is the peak rate of another precision.
type RoofLine struct {
	Name      string
	FlopsPerS float64
}

// RoofPoint is a stage: its flops per byte, and its flops per second.
type RoofPoint struct {
	Name      string
	Intensity float64
	FlopsPerS float64
}

// Roofline returns the ceilings, and the stages with counted flops and bytes.
func Roofline(r *gpuprof.Run) Roof {
	var out Roof
	if c := r.Ceilings; gpuprof.IsFinite(c.CopyBytesPerS) && gpuprof.IsFinite(c.FlopsPerS) && c.CopyBytesPerS > 0 && c.FlopsPerS > 0 {
		out.BytesPerS, out.FlopsPerS = c.CopyBytesPerS, c.FlopsPerS
		// A run with reduced precision has the precision's name as the value of a knob.
		rounding := slices.Collect(maps.Values(r.Knobs))
		for _, l := range []RoofLine{{"tf32", c.TF32FlopsPerS}, {"bf16", c.BF16FlopsPerS}, {"fp16", c.FP16FlopsPerS}} {
			if slices.Contains(rounding, l.Name) && gpuprof.IsFinite(l.FlopsPerS) && l.FlopsPerS > 0 {
				out.Also = append(out.Also, l)
			}
		}
	}
	if !HasTimes(r) {
		return out
	}
	for _, s := range Stages(r) {
		if s.Intensity > 0 && s.FlopsPerS > 0 && gpuprof.IsFinite(s.Intensity) && gpuprof.IsFinite(s.FlopsPerS) {
			out.Points = append(out.Points, RoofPoint{Cut(s.Name, 24), s.Intensity, s.FlopsPerS})
		}
	}
	return out
}

// At returns the ceiling, flop/s, at an arithmetic intensity, flop per byte.
func (r Roof) At(intensity float64) float64 { return min(r.FlopsPerS, r.BytesPerS*intensity) }

// With returns the roofline of another precision with the same copy rate.
func (r Roof) With(l RoofLine) Roof { return Roof{BytesPerS: r.BytesPerS, FlopsPerS: l.FlopsPerS} }

// Peaks lists the peak rates: "copy 20 GB/s, float32 matrix product 70 Gflop/s".
func (r Roof) Peaks() string {
	out := "copy " + SI(r.BytesPerS, "B/s") + ", float32 matrix product " + SI(r.FlopsPerS, "flop/s")
	for _, l := range r.Also {
		out += ", " + l.Name + " " + SI(l.FlopsPerS, "flop/s")
	}
	return out
}

// Range returns the range to plot, which contains the roofline and the points: x in flop per byte, y in flop/s.
func (r Roof) Range() (x0, x1, y0, y1 float64) {
	ridge := r.FlopsPerS / max(r.BytesPerS, 1)
	if r.FlopsPerS == 0 {
		ridge = 1
	}
	xs, ys := []float64{ridge / 8, ridge * 8}, []float64{}
	if r.FlopsPerS > 0 {
		ys = append(ys, r.FlopsPerS*2.5)
	}
	for _, l := range r.Also {
		xs, ys = append(xs, l.FlopsPerS/max(r.BytesPerS, 1)*2), append(ys, l.FlopsPerS*2.5)
	}
	for _, p := range r.Points {
		xs, ys = append(xs, p.Intensity/2, p.Intensity*4), append(ys, p.FlopsPerS/2, p.FlopsPerS*2)
	}
	x0, x1 = slices.Min(xs), slices.Max(xs)
	if len(ys) == 0 {
		return x0, x1, 1, 10
	}
	if r.FlopsPerS > 0 {
		ys = append(ys, r.At(x0)/1.2)
	}
	return x0, x1, slices.Min(ys), slices.Max(ys)
}

// Curve is a scaling curve over one setting; the other settings are fixed.
type Curve struct {
	Label  string
	Points []CurvePoint
}

// CurvePoint is one run of a sweep. X is the setting's value if all of its values are numbers, or else the value's
// index.
type CurvePoint struct {
	X      float64
	Value  string
	Step   *gpuprof.Series
	Rate   *gpuprof.Series // nil if not measured
	Number bool            // X is the setting's value
}

// Scaling splits a sweep into curves over one setting: the numeric setting with most values, or without a numeric one
// the setting with most values. ok is false if nothing was swept or measured.
func Scaling(runs []*gpuprof.Run) (knob string, numeric bool, curves []Curve, ok bool) {
	names := sweep.Vary(runs)
	if len(names) == 0 {
		return "", false, nil, false
	}
	knob, numeric = sweptKnob(runs, names)
	others := slices.DeleteFunc(slices.Clone(names), func(n string) bool { return n == knob })
	index := map[string]int{}
	var order []string
	for _, r := range runs {
		v := sweep.Setting(r, knob)
		if !slices.Contains(order, v) {
			order = append(order, v)
		}
		p := CurvePoint{X: float64(slices.Index(order, v)), Value: Cut(v, 20)}
		if numeric {
			p.X, _ = strconv.ParseFloat(v, 64)
		}
		if !HasTimes(r) || Usable(r.Step) == nil {
			continue
		}
		p.Step = r.Step
		if r.Throughput != nil {
			p.Rate = Usable(r.Throughput.Series)
		}
		label := sweep.SettingText(r, others)
		if _, has := index[label]; !has {
			index[label] = len(curves)
			curves = append(curves, Curve{Label: label})
		}
		c := &curves[index[label]]
		c.Points = append(c.Points, p)
	}
	for _, c := range curves {
		slices.SortStableFunc(c.Points, func(a, b CurvePoint) int { return cmp.Compare(a.X, b.X) })
	}
	return knob, numeric, curves, len(curves) > 0
}

func sweptKnob(runs []*gpuprof.Run, names []string) (string, bool) {
	best, bestNumeric, most := "", false, 0
	for _, n := range names {
		values, numeric := map[string]bool{}, true
		for _, r := range runs {
			v := sweep.Setting(r, n)
			values[v] = true
			f, err := strconv.ParseFloat(v, 64)
			numeric = numeric && err == nil && gpuprof.IsFinite(f)
		}
		if better := numeric && !bestNumeric || numeric == bestNumeric && len(values) > most; better {
			best, bestNumeric, most = n, numeric, len(values)
		}
	}
	return best, bestNumeric
}

// RateUnit returns the runs' common unit of throughput; "" if they differ.
func RateUnit(runs []*gpuprof.Run) string {
	unit := ""
	for _, r := range runs {
		if r.Throughput == nil {
			continue
		}
		if unit != "" && unit != r.Throughput.Unit {
			return ""
		}
		unit = r.Throughput.Unit
	}
	return Cut(unit, 24)
}
