package figure

import (
	"fmt"
	"strings"
)

// pageWidth is the width of a figure in a page, in units of the layout. In a standalone file, one unit is one point.
const pageWidth = 960.0

// narrowWidth is the width of a figure on a phone, in units of the layout.
const narrowWidth = 380.0

const (
	legendRow   = 20.0
	noteRow     = 15.0
	leastPitch  = 13.0 // least height of a row, so that names do not touch
	leastPanels = 0.45 // least height of the panels, as a share of their preferred height
	mostStretch = 1.8  // largest factor by which panels grow; a picture with few rows stays partly empty
	leastArea   = 36.0 // below this height only the title is drawn
)

type shapeKind int

const (
	rectShape   shapeKind = iota // x, y, w, h
	circleShape                  // centre x, y, radius w
	pathShape                    // lines
	boxesShape                   // lines of two points: opposite corners
	textShape                    // baseline x, y
)

type point struct{ x, y float64 }

// shape is a primitive in units of the layout, y pointing down. The backends draw only shapes.
type shape struct {
	kind       shapeKind
	x, y, w, h float64
	lines      [][]point
	closed     bool
	tone       Tone
	form       Form
	ring       bool
	class      string // CSS class for a page's script and tests
	tip        string
	text       string
	anchor     int // -1: text begins at x, 0: centred, 1: ends at x
	size       float64
}

// drawing is a figure's layout: shapes from back to front.
type drawing struct {
	ems
	w, h   float64
	margin float64
	slack  float64 // height that the panels did not use
	layers [4][]shape
	taken  []box // areas taken by texts
}

const (
	behind = iota
	rulers
	marks
	above
)

func (d *drawing) add(layer int, s shape) { d.layers[layer] = append(d.layers[layer], s) }

// listShapes lists the shapes from back to front.
func (d *drawing) listShapes() []shape {
	var out []shape
	for _, l := range d.layers {
		out = append(out, l...)
	}
	return out
}

// addText draws a text, moved inside the drawing; false if another text covers its area.
func (d *drawing) addText(x, y float64, anchor int, tone Tone, class, s string) bool {
	s = d.clipText(s, textSize, d.w)
	w := d.textWidth(s, textSize)
	left := x - w*float64(anchor+1)/2
	moved := min(max(left, 0), max(d.w-w, 0))
	b := box{moved - 2, y - textSize*0.8, moved + w + 2, y + textSize*0.2}
	if s == "" || b.y1 > d.h && d.h > 0 {
		return false
	}
	for _, t := range d.taken {
		if b.overlaps(t) {
			return false
		}
	}
	d.taken = append(d.taken, b)
	d.add(above, shape{kind: textShape, x: x + moved - left, y: y, anchor: anchor, tone: tone, class: class, text: s, size: textSize})
	return true
}

// layOut lays out a figure of width w and height h (0: as high as the panels). alone adds the title, the context and
// the remarks, which only a standalone file shows.
func (f *Figure) layOut(w, h float64, alone bool) *drawing {
	d := &drawing{ems: anyFont, w: w, h: h}
	top := 0.0
	notes := f.Notes
	if alone {
		d.ems, d.margin = namedFont, 12
		notes = append(append([]string{}, f.Notes...), f.Remarks...)
		top = d.addHead(f)
	}
	margin := d.margin
	top = d.addLegend(f.Legend, top)
	panels := f.Panels
	if h > 0 {
		var left string
		if panels, left = fitPanels(panels, h-top-margin-noteRow*float64(len(d.noteLines(notes, w)))); left != "" {
			notes = append([]string{left}, notes...)
		}
	}
	lines := d.noteLines(notes, w-2*margin)
	bottom := h - margin - noteRow*float64(len(lines))
	switch {
	case h > 0 && (bottom-top < leastArea || w-2*margin < leastArea):
		return d // only the title
	case f.Notice != "" && alone:
		for i, l := range d.wrapText(f.Notice, w*0.8, 8) {
			d.addText(w/2, (top+bottom)/2+float64(i)*20, 0, Ink, "", l)
		}
	case h > 0:
		d.slack = max(0, bottom-d.addPanels(f, panels, margin, w-margin, top, bottom))
	default:
		bottom = d.addPanels(f, panels, margin, w-margin, top, 0)
		d.h = bottom + noteRow*float64(len(lines))
	}
	for i, l := range lines {
		d.addText(margin, bottom+noteRow*float64(i+1)-3, -1, Soft, "", l)
	}
	return d
}

func (d *drawing) noteLines(notes []string, w float64) []string {
	if len(notes) == 0 {
		return nil
	}
	return d.wrapText(strings.Join(notes, "; "), w, 4)
}

// addHead places title and context, and returns the y coordinate below them.
func (d *drawing) addHead(f *Figure) float64 {
	margin := d.margin
	title := f.Title
	if f.Subject != "" {
		title = f.Subject + ": " + strings.ToLower(title[:1]) + title[1:]
	}
	room := d.w - 2*margin
	d.add(above, shape{kind: textShape, x: margin, y: margin + titleSize*0.85, anchor: -1, tone: Ink, text: d.clipText(title, titleSize, room), size: titleSize})
	y := margin + titleSize + 2
	if context := strings.Join(f.Context, " · "); context != "" {
		y += lineRoom
		d.addText(margin, y, -1, Soft, "", d.clipText(context, textSize, room))
	}
	return y + 10
}

// addLegend places the legend in rows, and returns the y coordinate below it.
func (d *drawing) addLegend(entries []Entry, y float64) float64 {
	x0, x1 := d.margin, d.w-d.margin
	if len(entries) == 0 {
		return y
	}
	x := x0
	y += legendRow / 2
	for _, e := range entries {
		label := d.clipText(e.Text, textSize, max(x1-x0-18, 1))
		w := 18 + d.textWidth(label, textSize) + 18
		if x > x0 && x+w-18 > x1 {
			x, y = x0, y+legendRow
		}
		d.addSwatch(e, x, y)
		d.addText(x+18, y+4, -1, Ink, "", label)
		x += w
	}
	return y + legendRow/2 + 4
}

func (d *drawing) addSwatch(e Entry, x, y float64) {
	switch {
	case e.Dot:
		d.add(marks, dotShape(x+6, y, 5, e.Tone, e.Shape))
	case e.Form == Stroke || e.Form == Outline || e.Form == Dashed:
		d.add(marks, shape{kind: pathShape, lines: [][]point{{{x, y}, {x + 12, y}}}, tone: e.Tone, form: e.Form})
	default:
		d.add(marks, shape{kind: rectShape, x: x, y: y - 5, w: 12, h: 10, tone: e.Tone, form: e.Form})
	}
}

// fitPanels drops rows and panels that do not fit into the height room; left is a note with the number of dropped ones.
func fitPanels(all []Panel, room float64) (out []Panel, left string) {
	out = all
	for len(out) > 1 && stretchFactor(out, room) < leastPanels {
		out = dropLast(out)
	}
	if n := len(all) - len(out); n > 0 {
		return out, fmt.Sprintf("%d more rows found no room", n)
	}
	for i := range out {
		p := &out[i]
		high := min(stretchFactor(out, room), mostStretch) * p.Height
		if n := len(p.Y.Names); p.Y.Scale == Rows && high/float64(max(n, 1)) < leastPitch {
			keep := max(int(high/leastPitch), 1)
			if keep < n {
				out = append([]Panel{}, out...)
				out[i] = p.firstRows(keep)
				left = fmt.Sprintf("the first %d of %d rows", keep, n)
			}
		}
	}
	return out, left
}

// dropLast drops the last panel, and moves a shared X axis to the panel above.
func dropLast(panels []Panel) []Panel {
	n := len(panels) - 1
	out, last := append([]Panel{}, panels[:n]...), &panels[n]
	p := &out[n-1]
	if p.X.Bare {
		p.X.Bare, p.X.Label = last.X.Bare, last.X.Label
	}
	if p.Side != nil && last.Side != nil {
		side := *p.Side
		side.X.Bare, side.X.Label = last.Side.X.Bare, last.Side.X.Label
		p.Side = &side
	}
	return out
}

func (p *Panel) firstRows(n int) Panel {
	out := *p
	out.Height = p.Height * float64(n) / float64(len(p.Y.Names))
	out.Y.Names, out.Y.Max = p.Y.Names[:n], float64(n)
	out.RowNotes = p.RowNotes[:min(n, len(p.RowNotes))]
	out.Marks = nil
	for _, m := range p.Marks {
		if m.Kind == Rule || m.Y0 < float64(n) {
			out.Marks = append(out.Marks, m)
		}
	}
	return out
}

// marginAround returns the margins above and below a panel's plot area, in units.
func (p *Panel) marginAround() (over, under float64) {
	over, under = 6, 8
	if p.Title != "" || p.Y.Label != "" {
		over = 22
	}
	if !p.X.Bare {
		under += lineRoom
		if p.X.Label != "" || p.Side != nil && p.Side.X.Label != "" {
			under += lineRoom
		}
	}
	return over, under
}

// stretchFactor returns the factor by which plot areas grow to fill a height, in units.
func stretchFactor(panels []Panel, room float64) float64 {
	area := 1e-9
	for i := range panels {
		over, under := panels[i].marginAround()
		room -= over + under
		area += panels[i].Height
	}
	return room / area
}

// addPanels places the panels between top and bottom (0: at preferred heights) and returns their lower end.
func (d *drawing) addPanels(f *Figure, panels []Panel, x0, x1, top, bottom float64) float64 {
	stretch := 1.0
	if bottom > 0 {
		stretch = stretchFactor(panels, bottom-top)
	}
	room := d.roomBeside(panels, x1-x0)
	left, right := x0+room.leftWidth(), x1-room.right
	y, first, last := top, 0.0, 0.0
	for i := range panels {
		p := &panels[i]
		over, under := p.marginAround()
		h := p.Height * stretch
		if p.Y.Scale == Rows {
			h = p.Height * min(stretch, mostStretch)
		}
		if right-left < leastArea || h < 8 {
			return y
		}
		if i == 0 {
			first = y + over
		}
		last = y + over + h
		d.placePanel(p, room, x0, left, right, y+over, last)
		y = last + under
	}
	if len(panels) > 0 {
		at := panels[0].X.scaleTo(left, right)
		for _, m := range f.Behind {
			d.addBand(m, at, left, right, first-6, last)
		}
	}
	return y
}

// placePanel draws a panel with its side panel and side texts.
func (d *drawing) placePanel(p *Panel, room besides, x0, left, right, top, bottom float64) {
	end := right
	if p.Side != nil {
		end = left + (right-left)*0.72
		side := *p.Side
		side.Y = p.Y
		side.Y.Ticks, side.Y.Label, side.Y.Names = []Tick{}, "", nil
		d.addPanel(&side, end+14, right, top, bottom)
	}
	d.addPanel(p, left, end, top, bottom)
	mid := (top + bottom) / 2
	if p.Name != "" {
		y := mid + 4
		if p.Sub != "" {
			y -= lineRoom / 2
		}
		d.addText(x0, y, -1, Ink, "", d.clipText(p.Name, textSize, room.names))
		d.addText(x0, y+lineRoom, -1, Soft, "", d.clipText(p.Sub, textSize, room.names))
	}
	over, under := p.marginAround() // more lines would overlap the first line of the next panel
	beside := p.Right[:min(len(p.Right), max(1, int((bottom-top+over+under)/lineRoom)))]
	for i, l := range beside {
		tone := Soft
		if i == 0 {
			tone = Ink
		}
		d.addText(right+12, mid+4+lineRoom*(float64(i)-float64(len(beside)-1)/2), -1, tone, "", d.clipText(l, textSize, room.right-12))
	}
	at := p.Y.scaleTo(bottom, top)
	for i, l := range p.RowNotes {
		d.addText(right+12, at(float64(i)+0.5)+4, -1, Ink, "", d.clipText(l, textSize, room.right-12))
	}
}

// besides has the widths of the texts left and right of the panels, equal for all panels so that their axes line up.
type besides struct{ names, ticks, right float64 }

func (b besides) leftWidth() float64 {
	if b.names > 0 {
		return b.names + 10 + b.ticks
	}
	return b.ticks
}

func (d *drawing) roomBeside(panels []Panel, w float64) besides {
	b := besides{right: 14}
	for i := range panels {
		p := &panels[i]
		b.names = max(b.names, min(d.textWidth(p.Name, textSize), w*0.2), min(d.textWidth(p.Sub, textSize), w*0.2))
		for _, n := range p.Y.Names {
			b.ticks = max(b.ticks, min(d.textWidth(n, textSize), w*0.28)+10)
		}
		if p.Y.Scale != Rows && !p.Y.Bare {
			for _, t := range p.Y.ticksOf(p.Height, 40) {
				b.ticks = max(b.ticks, min(d.textWidth(t.Label, textSize), w*0.2)+10)
			}
		}
		for _, s := range [][]string{p.Right, p.RowNotes} {
			for _, l := range s {
				b.right = max(b.right, min(d.textWidth(l, textSize)+14, w*0.44))
			}
		}
	}
	return b
}
