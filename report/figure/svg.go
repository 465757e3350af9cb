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

// Inline returns the figure as an HTML element; "" without panels. Colours are CSS classes, which differ in light, dark
// and print. id must be unique in the page.
func (f *Figure) Inline(id string) string {
	return f.writeInline(id, "figure", pageWidth)
}

// InlineNarrow is Inline for the width of a phone, without the notes right of rows.
func (f *Figure) InlineNarrow(id string) string {
	slim := *f
	slim.Panels = slices.Clone(f.Panels)
	for i := range slim.Panels {
		slim.Panels[i].RowNotes = nil
	}
	return slim.writeInline(id, "figure slim", narrowWidth)
}

func (f *Figure) writeInline(id, class string, width float64) string {
	if f.Empty() {
		return ""
	}
	d := f.layOut(width, 0, false)
	s := &svg{}
	id = quoteText(id)
	fmt.Fprintf(s, "<div class=\"scroll\" role=\"region\" aria-label=\"%s\" tabindex=\"0\">\n", quoteText(f.Title))
	fmt.Fprintf(s, "<svg class=\"%s\" viewBox=\"0 0 %s %s\" role=\"img\" aria-labelledby=\"%s-t %s-d\">\n", class, formatNumber(d.w), formatNumber(d.h), id, id)
	fmt.Fprintf(s, "<title id=\"%s-t\">%s</title>\n<desc id=\"%s-d\">%s</desc>\n", id, quoteText(f.Title), id, quoteText(f.AltText()))
	for _, shape := range d.listShapes() {
		s.writeShape(shape, shape.cssClasses())
	}
	s.WriteString("</svg>\n</div>")
	return s.String()
}

// cssClasses returns the class attribute of a shape: tone, form, and names for scripts.
func (s *shape) cssClasses() string {
	names := []string{string(s.tone), string(s.form), s.class}
	if s.kind == textShape && s.tone == Ink { // the default colour of text
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

// svgFile writes a file of its own, one unit per point. Without script, style and references, and with colours as
// attributes, it looks the same under a strict Content-Security-Policy.
func (f *Figure) svgFile(w io.Writer, width, height float64) error {
	d := f.layOut(width, height, true)
	s := &svg{}
	s.WriteString("<?xml version=\"1.0\"?>\n<!-- " + runfile.Marker + " -->\n")
	fmt.Fprintf(s, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%spt\" height=\"%spt\" viewBox=\"0 0 %s %s\" role=\"img\" font-family=\"Liberation Sans, Arial, sans-serif\" font-size=\"12\">\n",
		formatNumber(d.w), formatNumber(d.h), formatNumber(d.w), formatNumber(d.h))
	fmt.Fprintf(s, "<title>%s</title>\n<desc>%s</desc>\n<rect x=\"0\" y=\"0\" width=\"%s\" height=\"%s\" fill=\"#ffffff\"/>\n", quoteText(f.Title), quoteText(f.AltText()), formatNumber(d.w), formatNumber(d.h))
	for _, shape := range d.listShapes() {
		s.writeShape(shape, shape.svgAttributes())
	}
	s.WriteString("</svg>\n")
	_, err := io.WriteString(w, s.String())
	return err
}

// svgAttributes returns a shape's colours and line style on a light background.
func (s *shape) svgAttributes() string {
	c, m := hexColor(s.tone.lightColor()), s.form.findManner()
	switch {
	case s.kind == textShape && s.size > textSize:
		return joinAttributes("fill", c, "font-size", formatNumber(s.size), "font-weight", "bold")
	case s.ring:
		return joinAttributes("fill", "#ffffff", "stroke", c, "stroke-width", "2")
	case m.stroke == 0 && m.opacity < 1:
		return joinAttributes("fill", c, "fill-opacity", fmt.Sprint(m.opacity))
	case m.stroke == 0:
		return joinAttributes("fill", c)
	}
	out := joinAttributes("fill", "none", "stroke", c, "stroke-width", formatNumber(m.stroke))
	if m.dash > 0 {
		out += joinAttributes("stroke-dasharray", formatNumber(m.dash)+" "+formatNumber(m.dash))
	}
	if m.roundedDotted {
		out += joinAttributes("stroke-linecap", "round", "stroke-opacity", fmt.Sprint(m.opacity))
	}
	return out
}

func joinAttributes(pairs ...string) string {
	var b strings.Builder
	for i := 0; i < len(pairs); i += 2 {
		b.WriteString(" " + pairs[i] + `="` + pairs[i+1] + `"`)
	}
	return b.String()
}

func hexColor(c color.NRGBA) string { return fmt.Sprintf("#%02x%02x%02x", c.R, c.G, c.B) }

// svg writes primitives with given attributes.
type svg struct{ strings.Builder }

func (b *svg) writeShape(s shape, paint string) {
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
		b.WriteString(` x="` + formatNumber(s.x) + `" y="` + formatNumber(s.y) + `" width="` + formatNumber(s.w) + `" height="` + formatNumber(s.h) + `"`)
	case circleShape:
		b.WriteString(` cx="` + formatNumber(s.x) + `" cy="` + formatNumber(s.y) + `" r="` + formatNumber(s.w) + `"`)
	case pathShape, boxesShape:
		b.WriteString(` d="`)
		for _, l := range s.lines {
			b.writeLine(l, s.kind, s.closed)
		}
		b.WriteString(`"`)
	case textShape:
		b.WriteString(` x="` + formatNumber(s.x) + `" y="` + formatNumber(s.y) + `"`)
		if a := [3]string{"", "middle", "end"}[s.anchor+1]; a != "" {
			b.WriteString(` text-anchor="` + a + `"`)
		}
		end = ">" + quoteText(s.text) + "</text>\n"
	}
	if s.tip != "" && s.kind != textShape {
		end = "><title>" + quoteText(s.tip) + "</title></" + name + ">\n"
	}
	b.WriteString(end)
}

// writeLine writes a part of a path. A single point is a dot, two corners are a box.
func (b *svg) writeLine(l []point, kind shapeKind, closed bool) {
	b.WriteString("M" + formatNumber(l[0].x) + " " + formatNumber(l[0].y))
	if kind == boxesShape {
		b.WriteString("H" + formatNumber(l[1].x) + "V" + formatNumber(l[1].y) + "H" + formatNumber(l[0].x) + "z")
		return
	}
	last := l[0]
	for _, p := range l[1:] {
		switch {
		case p == last && len(l) == 2:
			b.WriteString("h0")
		case p.x == last.x:
			b.WriteString("V" + formatNumber(p.y))
		case p.y == last.y:
			b.WriteString("H" + formatNumber(p.x))
		default:
			b.WriteString("L" + formatNumber(p.x) + " " + formatNumber(p.y))
		}
		last = p
	}
	if closed {
		b.WriteString("z")
	}
}

// formatNumber formats a coordinate with one decimal.
func formatNumber(v float64) string { return strconv.FormatFloat(math.Round(v*10)/10+0, 'f', -1, 64) }

// quoteText escapes a text for XML content and attributes.
func quoteText(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s)) // a Builder does not fail
	return b.String()
}
