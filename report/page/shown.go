package page

import (
	"math/bits"

	"github.com/gpuprof/gpuprof/report/internal/view"
)

// Limits of texts in characters, by their position. Writers apply them; a builder cuts a text itself only if its column
// has less room.
const (
	cellText, labelText, longText = 240, 64, 600
)

func (c Cell) limitTexts() Cell {
	c.Text = view.Cut(c.Text, cellText)
	return c
}

func (l Line) limitTexts() Line {
	l.Label, l.Value, l.Note = view.Cut(l.Label, labelText), view.Cut(l.Value, longText), view.Cut(l.Note, longText)
	return l
}

func (it Item) limitTexts() Item {
	it.Label, it.Text = view.Cut(it.Label, labelText), view.Cut(it.Text, longText)
	return it
}

// HeadingShown reports whether a format shows the section's heading.
func (s Section) HeadingShown(format Where) bool {
	in := s.HeadingIn
	if in == 0 {
		in = Markdown | HTML
	}
	return s.Heading != "" && in.In(format)
}

// Shown is the blocks that a format shows.
func (s Section) Shown(format Where) []Block {
	var out []Block
	for _, b := range s.Blocks {
		if b != nil && b.Shown().In(format) {
			if t, ok := b.(Text); ok {
				t.S = view.Cut(t.S, longText)
				b = t
			}
			out = append(out, b)
		}
	}
	return out
}

// keepFactor multiplies a table's limit for rows with Keep.
const keepFactor = 5

// For is the table as a format shows it: its columns, its rows with their cells,
// one for each of those columns, and how many rows Max leaves out.
func (b Table) For(format Where) (columns []Column, rows []Row, left int) {
	var at []int
	for i, c := range b.Columns {
		if c.In.In(format) {
			at, columns = append(at, i), append(columns, c)
		}
	}
	most := b.Max[bits.TrailingZeros8(uint8(format))]
	shown := map[bool]int{}
	for _, r := range b.Rows {
		if !r.In.In(format) {
			continue
		}
		limit := most
		if r.Keep {
			limit *= keepFactor
		}
		if shown[r.Keep]++; most > 0 && shown[r.Keep] > limit {
			left++
			continue
		}
		cells := make([]Cell, len(at))
		for j, i := range at {
			if i < len(r.Cells) {
				cells[j] = r.Cells[i].limitTexts()
			}
		}
		r.Cells = cells
		rows = append(rows, r)
	}
	return columns, rows, left
}

// For is the items that a format shows, and how many Max leaves out.
func (b List) For(format Where) (items []Item, left int) {
	for _, it := range b.Items {
		switch {
		case !it.In.In(format):
		case b.Max > 0 && format != HTML && len(items) == b.Max:
			left++
		default:
			items = append(items, it.limitTexts())
		}
	}
	return items, left
}

// LinesIn is the lines that a format shows.
func LinesIn(lines []Line, format Where) []Line {
	var out []Line
	for _, l := range lines {
		if l.In.In(format) {
			out = append(out, l.limitTexts())
		}
	}
	return out
}
