package report_test

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof/report/figure"
)

// shape says which axes of a figure hold data; on the others marks are placed in the order
// of samples, sessions or commits. Figures that are not here have data on both.
var shape = map[string]struct {
	x, y bool
	why  string
}{
	"a run distribution":              {false, true, "samples stand in the order they were taken"},
	"a comparison distribution":       {true, false, "histograms are as high as their highest bin; recounted below"},
	"a history trend":                 {false, true, "sessions stand in the order of commits"},
	"a bisection posterior":           {false, true, "commits stand in their order"},
	"an analysis timeline":            {false, true, "steps stand in their order"},
	"an analysis of memory memory":    {false, true, "columns hold as many events each"},
	"an analysis overview":            {false, false, "bins of the trace, which the document does not hold"},
	"a comparison of traces overview": {false, false, "bins of the traces, which the document does not hold"},
}

// misdrawn are the coordinates of a figure that no number of the document gives, and the
// texts that say other numbers than their marks and the document.
func misdrawn(g *guarded, t *truth, name string, f *figure.Figure) (out []string) {
	drawn := 0.0
	for i := range f.Panels {
		for p := &f.Panels[i]; p != nil; p = p.Side {
			for k := range p.Marks {
				if p.Marks[k].Kind == figure.Samples {
					drawn += float64(len(p.Marks[k].Points))
				}
				for _, fault := range g.misplaced(t, name, p, &p.Marks[k]) {
					out = append(out, fmt.Sprintf("%s, panel %d, mark %d: %s", name, i, k, fault))
				}
			}
			out = append(out, g.miscounted(t, name, p)...)
			for _, text := range slices.Concat(p.Right, p.RowNotes, []string{p.Title}) {
				for _, n := range t.unsaid(text, nil) {
					out = append(out, fmt.Sprintf("%s, panel %d: %s of %q", name, i, n, text))
				}
			}
		}
	}
	for _, text := range slices.Concat(f.Notes, f.Remarks, f.Context) {
		for _, n := range t.unsaid(text, nil) {
			if reads(n, drawn, 1) {
				continue // "all 440 samples are drawn"
			}
			out = append(out, fmt.Sprintf("%s: %s of %q", name, n, text))
		}
	}
	return out
}

// miscounted are the histograms of a panel that the samples do not give: those beside the dots
// of a run, and those over each other of a comparison, which are as high as their highest bin.
func (g *guarded) miscounted(t *truth, name string, p *figure.Panel) (out []string) {
	if name != "distribution" {
		return nil
	}
	k := 0
	for i := range p.Marks {
		m := &p.Marks[i]
		switch {
		case m.Kind == figure.Samples && p.Side != nil:
			var points [][2]float64
			for _, q := range p.Side.Marks[i].Points { // bins lie along Y, and begin and end at 0
				points = append(points, [2]float64{q[1], q[0]})
			}
			var values []float64
			for _, q := range m.Points {
				values = append(values, min(max(q[1], p.Y.Min), p.Y.Max))
			}
			if i < len(p.Side.Marks) && !recount(points, values, 1) {
				out = append(out, fmt.Sprintf("%s: the histogram %d beside %s is not of its dots", name, i, p.Name))
			}
		case g.kind == "comparison" && (m.Kind == figure.Area || m.Kind == figure.Line):
			side := []string{"new", "old"}[k]
			k++
			values := t.samples[p.Name+" "+side]
			if len(values)+len(m.Points) > 0 && !recount(m.Points, values, 0) {
				out = append(out, fmt.Sprintf("%s: the histogram of %s, %s is not of its %d samples", name, p.Name, side, len(values)))
			}
		}
	}
	return out
}

// recount says whether steps are a histogram of values, as high as high says, 0 for 1 at the
// highest. A value at an edge may be in either bin.
func recount(points [][2]float64, values []float64, high float64) bool {
	var counts [][3]float64 // least, most, drawn
	top := 0.0
	for i := 1; i+2 < len(points); i += 2 {
		a, b := points[i][0], points[i+1][0]
		room := 1e-9 * math.Abs(b-a)
		c := [3]float64{0, 0, points[i][1]}
		for _, v := range values {
			if v > a+room && v < b-room {
				c[0]++
			}
			if v >= a-room && v <= b+room {
				c[1]++
			}
		}
		if points[i+1][1] != c[2] {
			return false
		}
		if c[2] == 1 {
			top = c[1]
		}
		counts = append(counts, c)
	}
	if high > 0 {
		top = 1
	}
	return top > 0 && !slices.ContainsFunc(counts, func(c [3]float64) bool { return c[2]*top < c[0]*0.999 || c[2]*top > c[1]*1.001 })
}

// misplaced are the faults of one mark.
func (g *guarded) misplaced(t *truth, name string, p *figure.Panel, m *figure.Mark) (out []string) {
	for _, v := range g.coordinates(name, p, m) {
		if !t.derived(v) && !(g.kind == "bisect" && t.words[fmt.Sprintf("%.1f", 100*math.Abs(v))] > 0) {
			out = append(out, fmt.Sprintf("%g (kind %d, %q)", v, m.Kind, m.Tip))
		}
	}
	own := extents(p, m)
	if name == "distribution" && g.kind == "run" || m.Kind == figure.Label { // axes are relative, or in bins
		own = nil
	}
	for _, text := range []string{m.Tip, m.Text} {
		anywhere := t.unsaid(text, nil)
		for _, n := range t.unsaid(text, own) {
			if g.document == "an analysis" && !slices.Contains(anywhere, n) {
				continue // the whole of which a bar is a part
			}
			out = append(out, fmt.Sprintf("%s of %q", n, text))
		}
	}
	return out
}

// extents are all that the place of a mark may say.
func extents(p *figure.Panel, m *figure.Mark) []float64 {
	out := []float64{m.X0, m.X1, m.Y0, m.Y1, m.X1 - m.X0, m.Y1 - m.Y0, (m.X0 + m.X1) / 2}
	if first := p.Marks[0]; first.Kind == figure.Bar { // a waterfall's last bar beside its first
		out = append(out, m.X1-first.X1, m.X1/first.X1)
	}
	for i := range p.Marks { // the interval of a bar or dot is a mark of its own
		if r := &p.Marks[i]; r.Kind == figure.Range && (p.Y.Scale == figure.Rows && math.Abs(r.Y0-(m.Y0+m.Y1)/2) < 1 || p.Y.Scale != figure.Rows && r.X0 == m.X0) {
			out = append(out, r.X0, r.X1, r.Y0, r.Y1)
		}
	}
	return out
}

// coordinates returns the values that a mark shows by its position, on the axes that hold data.
func (g *guarded) coordinates(name string, p *figure.Panel, m *figure.Mark) (out []float64) {
	s, special := shape[g.document+" "+name]
	onX, onY := p.X.Scale != figure.Rows && (!special || s.x), p.Y.Scale != figure.Rows && (!special || s.y)
	add := func(x, y float64) {
		if onX && !math.IsNaN(x) {
			out = append(out, x)
		}
		if onY && !math.IsNaN(y) {
			out = append(out, y)
		}
	}
	switch m.Kind {
	case figure.Bar:
		if special && s.x { // a tick of the median
			add((m.X0+m.X1)/2, 0)
			break
		}
		if onX && !onY && p.X.Min > 0 && m.X0 == p.X.Min { // from where the axis begins
			add(m.X1, 0)
			break
		}
		if m.Form == figure.Pale || strings.Contains(m.Tip, "<") { // cut off at the edge; what is too small to be drawn
			break
		}
		if special && name == "distribution" { // percentiles, drawn within the axis
			for _, y := range []float64{m.Y0, m.Y1} {
				if y != p.Y.Min && y != p.Y.Max {
					add(0, y)
				}
			}
			break
		}
		add(m.X1-m.X0, m.Y1-m.Y0)
	case figure.Dot:
		if m.Small { // its tip says where it is
			break
		}
		add(m.X0, m.Y0)
	case figure.Range:
		add(m.X0, m.Y0)
		add(m.X1, m.Y1)
	case figure.Boxes:
		for i := 0; i+1 < len(m.Points); i += 2 {
			add(0, m.Points[i+1][1]-m.Points[i][1])
			if name == "map" { // places in a segment
				add(m.Points[i][0], 0)
				add(m.Points[i+1][0], 0)
			}
		}
	case figure.Line, figure.Area, figure.Samples, figure.Flags:
		if name == "waterfall" { // it leads from bar to bar
			break
		}
		if special && s.x || name == "distribution" && m.Kind == figure.Line { // recounted
			break
		}
		if name == "roofline" { // at its end a roof is as high as its rate, or as its rate times the intensity
			end := len(m.Points) - 1
			for _, q := range m.Points[:end] {
				add(0, q[1]/q[0])
			}
			add(0, m.Points[end][1])
			break
		}
		for _, q := range m.Points {
			add(q[0], q[1])
		}
	}
	return out
}
