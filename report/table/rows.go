package table

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/olekukonko/tablewriter"
	"github.com/olekukonko/tablewriter/pkg/twwidth"
	"github.com/olekukonko/tablewriter/renderer"
	"github.com/olekukonko/tablewriter/tw"

	"github.com/gpuprof/gpuprof/report/internal/view"
	"github.com/gpuprof/gpuprof/report/page"
)

// placed is a column with its texts: the title, then the cells.
type placed struct {
	page.Column
	texts  []string
	colors []string // of the texts
	width  int
}

// buildTable formats a table with the columns that fit. Without a limit of lines it adds a legend of all columns.
func (p *printer) buildTable(b page.Table) *block {
	columns, rows, left := b.For(page.Terminal)
	out := &block{noun: b.Noun, table: true, least: leastRows, left: left}
	if len(rows) > 0 {
		all := p.placeColumns(columns, rows)
		shown := fitColumns(all, p.o.lineWidth())
		lines := p.renderGrid(shown, len(rows)+1)
		out.above = lines[:1]
		for i, r := range rows {
			out.units = append(out.units, unit{lines: lines[i+1 : i+2], keep: r.Keep, size: r.Size, gone: p.omitsVerbose(r.In)})
		}
		if p.o.Lines == 0 {
			out.below = p.captureLines(func() { p.writeLegend(all, shown) })
		}
	}
	if left > 0 && b.More != "" && p.o.Lines == 0 {
		out.below = append(out.below, p.captureLines(func() { p.writeHanging("", fmt.Sprintf(b.More, left), plain, plain) })...)
	}
	return out
}

// leastRows is the number of rows that a table keeps while other blocks can lose units.
const leastRows = 4

// placeColumns returns the first column and those with a value, with their texts for this width.
func (p *printer) placeColumns(columns []page.Column, rows []page.Row) []placed {
	narrow := p.o.lineWidth() < wideAt
	var out []placed
	for i, c := range columns {
		if c.Wide && narrow {
			continue
		}
		l := placed{Column: c}
		if narrow && c.Narrow != "" {
			l.Title = c.Narrow
		}
		said := i == 0
		l.add(l.Title, plain)
		for _, r := range rows {
			cell := r.Cells[i]
			text := cell.Text
			if narrow && cell.Narrow != "" {
				text = cell.Narrow
			}
			said = said || text != "" && text != view.None
			l.add(text, colorOf(cell.Tone))
		}
		if said {
			out = append(out, l)
		}
	}
	return out
}

func (l *placed) add(text, color string) {
	if l.Most > 0 {
		text = cutToWidth(text, l.Most)
	}
	l.texts, l.colors = append(l.texts, text), append(l.colors, color)
	l.width = max(l.width, twwidth.Width(text))
}

// renderGrid renders columns as n lines, the titles first.
func (p *printer) renderGrid(columns []placed, n int) []string {
	var out strings.Builder
	t := tablewriter.NewTable(&out, tablewriter.WithRenderer(renderer.NewBlueprint(gridRendition())), tablewriter.WithConfig(gridConfig(columns)))
	for i := range n {
		line := make([]string, len(columns))
		for j, c := range columns {
			text := c.texts[i]
			if c.Left {
				text = view.LeftToRight(text)
			}
			line[j] = p.colorText(c.colors[i], text)
		}
		if i == 0 {
			t.Header(line)
		} else if err := t.Append(line); err != nil {
			p.err = errors.Join(p.err, err)
		}
	}
	p.err = errors.Join(p.err, t.Render())
	lines := make([]string, n) // one per row, even if it could not be formatted
	for i, l := range strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n") {
		if i < n {
			lines[i] = strings.TrimRight(l, " ")
		}
	}
	return lines
}

// gridRendition sets two blanks between columns and no rules, so that tables read well in logs and in copies.
func gridRendition() tw.Rendition {
	return tw.Rendition{
		Borders: tw.BorderNone,
		Settings: tw.Settings{
			Separators: tw.Separators{ShowHeader: tw.Off, ShowFooter: tw.Off, BetweenRows: tw.Off, BetweenColumns: tw.Off},
			Lines:      tw.Lines{ShowTop: tw.Off, ShowBottom: tw.Off, ShowHeaderLine: tw.Off, ShowFooterLine: tw.Off},
		},
	}
}

func gridConfig(columns []placed) tablewriter.Config {
	align, pad := make(tw.Alignment, len(columns)), make([]tw.Padding, len(columns))
	for i, c := range columns {
		align[i], pad[i] = tw.AlignRight, tw.Padding{Right: "  ", Overwrite: true}
		if c.Left {
			align[i] = tw.AlignLeft
		}
	}
	pad[len(pad)-1] = tw.Padding{Overwrite: true}
	cell := tw.CellConfig{
		Formatting: tw.CellFormatting{AutoWrap: tw.WrapNone, AutoFormat: tw.Off},
		Padding:    tw.CellPadding{PerColumn: pad},
		Alignment:  tw.CellAlignment{PerColumn: align},
	}
	return tablewriter.Config{Header: cell, Row: cell}
}

// writeLegend explains the columns, and names those that did not fit.
func (p *printer) writeLegend(all, shown []placed) {
	need, there := -2, map[string]bool{}
	for _, c := range shown {
		there[c.Title] = true
		if c.Legend != "" {
			p.writeHanging("", c.Legend, plain, plain)
		}
	}
	var missing []string
	for _, c := range all {
		need += c.width + 2
		if c.Named && !there[c.Title] {
			missing = append(missing, c.Title)
		}
	}
	if len(missing) > 0 {
		p.writeHanging("", fmt.Sprintf("no room for %s: all of it needs %d columns", strings.Join(missing, ", "), need), plain, plain)
	}
}

// fitColumns makes columns fit into room columns of text. It drops the least important ones until the remaining ones
// fit at their least widths, and then narrows these. If none may be dropped, it cuts the widest.
func fitColumns(all []placed, room int) []placed {
	out := slices.Clone(all)
	for {
		least, worst := -2, 0
		for i, c := range out {
			least += c.leastWidth() + 2
			if c.Drop > out[worst].Drop {
				worst = i
			}
		}
		if least > room && out[worst].Drop > 0 {
			out = slices.Delete(out, worst, worst+1)
			continue
		}
		narrowColumns(out, room, placed.leastWidth)
		narrowColumns(out, room, func(c placed) int { return min(c.width, cutTo) })
		return out
	}
}

// cutTo is the least width to which a column is cut as a last resort, in columns of text.
const cutTo = 8

// leastWidth returns the width, in columns of text, below which another column is dropped first.
func (l placed) leastWidth() int {
	if l.Least > 0 {
		return min(l.width, l.Least)
	}
	return l.width
}

// narrowColumns narrows the widest columns until all fit. least gives the least width of a column.
func narrowColumns(columns []placed, room int, least func(placed) int) {
	for {
		excess, widest := -2-room, -1
		for i, c := range columns {
			excess += c.width + 2
			if c.width > least(c) && (widest < 0 || c.width > columns[widest].width) {
				widest = i
			}
		}
		if excess <= 0 || widest < 0 {
			return
		}
		c := &columns[widest]
		c.width = max(c.width-excess, least(*c))
		c.texts = slices.Clone(c.texts)
		for i, text := range c.texts {
			c.texts[i] = cutToWidth(text, c.width)
		}
	}
}
