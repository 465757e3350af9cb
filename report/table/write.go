// Package table writes pages as text for a terminal. It is a pure function of the page and the given width.
package table

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/olekukonko/tablewriter/pkg/twwidth"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/report/page"
)

// Options shape the output.
type Options struct {
	Width int  // columns to fit; 0 means 80
	Color bool // ANSI colour for things with a tone
	ASCII bool // ASCII bars, for a terminal whose locale is not UTF-8
	// Lines limits the printed lines; 0 prints everything. Verbose parts are dropped first, then rows, items and
	// sentences of the longest blocks. The last line counts what was dropped.
	Lines int
	Quiet bool // no warnings, and no count of omitted parts
}

func (o Options) lineWidth() int {
	if o.Width <= 0 {
		return 80
	}
	return max(o.Width, 40)
}

// wideAt is the least width, in columns, at which intervals are printed with both ends.
const wideAt = 110

// mostHead is the largest share of a limited number of lines, in quarters, for answer, title and meta texts.
const mostHead = 3

// Write prints a page.
func Write(w io.Writer, pg *page.Page, o Options) error {
	p := &printer{o: o}
	p.parts = append(p.parts, &part{blocks: []*block{p.writeHead(pg)}})
	for _, s := range pg.Sections {
		p.addSection(s, false)
	}
	if o.Lines > 0 {
		p.fitLines(o.Lines - len(p.out))
	}
	for _, s := range p.parts {
		for _, l := range s.joinLines() {
			p.appendLine(l)
		}
	}
	if text := p.describeOmitted(); text != "" {
		p.writeHanging("", text, plain, plain)
	}
	if p.err != nil {
		return p.err
	}
	_, err := io.WriteString(w, strings.Join(append(p.out, ""), "\n"))
	return err
}

// writeHead prints the answer, then title and meta texts. If they take more than mostHead of the lines, it omits first
// the meta texts below the title's line, and then the answer's bar. The returned block counts the omitted texts.
func (p *printer) writeHead(pg *page.Page) *block {
	a, left := pg.Opening(), &block{noun: "fact"}
	title, meta := pg.Head()
	facts := joinTexts(append([]string{title}, meta...), p.o.lineWidth())
	draw := func() {
		p.out = nil
		p.writeAnswer(a)
		for _, texts := range facts {
			p.writeHanging("", strings.Join(texts, ", "), plain, plain)
		}
	}
	isLong := func() bool { return p.o.Lines > 0 && 4*len(p.out) > mostHead*p.o.Lines }
	if draw(); isLong() && len(facts) > 1 {
		for _, texts := range facts[1:] {
			left.left += len(texts)
		}
		facts = facts[:1]
		draw()
	}
	if isLong() {
		a.Bar = nil
		draw()
	}
	return left
}

// joinTexts groups texts into lines of at most width columns, joined by commas. A wider text is a line of its own.
func joinTexts(texts []string, width int) (lines [][]string) {
	used := 0
	for _, text := range texts {
		n := twwidth.Width(text)
		if n == 0 {
			continue
		}
		if used += 2 + n; lines == nil || used > width {
			lines, used = append(lines, nil), n
		}
		lines[len(lines)-1] = append(lines[len(lines)-1], text)
	}
	return lines
}

// addSection collects the terminal's blocks of a section and its subsections.
func (p *printer) addSection(s page.Section, verbose bool) {
	if !s.In.In(page.Terminal) {
		return
	}
	verbose = verbose || s.In&page.Verbose != 0
	out := part{}
	if s.HeadingShown(page.Terminal) {
		out.heading = p.captureLines(func() { p.writeHanging("", s.Heading, plain, plain) })
	}
	for _, b := range s.Shown(page.Terminal) {
		if n := p.buildBlock(b, verbose || b.Shown()&page.Verbose != 0); n != nil {
			out.blocks = append(out.blocks, n)
		}
	}
	p.parts = append(p.parts, &out)
	for _, sub := range s.Sections {
		p.addSection(sub, verbose)
	}
}

// omitsVerbose reports whether a part of a block is dropped because only -v prints it.
func (p *printer) omitsVerbose(in page.Where) bool { return p.o.Lines > 0 && in&page.Verbose != 0 }

// buildBlock formats a block; nil if a terminal omits it. If lines are limited, a verbose block is only counted.
func (p *printer) buildBlock(b page.Block, verbose bool) *block {
	var out *block
	switch b := b.(type) {
	case page.Text:
		if b.S == "" {
			return nil
		}
		out = p.buildText(b)
	case page.Lines:
		out = &block{noun: "figure", least: 1}
		for _, l := range page.LinesIn(b.Lines, page.Terminal) {
			out.units = append(out.units, unit{lines: p.captureLines(func() { p.writeLabelled(l, labelWidth) }), gone: p.omitsVerbose(l.In)})
		}
		if b.Lead {
			out.least = len(out.units)
		}
	case page.Table:
		out = p.buildTable(b)
	case page.List:
		if p.o.Quiet && b.Alert {
			return nil
		}
		out = p.buildList(b)
	default:
		return nil
	}
	if verbose && p.o.Lines > 0 {
		out.dropAll()
	}
	return out
}

// buildText formats a paragraph. Its last sentences are dropped first.
func (p *printer) buildText(b page.Text) *block {
	out := &block{noun: "sentence", least: 1}
	for _, s := range splitSentences(b.S) {
		out.units = append(out.units, unit{text: s})
	}
	out.fold = func(s string) []string {
		return p.captureLines(func() { p.writeHanging("", s, plain, colorOf(b.Tone)) })
	}
	return out
}

// labelWidth is the width of a label with the blanks after it.
const labelWidth = 16

// writeLabelled prints a line with its label. A command stays on one line, so that a copy of it works.
func (p *printer) writeLabelled(l page.Line, room int) {
	text := l.Value
	if l.Code && strings.HasPrefix(text, "gpuprof ") {
		p.appendLine(padRight(l.Label+" ", room) + p.colorText(colorOf(l.Tone), text))
		if l.Note != "" {
			p.writeHanging(padRight("", room), "("+l.Note+")", plain, colorOf(l.Tone))
		}
		return
	}
	if l.Note != "" {
		text += "  (" + l.Note + ")"
	}
	p.writeHanging(padRight(l.Label+" ", room), text, plain, colorOf(l.Tone))
}

func (p *printer) buildList(l page.List) *block {
	items, left := l.For(page.Terminal)
	out := &block{noun: l.Noun, least: 1, left: left, first: l.Ordered && l.Label == "" && l.Noun == "finding"}
	for i, it := range items {
		u := unit{lines: p.captureLines(func() { p.writeItem(l, it, i+1, false) }), gone: p.omitsVerbose(it.In)}
		if at := slices.IndexFunc(it.Lines, func(line page.Line) bool { return line.Spare }); at >= 0 && !p.o.Quiet {
			u.hint = hintOf(it.Lines)
			u.most = p.captureLines(func() { p.writeItem(l, it, i+1, true) })
		}
		out.units = append(out.units, u)
	}
	if left > 0 && p.o.Lines == 0 {
		out.below = p.captureLines(func() { p.writeHanging("", gpuprof.Plural(left, l.Noun)+" more in --format json", plain, plain) })
	}
	return out
}

// hintOf returns the command among an item's spare lines, or "".
func hintOf(lines []page.Line) string {
	at := slices.IndexFunc(lines, func(line page.Line) bool { return line.Spare && line.Code })
	if at < 0 {
		return ""
	}
	return lines[at].Value
}

// writeItem prints an item. spare includes the lines that are dropped first.
func (p *printer) writeItem(l page.List, it page.Item, number int, spare bool) {
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
		text = p.colorText(colorOf(it.Badge.Tone), it.Badge.Text) + " " + text
	}
	if l.Label != "" {
		p.writeHanging(head, text, colorOf(it.Tone), plain)
	} else {
		p.writeHanging(head, text, plain, colorOf(it.Tone))
	}
	for _, line := range page.LinesIn(it.Lines, page.Terminal) {
		if !p.omitsVerbose(line.In) && (spare || !line.Spare) {
			line.Label = "  " + line.Label
			p.writeLabelled(line, len("  evidence  "))
		}
	}
	for _, sub := range it.Sub {
		p.writeHanging(strings.Repeat(" ", twwidth.Width(head))+"- ", sub, plain, plain)
	}
}
