// Package table writes pages as text for a terminal. It is a pure function of
// the page and of the width it is given.
package table

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/olekukonko/tablewriter/pkg/twwidth"

	"github.com/gpuprof/gpuprof/report/internal/view"
	"github.com/gpuprof/gpuprof/report/page"
)

// Options shape the output.
type Options struct {
	Width int  // columns to fit; 0 means 80
	Color bool // ANSI colour, for what has a tone
	// Quiet leaves the head and what the page marks as quiet: what must not be missed.
	Quiet bool
}

func (o Options) width() int {
	if o.Width <= 0 {
		return 80
	}
	return max(o.Width, 40)
}

// wideAt is the width from which intervals are printed with both ends.
const wideAt = 110

// Write prints a page.
func Write(w io.Writer, pg *page.Page, o Options) error {
	p := &printer{o: o}
	p.head(pg)
	for _, s := range pg.Sections {
		p.section(s, false)
	}
	if p.err != nil {
		return p.err
	}
	_, err := io.WriteString(w, p.b.String())
	return err
}

// head prints title, meta and status beside each other, as many in a line as fit.
func (p *printer) head(pg *page.Page) {
	status := pg.Badge.Headline
	if status == "" {
		status = pg.Badge.Text
	}
	parts := append([]string{pg.Title}, pg.Meta...)
	if status != "" {
		parts = append(parts, status)
	}
	line, used := "", 0
	flush := func() {
		if used > 0 {
			p.line(line)
		}
		line, used = "", 0
	}
	for i, part := range parts {
		color := plain
		if status != "" && i == len(parts)-1 {
			color = colorOf(pg.Badge.Tone)
		}
		n := twwidth.Width(part)
		if used > 0 && used+2+n > p.o.width() {
			flush()
		}
		if n > p.o.width() {
			p.hang("", part, plain, color)
			continue
		}
		if used > 0 {
			line, used = line+", ", used+2
		}
		line, used = line+p.paint(color, part), used+n
	}
	flush()
}

// section prints what is shown of a section, after a blank line.
func (p *printer) section(s page.Section, quiet bool) {
	if !s.In.In(page.Terminal) {
		return
	}
	quiet = quiet || s.In&page.Quiet != 0
	body := &printer{o: p.o}
	for _, b := range s.Shown(page.Terminal) {
		body.block(b, quiet || b.Shown()&page.Quiet != 0)
	}
	if body.b.Len() > 0 {
		p.blank()
		if s.HeadingShown(page.Terminal) {
			p.hang("", s.Heading, plain, plain)
		}
		p.b.WriteString(body.b.String())
	}
	p.err = errors.Join(p.err, body.err)
	for _, sub := range s.Sections {
		p.section(sub, quiet)
	}
}

// leaf says whether a part without parts of its own is printed.
func (p *printer) leaf(in page.Where, quiet bool) bool {
	return in.In(page.Terminal) && (!p.o.Quiet || quiet || in&page.Quiet != 0)
}

func (p *printer) block(b page.Block, quiet bool) {
	switch b := b.(type) {
	case page.Text:
		if p.leaf(b.In, quiet) {
			p.hang("", b.S, plain, colorOf(b.Tone))
		}
	case page.Lines:
		for _, l := range b.Lines {
			if p.leaf(l.In, quiet) {
				p.labelled(l, labelWidth)
			}
		}
	case page.Table:
		p.rows(b, quiet)
	case page.List:
		p.items(b, quiet)
	}
}

// labelWidth is the room of a label, with the blanks after it.
const labelWidth = 16

func (p *printer) labelled(l page.Line, room int) {
	text := l.Value
	if l.Note != "" {
		text += "  (" + l.Note + ")"
	}
	p.hang(padded(l.Label+" ", room), text, plain, colorOf(l.Tone))
}

func (p *printer) items(l page.List, quiet bool) {
	if p.o.Quiet && !quiet {
		l.Items = kept(l.Items, func(it page.Item) bool { return it.In&page.Quiet != 0 })
	}
	items, left := l.For(page.Terminal)
	for i, it := range items {
		head := ""
		switch {
		case l.Ordered && l.Label != "":
			head = fmt.Sprintf("%s %d: ", l.Label, i+1)
		case l.Ordered:
			head = fmt.Sprintf("%d. ", i+1)
		case l.Label != "":
			head = l.Label + ": "
		}
		text := it.Text
		if it.Label != "" {
			text = it.Label + ": " + text
		}
		if it.Badge.Text != "" {
			text = p.paint(colorOf(it.Badge.Tone), it.Badge.Text) + " " + text
		}
		if l.Label != "" {
			p.hang(head, text, colorOf(it.Tone), plain)
		} else {
			p.hang(head, text, plain, colorOf(it.Tone))
		}
		for _, line := range page.LinesIn(it.Lines, page.Terminal) {
			if !p.o.Quiet {
				line.Label = "  " + line.Label
				p.labelled(line, len("  evidence  "))
			}
		}
		for _, sub := range it.Sub {
			p.hang(strings.Repeat(" ", twwidth.Width(head))+"- ", sub, plain, plain)
		}
	}
	if left > 0 {
		p.hang("", view.Plural(left, l.Noun)+" more in --format json", plain, plain)
	}
}

func kept[T any](xs []T, keep func(T) bool) []T {
	var out []T
	for _, x := range xs {
		if keep(x) {
			out = append(out, x)
		}
	}
	return out
}
