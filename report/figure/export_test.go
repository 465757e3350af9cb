package figure

import "fmt"

// Dump is a figure as numbers: what its marks are at, in the units of its axes.
func (f *Figure) Dump() string {
	out := fmt.Sprintf("%s %q of %q\n%s\n", f.ID, f.Title, f.Subject, f.AltText())
	list := func(name string, lines []string) {
		for _, l := range lines {
			out += name + ": " + l + "\n"
		}
	}
	list("context", f.Context)
	for _, e := range f.Legend {
		out += fmt.Sprintf("legend: %s %s %d %s\n", e.Tone, e.Form, e.Shape, e.Text)
	}
	list("note", f.Notes)
	list("remark", f.Remarks)
	if f.Notice != "" {
		out += "notice: " + f.Notice + "\nlacks: " + f.Lacks + "\n"
	}
	for _, m := range f.Behind {
		out += m.dump()
	}
	for i := range f.Panels {
		for p := &f.Panels[i]; p != nil; p = p.Side {
			out += fmt.Sprintf("panel %q %q %q right %q notes %q\n x %s\n y %s\n", p.Name, p.Sub, p.Title, p.Right, p.RowNotes, p.X.dump(), p.Y.dump())
			for _, m := range p.Marks {
				out += m.dump()
			}
		}
	}
	return out
}

func (a *Axis) dump() string {
	return fmt.Sprintf("scale %d from %.6g to %.6g per %.6g %q names %q", a.Scale, a.Min, a.Max, a.unitSize(), a.Label, a.Names)
}

func (m *Mark) dump() string {
	out := fmt.Sprintf("  kind %d x %.6g %.6g y %.6g %.6g %s %s %d %q %q", m.Kind, m.X0, m.X1, m.Y0, m.Y1, m.Tone, m.Form, m.Shape, m.Text, m.Tip)
	for i, p := range m.Points {
		if i == 40 {
			out += fmt.Sprintf(" and %d more", len(m.Points)-i)
			break
		}
		out += fmt.Sprintf(" %.6g,%.6g", p[0], p[1])
	}
	return out + "\n"
}

// Overlaps are the texts of a figure that lie over each other or beyond its edge,
// by the fonts that PNG is written in. A height of 0 is the figure in a page.
func (f *Figure) Overlaps(w, h float64) (out []string) {
	d := f.layOut(w, h, h > 0)
	var all []shape
	var boxes []box
	for _, s := range d.listShapes() {
		if s.kind != textShape {
			continue
		}
		face := fontFace(s.size, s.size > textSize)
		wide := float64(face.Width(s.text))
		x := s.x - wide*float64(s.anchor+1)/2
		b := box{x, s.y - s.size*0.72, x + wide, s.y + s.size*0.15}
		if b.x0 < -2 || b.x1 > d.w+2 || b.y0 < -1 || b.y1 > d.h+1 {
			out = append(out, "beyond the edge: "+s.text)
		}
		for i, o := range boxes {
			if b.overlaps(o) {
				out = append(out, all[i].text+" | "+s.text)
			}
		}
		all, boxes = append(all, s), append(boxes, b)
	}
	return out
}

// Bars are the rectangles with a tooltip: their middle, and their colour.
func (f *Figure) Bars(w, h float64) (at [][2]float64, colours []string) {
	for _, s := range f.layOut(w, h, true).listShapes() {
		if s.kind == rectShape && s.tip != "" && s.form == "" && s.w > 3 && s.h > 3 {
			at, colours = append(at, [2]float64{s.x + 1.5, s.y + 1.5}), append(colours, hexColor(s.tone.lightColor()))
		}
	}
	return at, colours
}
