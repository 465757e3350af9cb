// Package markdown writes pages as GitHub-flavoured Markdown: what a comment
// on a change or a page of a wiki shows. It is a pure function of the page.
package markdown

import (
	"fmt"
	"io"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/report/internal/view"
	"github.com/gpuprof/gpuprof/report/page"
)

// CommentLimit is what a comment on GitHub takes: 65,536 characters. A little
// less leaves room for what a script puts around it.
const CommentLimit = 65_000

// Write writes a page of at most limit bytes; 0 is no limit. Rows that find no
// room are counted, those that matter most are the last to go.
func Write(w io.Writer, pg *page.Page, limit int) error {
	d := &draft{}
	d.answer(pg.Opening())
	var head []string
	for _, m := range append([]string{pg.Title}, pg.Meta...) {
		head = append(head, text(m))
	}
	d.printf("%s.\n\n", strings.Join(head, ", "))
	for _, s := range pg.Sections {
		d.section(s, "###")
	}
	_, err := io.WriteString(w, d.within(limit))
	return err
}

// answer writes what opens the document: the verdict as its heading, the sentence, the bar
// as a line of text, and what to do.
func (d *draft) answer(a gpuprof.Answer) {
	d.printf("## %s\n\n", strings.TrimSpace(page.SignOf(a.Tone)+" "+text(a.Verdict)))
	d.printf("**%s**\n\n", text(a.Sentence))
	if a.Bar != nil {
		line := text(page.WholeText(a.Bar))
		var parts []string
		for _, part := range page.PartsOf(a.Bar) {
			parts = append(parts, text(part.Name+" ("+part.Text+")"))
		}
		if len(parts) > 0 {
			line += ": " + strings.Join(parts, ", ")
		}
		d.printf("%s.\n\n", line)
	}
	if a.Action != nil {
		d.printf("%s\n\n", text(a.Action.Text))
		if a.Action.Command != "" {
			d.printf("%s\n\n", fenced(a.Action.Command))
		}
	}
}

// section writes what is shown of a section under a heading of a level.
func (d *draft) section(s page.Section, level string) {
	if !s.In.In(page.Markdown) {
		return
	}
	before := len(d.parts)
	below := level
	if s.HeadingShown(page.Markdown) {
		below = level + "#"
		if s.Folded {
			d.printf("<details><summary>%s</summary>\n\n", mention.Replace(strings.Join(append([]string{s.Heading}, s.Brief...), ", ")))
		} else {
			d.printf("%s %s\n\n", level, text(s.Heading))
		}
	}
	head := len(d.parts)
	d.blocks(s.Shown(page.Markdown))
	for _, sub := range s.Sections {
		d.section(sub, below)
	}
	switch {
	case len(d.parts) == head:
		d.parts = d.parts[:before]
	case s.HeadingShown(page.Markdown) && s.Folded:
		d.printf("</details>\n\n")
	}
}

func (d *draft) blocks(blocks []page.Block) {
	var lines []page.Line
	for _, b := range blocks {
		if l, ok := b.(page.Lines); ok { // neighbours are one table
			lines = append(lines, page.LinesIn(l.Lines, page.Markdown)...)
			continue
		}
		d.lines(lines)
		lines = nil
		switch b := b.(type) {
		case page.Text:
			d.text(b)
		case page.Table:
			d.rows(b)
		case page.List:
			d.items(b)
		}
	}
	d.lines(lines)
}

func (d *draft) text(b page.Text) {
	switch {
	case b.Code:
		d.printf("%s\n\n", code(b.S))
	case b.As == page.Lead || b.As == page.Banner:
		d.printf("**%s**\n\n", text(b.S))
	default:
		d.printf("%s\n\n", text(b.S))
	}
}

// lines are a table, or a list where something is to be typed: a bar would end
// a cell in the middle of it.
func (d *draft) lines(lines []page.Line) {
	if len(lines) == 0 {
		return
	}
	for _, l := range lines {
		if l.Code {
			for _, l := range lines {
				d.labelled("- ", l)
			}
			d.printf("\n")
			return
		}
	}
	t := page.Table{Columns: []page.Column{{Title: "figure", Left: true}, {Title: "value", Left: true}, {Title: "remark", Left: true}}}
	for _, l := range lines {
		t.Rows = append(t.Rows, page.Row{Keep: true, Cells: []page.Cell{{Text: l.Label}, {Text: l.Value}, {Text: l.Note}}})
	}
	d.rows(t)
}

// labelled is one line of a list.
func (d *draft) labelled(mark string, l page.Line) {
	value := text(l.Value)
	if l.Code {
		value = code(l.Value)
	}
	if l.Note != "" {
		value += " (" + text(l.Note) + ")"
	}
	d.printf("%s%s: %s\n", mark, text(l.Label), value)
}

func (d *draft) items(l page.List) {
	items, left := l.For(page.Markdown)
	if len(items) == 0 {
		return
	}
	for i, it := range items {
		mark := "- "
		if l.Ordered {
			mark = fmt.Sprintf("%d. ", i+1)
		}
		label := it.Label
		if label == "" && !l.Ordered {
			label = l.Label
		}
		switch {
		case it.Badge.Text != "":
			mark += "**" + text(it.Badge.Text) + "** "
			if label != "" {
				mark += text(label) + ": "
			}
		case label != "":
			mark += "**" + text(label) + "**: "
		}
		d.printf("%s%s\n", mark, text(it.Text))
		inner := "  - "
		if l.Ordered {
			inner = "   - "
		}
		for _, line := range page.LinesIn(it.Lines, page.Markdown) {
			d.labelled(inner, line)
		}
		for _, sub := range it.Sub {
			d.printf("%s%s\n", inner, text(sub))
		}
	}
	if left > 0 {
		d.printf("- and %d more\n", left)
	}
	d.printf("\n")
}

// rows writes a table; those that are folded away need a click.
func (d *draft) rows(b page.Table) {
	columns, rows, left := b.For(page.Markdown)
	if len(rows) == 0 {
		return
	}
	t := &rowsOf{}
	if b.Folded != "" {
		d.of(t, "<details><summary>%s</summary>\n\n", mention.Replace(b.Folded))
	}
	var legends []string
	titles, marks := make([]page.Cell, len(columns)), make([]string, len(columns))
	for i, c := range columns {
		titles[i].Text, marks[i] = c.Title, "---:"
		if c.Legend != "" {
			legends = append(legends, text(c.Legend))
		}
		if c.Left {
			marks[i] = ":---"
		}
	}
	d.of(t, "%s| %s |\n", row(titles), strings.Join(marks, " | "))
	for _, r := range rows {
		d.parts = append(d.parts, part{row(r.Cells), t, true, r.Keep})
	}
	t.end = len(d.parts)
	d.of(t, "\n")
	if len(legends) > 0 {
		d.of(t, "%s.\n\n", strings.Join(legends, "; "))
	}
	if left > 0 && b.More != "" {
		d.of(t, "%s.\n\n", text(fmt.Sprintf(b.More, left)))
	}
	if b.Folded != "" {
		d.of(t, "</details>\n\n")
	}
}

func row(cells []page.Cell) string {
	out := make([]string, len(cells))
	for i, c := range cells {
		out[i] = text(c.Text)
	}
	return "| " + strings.Join(out, " | ") + " |\n"
}

// noRoom says how many rows a limit left out.
func noRoom(n int) string {
	return view.Plural(n, "row") + " not listed for want of room; --format json has all.\n\n"
}
