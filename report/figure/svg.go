package figure

import (
	"encoding/xml"
	"fmt"
	"image/color"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuprof/gpuprof/report/runfile"
)

// Inline is the figure as an element of a page, whose colours are classes of CSS
// so that light, dark and print each have their own. id is unique in the page. It
// is empty where there is nothing to draw.
func (f *Figure) Inline(id string) string {
	return f.inline(id, "figure", pageWidth)
}

// InlineNarrow is the figure as Inline has it, laid out for the width of a phone.
// What stands beside its rows has no room there.
func (f *Figure) InlineNarrow(id string) string {
	slim := *f
	slim.Panels = slices.Clone(f.Panels)
	for i := range slim.Panels {
		slim.Panels[i].RowNotes = nil
	}
	return slim.inline(id, "figure slim", narrowWidth)
}

func (f *Figure) inline(id, class string, width float64) string {
	if f.Empty() {
		return ""
	}
	d := f.layout(width, 0, false)
	s := &svg{}
	id = quoted(id)
	fmt.Fprintf(s, "<div class=\"scroll\" role=\"region\" aria-label=\"%s\" tabindex=\"0\">\n", quoted(f.Title))
	fmt.Fprintf(s, "<svg class=\"%s\" viewBox=\"0 0 %s %s\" role=\"img\" aria-labelledby=\"%s-t %s-d\">\n", class, number(d.w), number(d.h), id, id)
	fmt.Fprintf(s, "<title id=\"%s-t\">%s</title>\n<desc id=\"%s-d\">%s</desc>\n", id, quoted(f.Title), id, quoted(f.Words()))
	for _, shape := range d.shapes() {
		s.shape(shape, shape.classes())
	}
	s.WriteString("</svg>\n</div>")
	return s.String()
}

// classes are a shape's tone and form, and what it is found by.
func (s *shape) classes() string {
	names := []string{string(s.tone), string(s.form), s.class}
	if s.kind == textShape && s.tone == Ink { // the colour of text that has no class
		names[0] = ""
	}
	if s.ring {
		names = append(names, "ring")
	}
	if strings.Join(names, "") == "" {
		return ""
	}
	return ` class="` + strings.Join(strings.Fields(strings.Join(names, " ")), " ") + `"`
}

// svgFile writes a file of its own, as many points wide and high as it is units. It
// looks the same under a Content-Security-Policy that allows nothing: no script, no
// style and no reference to anything outside; colours are attributes.
func (f *Figure) svgFile(w io.Writer, width, height float64) error {
	d := f.layout(width, height, true)
	s := &svg{}
	s.WriteString("<?xml version=\"1.0\"?>\n<!-- " + runfile.Marker + " -->\n")
	fmt.Fprintf(s, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%spt\" height=\"%spt\" viewBox=\"0 0 %s %s\" role=\"img\" font-family=\"Liberation Sans, Arial, sans-serif\" font-size=\"12\">\n",
		number(d.w), number(d.h), number(d.w), number(d.h))
	fmt.Fprintf(s, "<title>%s</title>\n<desc>%s</desc>\n<rect x=\"0\" y=\"0\" width=\"%s\" height=\"%s\" fill=\"#ffffff\"/>\n", quoted(f.Title), quoted(f.Words()), number(d.w), number(d.h))
	for _, shape := range d.shapes() {
		s.shape(shape, shape.attributes())
	}
	s.WriteString("</svg>\n")
	_, err := io.WriteString(w, s.String())
	return err
}

// attributes are a shape's tone and form as colours on light ground.
func (s *shape) attributes() string {
	c, m := hex(s.tone.light()), s.form.manner()
	switch {
	case s.kind == textShape && s.size > textSize:
		return attributes("fill", c, "font-size", number(s.size), "font-weight", "bold")
	case s.ring:
		return attributes("fill", "#ffffff", "stroke", c, "stroke-width", "2")
	case m.stroke == 0 && m.opacity < 1:
		return attributes("fill", c, "fill-opacity", fmt.Sprint(m.opacity))
	case m.stroke == 0:
		return attributes("fill", c)
	}
	out := attributes("fill", "none", "stroke", c, "stroke-width", number(m.stroke))
	if m.dash > 0 {
		out += attributes("stroke-dasharray", number(m.dash)+" "+number(m.dash))
	}
	if m.roundedDotted {
		out += attributes("stroke-linecap", "round", "stroke-opacity", fmt.Sprint(m.opacity))
	}
	return out
}

// attributes are names and values in turns.
func attributes(pairs ...string) string {
	var b strings.Builder
	for i := 0; i < len(pairs); i += 2 {
		b.WriteString(" " + pairs[i] + `="` + pairs[i+1] + `"`)
	}
	return b.String()
}

func hex(c color.NRGBA) string { return fmt.Sprintf("#%02x%02x%02x", c.R, c.G, c.B) }

// svg writes primitives with the paint they are given.
type svg struct{ strings.Builder }

func (b *svg) shape(s shape, paint string) {
	name, end := "rect", "/>\n"
	switch s.kind {
	case circleShape:
		name = "circle"
	case pathShape, boxesShape:
		name = "path"
	case textShape:
		name = "text"
	}
	b.WriteString("<" + name + paint)
	switch s.kind {
	case rectShape:
		b.WriteString(` x="` + number(s.x) + `" y="` + number(s.y) + `" width="` + number(s.w) + `" height="` + number(s.h) + `"`)
	case circleShape:
		b.WriteString(` cx="` + number(s.x) + `" cy="` + number(s.y) + `" r="` + number(s.w) + `"`)
	case pathShape, boxesShape:
		b.WriteString(` d="`)
		for _, l := range s.lines {
			b.line(l, s.kind, s.closed)
		}
		b.WriteString(`"`)
	case textShape:
		b.WriteString(` x="` + number(s.x) + `" y="` + number(s.y) + `"`)
		if a := [3]string{"", "middle", "end"}[s.anchor+1]; a != "" {
			b.WriteString(` text-anchor="` + a + `"`)
		}
		end = ">" + quoted(s.text) + "</text>\n"
	}
	if s.tip != "" && s.kind != textShape {
		end = "><title>" + quoted(s.tip) + "</title></" + name + ">\n"
	}
	b.WriteString(end)
}

// line writes a part of a path; a point alone is a dot, two corners a box.
func (b *svg) line(l []point, kind shapeKind, closed bool) {
	b.WriteString("M" + number(l[0].x) + " " + number(l[0].y))
	if kind == boxesShape {
		b.WriteString("H" + number(l[1].x) + "V" + number(l[1].y) + "H" + number(l[0].x) + "z")
		return
	}
	last := l[0]
	for _, p := range l[1:] {
		switch {
		case p == last && len(l) == 2:
			b.WriteString("h0")
		case p.x == last.x:
			b.WriteString("V" + number(p.y))
		case p.y == last.y:
			b.WriteString("H" + number(p.x))
		default:
			b.WriteString("L" + number(p.x) + " " + number(p.y))
		}
		last = p
	}
	if closed {
		b.WriteString("z")
	}
}

// number prints a coordinate: a tenth of a unit is enough.
func number(v float64) string { return strconv.FormatFloat(math.Round(v*10)/10+0, 'f', -1, 64) }

// quoted is a text as XML holds it, between tags and in attributes.
func quoted(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s)) // a Builder does not fail
	return b.String()
}
