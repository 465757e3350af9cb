package page

import (
	"cmp"
	"math/bits"
	"slices"

	"github.com/gpuprof/gpuprof/report/internal/view"
)

// Limits of texts, in characters, by position; applied when a writer asks for a part of a page.
const (
	cellText, labelText, headText, longText, detailText = 240, 64, 160, 600, 2000
)

// Head returns the title and the meta texts of a page.
func (p *Page) Head() (title string, meta []string) {
	for _, m := range p.Meta {
		meta = append(meta, view.Cut(m, headText))
	}
	return view.Cut(p.Title, headText), meta
}

func (c Cell) limitTexts(most int) Cell {
	c.Text = view.Cut(c.Text, most)
	return c
}

func (l Line) limitTexts() Line {
	l.Label, l.Value, l.Note = view.Cut(l.Label, labelText), view.Cut(l.Value, longText), view.Cut(l.Note, longText)
	return l
}

func (it Item) limitTexts() Item {
	it.Label, it.Text = view.Cut(it.Label, labelText), view.Cut(it.Text, longText)
	it.Sub = slices.Clone(it.Sub)
	for i, s := range it.Sub {
		it.Sub[i] = view.Cut(s, detailText)
	}
	return it
}

// HeadingShown reports whether a format shows the section's heading.
func (s Section) HeadingShown(format Where) bool {
	return s.Heading != "" && cmp.Or(s.HeadingIn, Markdown|HTML).In(format)
}

// Shown returns the blocks that a format shows.
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

func (c Column) textLimit() int {
	if c.Remark {
		return longText
	}
	return cellText
}

// keepFactor multiplies a table's limit for rows with Keep.
const keepFactor = 5

// For returns the columns that a format shows, the rows with a cell for each of them, and the number of rows above Max.
func (b Table) For(format Where) (columns []Column, rows []Row, left int) {
	var at []int
	for i, c := range b.Columns {
		if c.In.In(format) {
			c.Title = view.Cut(c.Title, labelText)
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
				cells[j] = r.Cells[i].limitTexts(columns[j].textLimit())
			}
			if cells[j].Text == "" && !columns[j].Remark {
				cells[j].Text = view.None
			}
		}
		r.Cells = cells
		rows = append(rows, r)
	}
	return columns, rows, left
}

// For returns the items that a format shows, and the number of items above Max.
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

// LinesIn returns the lines that a format shows.
func LinesIn(lines []Line, format Where) []Line {
	var out []Line
	for _, l := range lines {
		if l.In.In(format) {
			out = append(out, l.limitTexts())
		}
	}
	return out
}
