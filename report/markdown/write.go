// Package markdown writes pages as GitHub-flavoured Markdown. It is a pure function of the page.
package markdown

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/report/page"
)

// CommentLimit is the size limit of a comment on GitHub, bytes. The rest of GitHub's 65,536 characters is for the text
// of the script that posts it.
const CommentLimit = 65_000

// Write writes a page of at most limit bytes (0: no limit). It drops the least important rows first, and states their
// number.
func Write(w io.Writer, pg *page.Page, limit int) error {
	d := &draft{}
	d.writeAnswer(pg.Opening())
	var head []string
	title, meta := pg.Head()
	for _, m := range append([]string{title}, meta...) {
		head = append(head, escapeText(m))
	}
	d.printf("%s.\n\n", strings.Join(head, ", "))
	for _, s := range pg.Sections {
		d.writeSection(s, "###")
	}
	_, err := io.WriteString(w, d.limitText(limit))
	return err
}

// writeAnswer writes the answer at the top: the verdict as heading, the sentence, the bar as text, and the action.
func (d *draft) writeAnswer(a gpuprof.Answer) {
	d.printf("## %s\n\n", strings.TrimSpace(page.SignOf(a.Tone)+" "+escapeText(a.Verdict)))
	d.printf("**%s**\n\n", escapeText(a.Sentence))
	if a.Bar != nil {
		line := escapeText(page.WholeText(a.Bar))
		var parts []string
		for _, part := range page.PartsOf(a.Bar) {
			parts = append(parts, escapeText(part.Name+" ("+part.Text+")"))
		}
		if len(parts) > 0 {
			line += ": " + strings.Join(parts, ", ")
		}
		d.printf("%s.\n\n", line)
	}
	if a.Action != nil {
		d.printf("%s\n\n", escapeText(a.Action.Text))
		if a.Action.Command != "" {
			d.printf("%s\n\n", codeBlock(a.Action.Command))
		}
	}
}

// writeSection writes the Markdown blocks of a section under a heading of a level.
func (d *draft) writeSection(s page.Section, level string) {
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
			d.printf("%s %s\n\n", level, escapeText(s.Heading))
		}
	}
	head := len(d.parts)
	d.writeBlocks(s.Shown(page.Markdown))
	for _, sub := range s.Sections {
		d.writeSection(sub, below)
	}
	switch {
	case len(d.parts) == head:
		d.parts = d.parts[:before]
	case s.HeadingShown(page.Markdown) && s.Folded:
		d.printf("</details>\n\n")
	}
}

func (d *draft) writeBlocks(blocks []page.Block) {
	var lines []page.Line
	for _, b := range blocks {
		if l, ok := b.(page.Lines); ok { // neighbouring lines make one table
			lines = append(lines, page.LinesIn(l.Lines, page.Markdown)...)
			continue
		}
		d.writeLines(lines)
		lines = nil
		switch b := b.(type) {
		case page.Text:
			d.writeText(b)
		case page.Table:
			d.writeTable(b)
		case page.List:
			d.writeItems(b)
		}
	}
	d.writeLines(lines)
}

func (d *draft) writeText(b page.Text) {
	switch {
	case b.Code:
		d.printf("%s\n\n", inlineCode(b.S))
	case b.As == page.Lead || b.As == page.Banner:
		d.printf("**%s**\n\n", escapeText(b.S))
	default:
		d.printf("%s\n\n", escapeText(b.S))
	}
}

// writeLines writes labelled values as a table, or as a list if one of them is a command, which may contain a "|".
func (d *draft) writeLines(lines []page.Line) {
	if len(lines) == 0 {
		return
	}
	for _, l := range lines {
		if l.Code {
			for _, l := range lines {
				d.writeLabelled("- ", l)
			}
			d.printf("\n")
			return
		}
	}
	t := page.Table{Columns: []page.Column{{Title: "figure", Left: true}, {Title: "value", Left: true, Remark: true}, {Title: "remark", Left: true, Remark: true}}}
	for _, l := range lines {
		t.Rows = append(t.Rows, page.Row{Keep: true, Cells: []page.Cell{{Text: l.Label}, {Text: l.Value}, {Text: l.Note}}})
	}
	d.writeTable(t)
}

// writeLabelled writes a labelled value as a list item.
func (d *draft) writeLabelled(mark string, l page.Line) {
	value := escapeText(l.Value)
	if l.Code {
		value = inlineCode(l.Value)
	}
	if l.Note != "" {
		value += " (" + escapeText(l.Note) + ")"
	}
	d.printf("%s%s: %s\n", mark, escapeText(l.Label), value)
}

func (d *draft) writeItems(l page.List) {
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
		if !l.Ordered {
			label = cmp.Or(label, l.Label)
		}
		switch {
		case it.Badge.Text != "":
			mark += "**" + escapeText(it.Badge.Text) + "** "
			if label != "" {
				mark += escapeText(label) + ": "
			}
		case label != "":
			mark += "**" + escapeText(label) + "**: "
		}
		d.printf("%s%s\n", mark, escapeText(it.Text))
		inner := "  - "
		if l.Ordered {
			inner = "   - "
		}
		for _, line := range page.LinesIn(it.Lines, page.Markdown) {
			d.writeLabelled(inner, line)
		}
		for _, sub := range it.Sub {
			d.printf("%s%s\n", inner, escapeText(sub))
		}
	}
	if left > 0 {
		d.printf("- and %d more\n", left)
	}
	d.printf("\n")
}

// writeTable writes a table, inside <details> if it is folded.
func (d *draft) writeTable(b page.Table) {
	columns, rows, left := b.For(page.Markdown)
	if len(rows) == 0 {
		return
	}
	t := &rowsOf{}
	if b.Folded != "" {
		d.addPart(t, "<details><summary>%s</summary>\n\n", mention.Replace(b.Folded))
	}
	var legends []string
	titles, marks := make([]page.Cell, len(columns)), make([]string, len(columns))
	for i, c := range columns {
		titles[i].Text, marks[i] = c.Title, "---:"
		if c.Legend != "" {
			legends = append(legends, escapeText(c.Legend))
		}
		if c.Left {
			marks[i] = ":---"
		}
	}
	d.addPart(t, "%s| %s |\n", formatRow(titles), strings.Join(marks, " | "))
	for _, r := range rows {
		d.parts = append(d.parts, part{formatRow(r.Cells), t, true, r.Keep})
	}
	t.end = len(d.parts)
	d.addPart(t, "\n")
	if len(legends) > 0 {
		d.addPart(t, "%s.\n\n", strings.Join(legends, "; "))
	}
	if left > 0 && b.More != "" {
		d.addPart(t, "%s.\n\n", escapeText(fmt.Sprintf(b.More, left)))
	}
	if b.Folded != "" {
		d.addPart(t, "</details>\n\n")
	}
}

func formatRow(cells []page.Cell) string {
	out := make([]string, len(cells))
	for i, c := range cells {
		out[i] = escapeText(c.Text)
	}
	return "| " + strings.Join(out, " | ") + " |\n"
}

func countOmitted(n int) string {
	return gpuprof.Plural(n, "row") + " not listed for want of room; --format json has all.\n\n"
}
