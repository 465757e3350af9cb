package markdown

import (
	"fmt"
	"strings"
)

// draft is a document in parts, so that a limit can leave out whole rows.
type draft struct{ parts []part }

// part is a piece of text: a row of a table, what else belongs to one, or what
// always stays.
type part struct {
	s         string
	of        *rowsOf
	row, keep bool
}

// rowsOf is a table: how many of its rows are shown, and which part its rows end at.
type rowsOf struct{ shown, left, end int }

func (d *draft) printf(format string, args ...any) { d.of(nil, format, args...) }

func (d *draft) of(t *rowsOf, format string, args ...any) {
	d.parts = append(d.parts, part{s: fmt.Sprintf(format, args...), of: t})
}

// within is the text in at most limit bytes; 0 is no limit. Rows go first, those
// that matter last, then whole lines from the end.
func (d *draft) within(limit int) string {
	rows := d.choose(limit)
	var b strings.Builder
	for i, p := range d.parts {
		if p.of != nil && i == p.of.end && p.of.left > 0 {
			if p.of.shown > 0 {
				b.WriteString("\n")
			}
			b.WriteString(noRoom(p.of.left))
			if p.of.shown > 0 {
				continue // the line that ends the table
			}
		}
		if rows[i] || !p.row && (p.of == nil || p.of.shown > 0) {
			b.WriteString(p.s)
		}
	}
	if limit > 0 && b.Len() > limit {
		return cutLines(b.String(), limit)
	}
	return b.String()
}

// choose says which parts are rows that find room, and counts those of each table.
func (d *draft) choose(limit int) []bool {
	room := limit
	seen := map[*rowsOf]bool{}
	for _, p := range d.parts {
		if !p.row {
			room -= len(p.s)
		}
		if p.of != nil && !seen[p.of] {
			seen[p.of] = true
			room -= len(noRoom(1_000_000))
		}
	}
	chosen := make([]bool, len(d.parts))
	short := false // no room for a row that matters: none for the others
	for _, keep := range []bool{true, false} {
		full := map[*rowsOf]bool{}
		for i, p := range d.parts {
			if !p.row || p.keep != keep {
				continue
			}
			if full[p.of] = full[p.of] || short && !keep || limit > 0 && len(p.s) > room; full[p.of] {
				p.of.left++
				short = short || keep
				continue
			}
			chosen[i] = true
			p.of.shown++
			room -= len(p.s)
		}
	}
	return chosen
}

// cutLines keeps whole lines up to a limit and says that it did.
func cutLines(s string, limit int) string {
	const note, end = "\n\n(cut: the rest found no room)\n", "\n</details>\n"
	room := limit - len(note)
	open := func(s string) int { return strings.Count(s, "<details>") - strings.Count(s, "</details>") }
	s = s[:max(0, min(len(s), room))]
	s = s[:strings.LastIndexByte(s, '\n')+1]
	for n := open(s); n > 0 && len(s)+n*len(end) > room; n = open(s) {
		s = s[:strings.LastIndexByte(strings.TrimSuffix(s, "\n"), '\n')+1]
	}
	return s + strings.Repeat(end, open(s)) + note
}
