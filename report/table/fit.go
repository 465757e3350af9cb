package table

import (
	"cmp"
	"slices"
	"strings"
	"unicode"

	"github.com/gpuprof/gpuprof/report/internal/view"
)

// part is what is printed of a section.
type part struct {
	heading []string
	blocks  []*block
}

// block is what is printed of a block of a page: units, any of which may be left out,
// between lines that stay as long as one of them does.
type block struct {
	above, below []string
	units        []unit
	fold         func(text string) []string // makes lines of sentences; nil where units are lines
	noun         string                     // what a unit is, to count those that are left out
	table        bool                       // its rows outlast texts

	least int  // fewest units that are kept while another block has more
	first bool // the first unit is the answer, and is never left out
	left  int  // units that the page's own limit left out
}

// unit is a row, an item, a labelled figure or a sentence.
type unit struct {
	lines []string
	most  []string // with what is printed where there is room, nil for the same
	hint  string   // that, for the line that counts what is left out
	text  string   // of a sentence
	keep  bool     // matters more: left out after the others
	size  float64  // of those that matter alike the smallest is left out first
	gone  bool     // left out
}

func (s *part) lines() []string {
	var out []string
	for _, b := range s.blocks {
		out = append(out, b.lines()...)
	}
	if len(out) == 0 {
		return nil
	}
	return append(append([]string{""}, s.heading...), out...)
}

func (b *block) lines() []string {
	var lines, texts []string
	shown := 0
	for _, u := range b.units {
		if !u.gone {
			if u.most != nil {
				u.lines = u.most
			}
			lines, texts, shown = append(lines, u.lines...), append(texts, u.text), shown+1
		}
	}
	if b.fold != nil && shown > 0 {
		lines = b.fold(strings.Join(texts, " "))
	}
	if shown == 0 && len(b.units) > 0 {
		return nil
	}
	return append(append(append([]string{}, b.above...), lines...), b.below...)
}

// shown counts the units that are printed.
func (b *block) shown() int {
	n := 0
	for _, u := range b.units {
		if !u.gone {
			n++
		}
	}
	return n
}

// light says whether a unit is left that matters less than others.
func (b *block) light() bool {
	return slices.ContainsFunc(b.units, func(u unit) bool { return !u.gone && !u.keep })
}

// clear leaves out the whole block.
func (b *block) clear() {
	for i := range b.units {
		b.units[i].gone = true
	}
	b.above, b.below = nil, nil
}

// shed leaves out one unit of those that matter less while there are any: the smallest, the
// last of equal ones.
func (b *block) shed() {
	for _, keep := range []bool{false, true} {
		var least *unit
		for i := len(b.units) - 1; i >= 0; i-- {
			if u := &b.units[i]; !u.gone && u.keep == keep && (least == nil || u.size < least.size) {
				least = u
			}
		}
		if least != nil {
			least.gone = true
			return
		}
	}
}

// fit leaves out units until the parts take room lines, with the line that counts them.
// The answer is what stands above the first table: of it the first items stay, while
// tables keep rows, and blocks below go.
func (p *printer) fit(room int) {
	for {
		n := 0
		if text := p.leftOut(); text != "" {
			n = len(fold(text, p.o.width()))
		}
		for _, s := range p.parts {
			n += len(s.lines())
		}
		if n <= room || !p.shorten() {
			return
		}
	}
}

// shorten leaves out one unit or block, false if nothing is left.
func (p *printer) shorten() bool {
	if p.spare() {
		return true
	}
	var answer, tables, rest []*block
	for _, s := range p.parts {
		for _, b := range s.blocks {
			switch {
			case len(b.lines()) == 0:
			case b.table:
				tables = append(tables, b)
			case len(tables) == 0:
				answer = append(answer, b)
			default:
				rest = append(rest, b)
			}
		}
	}
	// What the answer begins with stays: a count of findings that are left out is no answer.
	free := slices.DeleteFunc(slices.Clone(answer), func(b *block) bool { return b.first })
	texts := slices.Concat(answer, rest)
	long := func(b *block) bool { return b.shown() > b.least }
	return shed(texts, long) || shed(tables, func(b *block) bool { return long(b) && b.light() }) || clearLast(rest) ||
		shed(tables, long) || len(answer) > 1 && clearLast(free) || clearLast(tables) || clearLast(free) || cutFirst(answer)
}

// spare leaves out what is for room that is not there, false if there is none of it.
func (p *printer) spare() (any bool) {
	for _, s := range p.parts {
		for _, b := range s.blocks {
			for i := range b.units {
				if u := &b.units[i]; u.most != nil {
					any, p.hint, u.most = true, cmp.Or(p.hint, u.hint), nil
				}
			}
		}
	}
	return any
}

// shed leaves out a unit of the longest block for which can says that it may.
func shed(blocks []*block, can func(*block) bool) bool {
	var longest *block
	for _, b := range blocks {
		if can(b) && (longest == nil || len(b.lines()) >= len(longest.lines())) {
			longest = b
		}
	}
	if longest == nil {
		return false
	}
	longest.shed()
	return true
}

// cutFirst takes the last line off the unit that is never left out, where it has more than one.
func cutFirst(blocks []*block) bool {
	for _, b := range blocks {
		if !b.first {
			continue
		}
		for i := range b.units {
			if u := &b.units[i]; !u.gone && len(u.lines) > 1 {
				u.lines = u.lines[:len(u.lines)-1]
				return true
			}
		}
	}
	return false
}

func clearLast(blocks []*block) bool {
	if len(blocks) == 0 {
		return false
	}
	blocks[len(blocks)-1].clear()
	return true
}

// leftOut counts what is left out, by kind; "" where that is nothing.
func (p *printer) leftOut() string {
	if p.o.Lines == 0 || p.o.Quiet {
		return ""
	}
	var nouns []string
	count, more := map[string]int{}, false // more: -v prints some of them
	for _, s := range p.parts {
		for _, b := range s.blocks {
			n := len(b.units) - b.shown() + b.left
			if n == 0 || b.noun == "" {
				continue
			}
			if count[b.noun] == 0 {
				nouns = append(nouns, b.noun)
			}
			count[b.noun] += n
			more = more || n > b.left
		}
	}
	for i, noun := range nouns {
		nouns[i] = view.Plural(count[noun], noun)
	}
	switch {
	case len(nouns) == 0 && p.hint == "":
		return ""
	case len(nouns) == 0:
		nouns, more = []string{"remarks"}, true
	}
	text := "left out: " + strings.Join(nouns, ", ") + "; add "
	if more {
		text += "-v, or "
	}
	text += "-o report.html"
	// The hint takes no line from the answer.
	if hinted := text + "; " + p.hint; p.hint != "" && len(fold(hinted, p.o.width())) == len(fold(text, p.o.width())) {
		return hinted
	}
	return text
}

// sentences are the sentences of a text.
func sentences(text string) []string {
	var out []string
	for {
		at := sentenceEnd(text)
		if at < 0 {
			return append(out, text)
		}
		out, text = append(out, text[:at]), strings.TrimLeft(text[at:], " ")
	}
}

// sentenceEnd is the index behind the first full stop that a blank and a capital
// follow, -1 without one.
func sentenceEnd(text string) int {
	for i := 0; ; {
		at := strings.Index(text[i:], ". ")
		if at < 0 {
			return -1
		}
		i += at + 1
		for _, c := range strings.TrimLeft(text[i:], " ") {
			if unicode.IsUpper(c) {
				return i
			}
			break
		}
	}
}
