package figure

import (
	"math"

	"github.com/gpuprof/gpuprof"
)

// scaleTo maps an axis's values to positions between two ends. Values beyond the axis are placed at its end.
func (a *Axis) scaleTo(from, to float64) func(float64) float64 {
	f := func(v float64) float64 { return v }
	if a.Scale == Log {
		f = math.Log
	}
	lo, hi := f(a.Min), f(a.Max)
	if a.Scale == Rows {
		from, to = min(from, to), max(from, to)
	}
	if !(hi > lo) || !gpuprof.IsFinite(hi-lo) {
		return func(v float64) float64 { return (from + to) / 2 }
	}
	return func(v float64) float64 {
		share := (f(v) - lo) / (hi - lo)
		if math.IsNaN(share) {
			share = 0
		}
		return from + min(max(share, 0), 1)*(to-from)
	}
}

func (a *Axis) hasValue(v float64) bool { return v >= a.Min && v <= a.Max }

// frame is a panel placed in a drawing, with its plot area and scales.
type frame struct {
	*drawing
	p              *Panel
	x0, x1, y0, y1 float64
	x, y           func(float64) float64
	near           []nearText
}

type nearText struct {
	at   point
	text string
}

// addPanel draws a panel's axes and marks in its plot area.
func (d *drawing) addPanel(p *Panel, x0, x1, y0, y1 float64) {
	own := *p
	own.X.Max = p.xAxisEnd(d.ems, x1-x0)
	f := &frame{drawing: d, p: &own, x0: x0, x1: x1, y0: y0, y1: y1, x: own.X.scaleTo(x0, x1), y: own.Y.scaleTo(y1, y0)}
	f.drawAxes()
	for i := range own.Marks {
		f.drawMark(&own.Marks[i])
	}
	f.placeNear()
}

// xAxisEnd returns the end of an X axis of width w that leaves room for texts right of marks.
func (p *Panel) xAxisEnd(e ems, w float64) float64 {
	most := p.X.Max
	if p.X.Scale != Linear {
		return most
	}
	for _, m := range p.Marks {
		if m.Place != After || m.Text == "" {
			continue
		}
		v := max(m.X0, m.X1)
		room := max(w-e.textWidth(m.Text, textSize)-10, 0.35*w)
		if end := p.X.Min + (v-p.X.Min)*w/room; gpuprof.IsFinite(end) {
			most = max(most, end)
		}
	}
	return most
}

func (f *frame) drawAxes() {
	p := f.p
	var grid [][]point
	if !p.X.Bare {
		grid = append(grid, []point{{f.x0, f.y1}, {f.x1, f.y1}})
		for _, t := range p.X.ticksOf(f.x1-f.x0, 75) {
			if !p.X.hasValue(t.At) {
				continue
			}
			if x := f.x(t.At); t.Label == "" || f.addText(x, f.y1+16, 0, Soft, "axis", t.Label) {
				grid = append(grid, []point{{x, f.y0}, {x, f.y1 + 4}})
			}
		}
		if p.X.Label != "" {
			f.addText((f.x0+f.x1)/2, f.y1+16+lineRoom, 0, Soft, "axis-label", f.clipText(p.X.Label, textSize, f.w-20))
		}
	}
	if !p.Y.Bare && p.Y.Scale != Rows {
		for _, t := range p.Y.ticksOf(f.y1-f.y0, 40) {
			if y := f.y(t.At); t.Label == "" || f.addText(f.x0-6, y+4, 1, Soft, "axis", t.Label) {
				grid = append(grid, []point{{f.x0, y}, {f.x1, y}})
			}
		}
	}
	for i, n := range p.Y.Names {
		f.addText(f.x0-10, f.y(float64(i)+0.5)+4, 1, Ink, "", f.clipText(n, textSize, f.x0-10-f.margin+0.5))
	}
	if grid != nil {
		f.add(rulers, shape{kind: pathShape, lines: grid, tone: Faint, form: Hair})
	}
	if title := p.Title + p.Y.Label; title != "" {
		x, tone, class := f.x0, Ink, ""
		if p.Title == "" {
			x, tone, class = max(f.x0-70, f.margin), Soft, "axis-label"
		}
		f.addText(x, f.y0-8, -1, tone, class, title)
	}
}

func (f *frame) drawMark(m *Mark) {
	switch m.Kind {
	case Bar:
		f.drawBar(m)
	case Boxes:
		f.drawBoxes(m)
	case Line, Area, Samples, Flags:
		f.drawPath(m)
	case Dot:
		f.drawDot(m)
	case Range:
		f.drawInterval(m)
	case Rule:
		f.drawRule(m)
	case Band:
		f.addBand(*m, f.x, f.x0, f.x1, f.y0, f.y1)
	}
	if m.Text == "" || m.Kind == Bar && m.Place == Inside || m.Kind == Rule {
		return
	}
	x, y := f.x(max(m.X0, m.X1)), (f.y(m.Y0)+f.y(m.Y1))/2
	if m.Kind != Bar {
		y = f.y(m.Y0)
	}
	switch m.Place {
	case After:
		f.addText(x+6, y+4, -1, Ink, "", f.clipText(m.Text, textSize, max(f.x1-x, 0)))
	case Left:
		f.addText(x-8, y-7, 1, Ink, "", m.Text)
	case Near:
		f.near = append(f.near, nearText{point{x, y}, m.Text})
	case Inside:
		f.addText(x, y+4, 0, Ink, "", m.Text)
	}
}

func (f *frame) drawBar(m *Mark) {
	x0, x1 := f.x(min(m.X0, m.X1)), f.x(max(m.X0, m.X1))
	y0, y1 := f.y(m.Y0), f.y(m.Y1)
	if y0 > y1 {
		y0, y1 = y1, y0
	}
	if x1-x0 > 3 {
		x1 -= 0.6 // a thin gap between neighbours
	}
	x1, y1 = max(x1, x0+0.8), max(y1, y0+0.3) // keep the shortest bars visible
	f.add(marks, shape{kind: rectShape, x: x0, y: y0, w: x1 - x0, h: y1 - y0, tone: m.Tone, form: m.Form, tip: m.Tip})
	if m.Place != Inside || m.Text == "" || y1-y0 < leastPitch {
		return
	}
	text := f.fitLabel(m.Text, x1-x0-8)
	if text != m.Text && m.Brief != "" {
		text = f.fitLabel(m.Brief, x1-x0-8)
	}
	if text != "" {
		tone := m.Tone.contrastTone()
		if m.Form == Pale {
			tone = Ink
		}
		f.addText((x0+x1)/2, (y0+y1)/2+4, 0, tone, "", text)
	}
}

func (f *frame) drawBoxes(m *Mark) {
	var lines [][]point
	for i := 0; i+1 < len(m.Points); i += 2 {
		a, b := m.Points[i], m.Points[i+1]
		lines = append(lines, []point{{f.x(a[0]), f.y(a[1])}, {f.x(b[0]), f.y(b[1])}})
	}
	f.add(marks, shape{kind: boxesShape, lines: lines, tone: m.Tone, form: m.Form, tip: m.Tip})
}

func (f *frame) drawPath(m *Mark) {
	s := shape{kind: pathShape, tone: m.Tone, form: m.Form, tip: m.Tip, closed: m.Kind == Area}
	var cur []point
	flush := func() {
		if len(cur) > 1 {
			s.lines = append(s.lines, cur)
		}
		cur = nil
	}
	for _, v := range m.Points {
		if !gpuprof.IsFinite(v[0]) || m.Kind != Flags && !gpuprof.IsFinite(v[1]) {
			flush()
			continue
		}
		at := point{f.x(v[0]), f.y(v[1])}
		switch m.Kind {
		case Samples:
			s.lines = append(s.lines, []point{at, at})
		case Flags:
			s.lines = append(s.lines, []point{{at.x, f.y0 - 6}, {at.x, f.y0 + 2}})
		default:
			cur = append(cur, at)
		}
	}
	if m.Kind == Area && len(cur) > 0 {
		base := f.y(m.Y0)
		cur = append(append([]point{{cur[0].x, base}}, cur...), point{cur[len(cur)-1].x, base})
	}
	flush()
	if len(s.lines) > 0 {
		f.add(marks, s)
	}
}

const bigDot, smallDot = 5.0, 3.5

func dotShape(x, y, r float64, tone Tone, of Shape) shape {
	switch of {
	case Square:
		return shape{kind: rectShape, x: x - r*0.9, y: y - r*0.9, w: r * 1.8, h: r * 1.8, tone: tone}
	case Ring:
		return shape{kind: circleShape, x: x, y: y, w: r - 1, tone: tone, ring: true}
	}
	return shape{kind: circleShape, x: x, y: y, w: r, tone: tone}
}

func (f *frame) drawDot(m *Mark) {
	r := bigDot
	if m.Small {
		r = smallDot
	}
	s := dotShape(f.x(m.X0), f.y(m.Y0), r, m.Tone, m.Shape)
	s.tip, s.class = m.Tip, "mark"
	f.taken = append(f.taken, box{s.x - 1, s.y - 1, s.x + 1, s.y + 1})
	f.add(above, s)
}

// drawInterval draws a line with a bar at an end inside the axis, and an arrow at an end beyond it.
func (f *frame) drawInterval(m *Mark) {
	across := m.Y0 == m.Y1
	s := shape{kind: pathShape, tone: m.Tone, form: Whisker, tip: m.Tip}
	a, b := point{f.x(m.X0), f.y(m.Y0)}, point{f.x(m.X1), f.y(m.Y1)}
	s.lines = [][]point{{a, b}}
	for i, end := range []point{a, b} {
		way := 1 - 2*float64(i) // towards the middle
		v, axis := [2]float64{m.X0, m.X1}[i], &f.p.X
		if !across {
			v, axis, way = [2]float64{m.Y0, m.Y1}[i], &f.p.Y, -way
		}
		turn := func(along, aside float64) point {
			if across {
				return point{end.x + along, end.y + aside}
			}
			return point{end.x + aside, end.y + along}
		}
		if axis.hasValue(v) {
			s.lines = append(s.lines, []point{turn(0, -4), turn(0, 4)})
		} else {
			s.lines = append(s.lines, []point{turn(6*way, -4), turn(0, 0), turn(6*way, 4)})
		}
	}
	f.add(marks, s)
}

func (f *frame) drawRule(m *Mark) {
	line := []point{{f.x(m.X0), f.y0}, {f.x(m.X0), f.y1}}
	if m.Across {
		line = []point{{f.x0, f.y(m.Y0)}, {f.x1, f.y(m.Y0)}}
	}
	f.add(rulers, shape{kind: pathShape, lines: [][]point{line}, tone: m.Tone, form: m.Form})
	if m.Text == "" {
		return
	}
	y := f.y0 + 12
	if !m.Across && f.y(m.Y0) < (f.y0+f.y1)/2 { // the mark that the text describes is at the top
		y = f.y1 - 6
	}
	f.addText(line[0].x+6, y, -1, Ink, "", m.Text)
}

func (d *drawing) addBand(m Mark, at func(float64) float64, left, right, top, bottom float64) {
	x0 := at(m.X0)
	x1 := max(at(m.X1), x0+1)
	if m.X1 < m.X0 || x0 >= right || x1 <= left {
		return
	}
	d.add(behind, shape{kind: rectShape, x: x0, y: top, w: x1 - x0, h: bottom - top, tone: m.Tone, form: Behind, tip: m.Tip})
}

// placeNear draws dot labels in free space; a label without space is only in the tooltip.
func (f *frame) placeNear() {
	for _, n := range f.near {
		own := box{n.at.x - 5, n.at.y - 5, n.at.x + 5, n.at.y + 5}
		f.taken = append(f.taken, own)
	}
	for _, n := range f.near {
		text := f.clipText(n.text, textSize, 180)
		w := f.textWidth(text, textSize)
		for _, off := range []point{{10, 4}, {-10 - w, 4}, {6, -10}, {6, 18}, {-6 - w, -10}, {-6 - w, 18}, {-w / 2, -20}, {-w / 2, 28}} {
			x, y := n.at.x+off.x, n.at.y+off.y
			if x >= f.x0 && x+w <= f.x1 && y > f.y0 && y < f.y1 && f.addText(x, y, -1, Ink, "", text) {
				break
			}
		}
	}
}
