package table

import (
	"fmt"
	"slices"
	"strings"

	"github.com/olekukonko/tablewriter"
	"github.com/olekukonko/tablewriter/pkg/twwidth"
	"github.com/olekukonko/tablewriter/renderer"
	"github.com/olekukonko/tablewriter/tw"

	"github.com/gpuprof/gpuprof/report/internal/view"
)

// column is one column of a grid with its cells. When the grid is too wide
// the column with the highest drop goes first; drop 0 stays.
type column struct {
	title string
	left  bool
	drop  int
	cells []string
}

func (c column) width() int {
	w := twwidth.Width(c.title)
	for _, cell := range c.cells {
		w = max(w, twwidth.Width(cell))
	}
	return w
}

// empty columns say nothing and are left out.
func (c column) empty() bool {
	for _, cell := range c.cells {
		if cell != view.None {
			return false
		}
	}
	return true
}

// grid prints the columns that fit. colors, when given, paints a row's last cell.
func (p *printer) grid(cols []column, colors []string) error {
	cols = fit(cols, p.o.width())
	if len(cols) == 0 || len(cols[0].cells) == 0 {
		return nil
	}
	var out strings.Builder
	t := tablewriter.NewTable(&out,
		tablewriter.WithRenderer(renderer.NewBlueprint(rendition())),
		tablewriter.WithConfig(gridConfig(cols)))
	t.Header(titles(cols))
	for i := range cols[0].cells {
		row := make([]string, len(cols))
		for j, c := range cols {
			row[j] = c.cells[i]
		}
		if colors != nil {
			row[len(row)-1] = p.paint(colors[i], row[len(row)-1])
		}
		if err := t.Append(row); err != nil {
			return err
		}
	}
	if err := t.Render(); err != nil {
		return err
	}
	for l := range strings.Lines(out.String()) {
		p.line(strings.TrimSuffix(l, "\n"))
	}
	return nil
}

// fit drops empty columns, then the least important until the rest fits.
// The first column is cut as a last resort.
func fit(cols []column, width int) []column {
	var kept []column
	for i, c := range cols {
		if i == 0 || !c.empty() {
			c.cells = slices.Clone(c.cells)
			kept = append(kept, c)
		}
	}
	for {
		total, worst := -2, 0
		for i, c := range kept {
			total += c.width() + 2
			if c.drop > kept[worst].drop {
				worst = i
			}
		}
		if total <= width {
			return kept
		}
		if kept[worst].drop > 0 {
			kept = append(kept[:worst], kept[worst+1:]...)
			continue
		}
		if !cutWidest(kept, total-width) {
			return kept
		}
	}
}

// cutWidest shortens the widest column by excess, to no less than 8.
func cutWidest(cols []column, excess int) bool {
	widest := 0
	for i, c := range cols {
		if c.width() > cols[widest].width() {
			widest = i
		}
	}
	room := max(cols[widest].width()-excess, 8)
	if room >= cols[widest].width() {
		return false
	}
	c := &cols[widest]
	c.title = short(c.title, room)
	for i, cell := range c.cells {
		c.cells[i] = short(cell, room)
	}
	return c.width() <= room
}

func titles(cols []column) []string {
	var out []string
	for _, c := range cols {
		out = append(out, c.title)
	}
	return out
}

// rendition is two blanks between columns and no lines: what reads best in
// a log and survives a copy into a message.
func rendition() tw.Rendition {
	return tw.Rendition{
		Borders: tw.BorderNone,
		Settings: tw.Settings{
			Separators: tw.Separators{ShowHeader: tw.Off, ShowFooter: tw.Off, BetweenRows: tw.Off, BetweenColumns: tw.Off},
			Lines:      tw.Lines{ShowTop: tw.Off, ShowBottom: tw.Off, ShowHeaderLine: tw.Off, ShowFooterLine: tw.Off},
		},
	}
}

func gridConfig(cols []column) tablewriter.Config {
	align := make(tw.Alignment, len(cols))
	pad := make([]tw.Padding, len(cols))
	for i, c := range cols {
		align[i] = tw.AlignRight
		if c.left {
			align[i] = tw.AlignLeft
		}
		pad[i] = tw.Padding{Right: "  ", Overwrite: true}
		if i == len(cols)-1 {
			pad[i] = tw.Padding{Overwrite: true}
		}
	}
	cell := tw.CellConfig{
		Formatting: tw.CellFormatting{AutoWrap: tw.WrapNone, AutoFormat: tw.Off},
		Padding:    tw.CellPadding{PerColumn: pad},
		Alignment:  tw.CellAlignment{PerColumn: align},
	}
	return tablewriter.Config{Header: cell, Row: cell}
}

// wrap prints text behind a head, continued under the text, within the width.
func (p *printer) wrap(head, text string) { p.hang(head, text, plain, plain) }

func (p *printer) item(label, text string) {
	if text != "" {
		p.wrap(fmt.Sprintf("  %-10s", label), text)
	}
}
