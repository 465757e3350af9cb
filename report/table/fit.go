package table

import (
	"cmp"
	"slices"
	"strings"
	"unicode"

	"github.com/gpuprof/gpuprof"
)

// part is a section: its heading and its blocks to print.
type part struct {
	heading []string
	blocks  []*block
}

// block is a page's block to print. Its units can be dropped one by one. The lines above and below the units are
// dropped with the last unit.
type block struct {
	above, below []string
	units        []unit
	fold         func(text string) []string // wraps sentences into lines; nil if units have lines
	noun         string                     // noun for counting dropped units
	table        bool                       // its rows are dropped after texts

	least int  // number of units that stay while other blocks can lose units
	first bool // the first unit is the most important finding, which is never dropped
	left  int  // units omitted by the page's own limit
}

// unit is a row, an item, a labelled figure or a sentence.
type unit struct {
	lines []string
	most  []string // lines including spare ones; nil if there are none
	hint  string   // command among the spare lines, printed with the count of dropped units
	text  string   // text of a sentence
	keep  bool     // important: dropped after the others
	size  float64  // of equally important units the smallest is dropped first
	gone  bool     // dropped
}

func (s *part) joinLines() []string {
	var out []string
	for _, b := range s.blocks {
		out = append(out, b.joinLines()...)
	}
	if len(out) == 0 {
		return nil
	}
	return append(append([]string{""}, s.heading...), out...)
}

func (b *block) joinLines() []string {
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

func (b *block) countShown() int {
	n := 0
	for _, u := range b.units {
		if !u.gone {
			n++
		}
	}
	return n
}

// hasMinorUnit reports whether the block still has a unit that is not marked keep.
func (b *block) hasMinorUnit() bool {
	return slices.ContainsFunc(b.units, func(u unit) bool { return !u.gone && !u.keep })
}

func (b *block) dropAll() {
	for i := range b.units {
		b.units[i].gone = true
	}
	b.above, b.below = nil, nil
}

// dropUnit drops the smallest unit that is not marked keep, or the smallest of all if every unit is. Of equal units it
// drops the last.
func (b *block) dropUnit() {
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

// fitLines drops units until the parts, and the line that counts dropped units, fit into room lines. Blocks below the
// tables lose units first. Tables keep some rows. Blocks above the first table, which are the answer, keep their first
// items.
func (p *printer) fitLines(room int) {
	for {
		n := 0
		if text := p.describeOmitted(); text != "" {
			n = len(wrapText(text, p.o.lineWidth()))
		}
		for _, s := range p.parts {
			n += len(s.joinLines())
		}
		if n <= room || !p.dropNext() {
			return
		}
	}
}

// dropNext drops one unit or block; false if nothing is left to drop.
func (p *printer) dropNext() bool {
	if p.dropSpareLines() {
		return true
	}
	var answer, tables, rest []*block
	for _, s := range p.parts {
		for _, b := range s.blocks {
			switch {
			case len(b.joinLines()) == 0:
			case b.table:
				tables = append(tables, b)
			case len(tables) == 0:
				answer = append(answer, b)
			default:
				rest = append(rest, b)
			}
		}
	}
	// Keep the start of the answer: a count of omitted findings means nothing without it.
	free := slices.DeleteFunc(slices.Clone(answer), func(b *block) bool { return b.first })
	texts := slices.Concat(answer, rest)
	long := func(b *block) bool { return b.countShown() > b.least }
	return dropFromLongest(texts, long) || dropFromLongest(tables, func(b *block) bool { return long(b) && b.hasMinorUnit() }) || clearLast(rest) ||
		dropFromLongest(tables, long) || len(answer) > 1 && clearLast(free) || clearLast(tables) || clearLast(free) || cutFirst(answer)
}

// dropSpareLines drops the lines marked as spare (page.Line) of every unit; false if there are none.
func (p *printer) dropSpareLines() (any bool) {
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

// dropFromLongest drops a unit of the longest block for which can is true; it returns false if there is none.
func dropFromLongest(blocks []*block, can func(*block) bool) bool {
	var longest *block
	for _, b := range blocks {
		if can(b) && (longest == nil || len(b.joinLines()) >= len(longest.joinLines())) {
			longest = b
		}
	}
	if longest == nil {
		return false
	}
	longest.dropUnit()
	return true
}

// cutFirst shortens the block whose first unit must not be dropped (block.first). It removes the last line of the first
// shown unit with several lines. It returns false if there is none.
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
	blocks[len(blocks)-1].dropAll()
	return true
}

// describeOmitted returns a sentence with the numbers of dropped units; "" if none was dropped.
func (p *printer) describeOmitted() string {
	if p.o.Lines == 0 || p.o.Quiet {
		return ""
	}
	var nouns []string
	count, more := map[string]int{}, false // more: -v prints some of them
	for _, s := range p.parts {
		for _, b := range s.blocks {
			n := len(b.units) - b.countShown() + b.left
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
		nouns[i] = gpuprof.Plural(count[noun], noun)
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
	// Add the hint only if it needs no further line.
	if hinted := text + "; " + p.hint; p.hint != "" && len(wrapText(hinted, p.o.lineWidth())) == len(wrapText(text, p.o.lineWidth())) {
		return hinted
	}
	return text
}

func splitSentences(text string) []string {
	var out []string
	for {
		at := sentenceEnd(text)
		if at < 0 {
			return append(out, text)
		}
		out, text = append(out, text[:at]), strings.TrimLeft(text[at:], " ")
	}
}

// sentenceEnd returns the index after the first full stop before a blank and a capital; -1 if there is none.
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
