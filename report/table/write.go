// Package table writes pages as text for a terminal. It is a pure function of
// the page and of the width it is given.
package table

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/olekukonko/tablewriter/pkg/twwidth"

	"github.com/gpuprof/gpuprof/report/internal/view"
	"github.com/gpuprof/gpuprof/report/page"
)

// Options shape the output.
type Options struct {
	Width int  // columns to fit; 0 means 80
	Color bool // ANSI colour, for what has a tone
	ASCII bool // bars of ASCII, for a terminal whose locale is not UTF-8
	// Lines is how many lines are printed at most. What the page marks as Verbose is
	// left out, then rows, items and sentences of the longest blocks; the last line
	// counts them. 0 prints everything.
	Lines int
	Quiet bool // no warnings and no count of what is left out
}

func (o Options) width() int {
	if o.Width <= 0 {
		return 80
	}
	return max(o.Width, 40)
}

// wideAt is the width from which intervals are printed with both ends.
const wideAt = 110

// mostHead is how many thirds of the lines the head takes at most with its picture.
const mostHead = 2

// Write prints a page.
func Write(w io.Writer, pg *page.Page, o Options) error {
	p := &printer{o: o}
	p.head(pg, true)
	if o.Lines > 0 && len(p.out) > mostHead*o.Lines/3 {
		p.out = nil
		p.head(pg, false)
	}
	for _, s := range pg.Sections {
		p.section(s, false)
	}
	if o.Lines > 0 {
		p.fit(o.Lines - len(p.out))
	}
	for _, s := range p.parts {
		for _, l := range s.lines() {
			p.line(l)
		}
	}
	if text := p.leftOut(); text != "" {
		p.hang("", text, plain, plain)
	}
	if p.err != nil {
		return p.err
	}
	_, err := io.WriteString(w, strings.Join(append(p.out, ""), "\n"))
	return err
}

// head prints the answer, and below it title and meta beside each other, as many in a line
// as fit. The picture alone may be left out.
func (p *printer) head(pg *page.Page, picture bool) {
	a := pg.Opening()
	if !picture {
		a.Bar = nil
	}
	p.answer(a)
	line, used := "", 0
	for _, part := range append([]string{pg.Title}, pg.Meta...) {
		n := twwidth.Width(part)
		if used > 0 && used+2+n <= p.o.width() {
			line, used = line+", "+part, used+2+n
			continue
		}
		if used > 0 {
			p.hang("", line, plain, plain)
		}
		line, used = part, n
	}
	if used > 0 {
		p.hang("", line, plain, plain)
	}
}

// section gathers what is shown of a section and of those below it.
func (p *printer) section(s page.Section, verbose bool) {
	if !s.In.In(page.Terminal) {
		return
	}
	verbose = verbose || s.In&page.Verbose != 0
	out := part{}
	if s.HeadingShown(page.Terminal) {
		out.heading = p.capture(func() { p.hang("", s.Heading, plain, plain) })
	}
	for _, b := range s.Shown(page.Terminal) {
		if n := p.block(b, verbose || b.Shown()&page.Verbose != 0); n != nil {
			out.blocks = append(out.blocks, n)
		}
	}
	p.parts = append(p.parts, &out)
	for _, sub := range s.Sections {
		p.section(sub, verbose)
	}
}

// brief says whether a part of a block is left out because it is for -v.
func (p *printer) brief(in page.Where) bool { return p.o.Lines > 0 && in&page.Verbose != 0 }

// block is what is printed of a block; of one for -v only the count, where that was
// not asked for.
func (p *printer) block(b page.Block, verbose bool) *block {
	var out *block
	switch b := b.(type) {
	case page.Text:
		if b.S == "" {
			return nil
		}
		out = p.text(b)
	case page.Lines:
		out = &block{noun: "figure", least: 1}
		for _, l := range page.LinesIn(b.Lines, page.Terminal) {
			out.units = append(out.units, unit{lines: p.capture(func() { p.labelled(l, labelWidth) }), gone: p.brief(l.In)})
		}
		if b.Lead {
			out.least = len(out.units)
		}
	case page.Table:
		out = p.rows(b)
	case page.List:
		if p.o.Quiet && b.Alert {
			return nil
		}
		out = p.items(b)
	default:
		return nil
	}
	if verbose && p.o.Lines > 0 {
		out.clear()
	}
	return out
}

// text is a paragraph; what is left out of one are its last sentences.
func (p *printer) text(b page.Text) *block {
	out := &block{noun: "sentence", least: 1}
	for _, s := range sentences(b.S) {
		out.units = append(out.units, unit{text: s})
	}
	out.fold = func(s string) []string { return p.capture(func() { p.hang("", s, plain, colorOf(b.Tone)) }) }
	return out
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

func (p *printer) items(l page.List) *block {
	items, left := l.For(page.Terminal)
	out := &block{noun: l.Noun, least: 1, left: left, first: l.Ordered && l.Label == "" && l.Noun == "finding"}
	for i, it := range items {
		u := unit{lines: p.capture(func() { p.item(l, it, i+1, false) }), gone: p.brief(it.In)}
		if at := slices.IndexFunc(it.Lines, func(line page.Line) bool { return line.Spare }); at >= 0 && !p.o.Quiet {
			u.hint = hintOf(it.Lines)
			u.most = p.capture(func() { p.item(l, it, i+1, true) })
		}
		out.units = append(out.units, u)
	}
	if left > 0 && p.o.Lines == 0 {
		out.below = p.capture(func() { p.hang("", view.Plural(left, l.Noun)+" more in --format json", plain, plain) })
	}
	return out
}

// hintOf is the command among the lines for which there has to be room, "" none.
func hintOf(lines []page.Line) string {
	at := slices.IndexFunc(lines, func(line page.Line) bool { return line.Spare && line.Code })
	if at < 0 {
		return ""
	}
	return lines[at].Value
}

// item prints an item; spare adds the lines for which there has to be room.
func (p *printer) item(l page.List, it page.Item, number int, spare bool) {
	head := ""
	switch {
	case l.Ordered && l.Label != "":
		head = fmt.Sprintf("%s %d: ", l.Label, number)
	case l.Ordered:
		head = fmt.Sprintf("%d. ", number)
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
		if !p.brief(line.In) && (spare || !line.Spare) {
			line.Label = "  " + line.Label
			p.labelled(line, len("  evidence  "))
		}
	}
	for _, sub := range it.Sub {
		p.hang(strings.Repeat(" ", twwidth.Width(head))+"- ", sub, plain, plain)
	}
}
