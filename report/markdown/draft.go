package markdown

import (
	"fmt"
	"strings"
)

// draft is the text of a page in parts. To meet a size limit, limitText drops table rows.
type draft struct{ parts []part }

// part is a piece of text. A row of a table can be dropped alone; keep marks important rows. Other pieces of a table
// are dropped if no row of the table is left. of is the piece's table, or nil for text outside of tables.
type part struct {
	s         string
	of        *rowsOf
	row, keep bool
}

// rowsOf has the numbers of a table's shown and dropped rows, and the index of the part after its last row.
type rowsOf struct{ shown, left, end int }

func (d *draft) printf(format string, args ...any) { d.addPart(nil, format, args...) }

func (d *draft) addPart(t *rowsOf, format string, args ...any) {
	d.parts = append(d.parts, part{s: fmt.Sprintf(format, args...), of: t})
}

// limitText returns the text, at most limit bytes; 0 means all. It drops rows that are not marked keep first, then
// other rows, then the last lines.
func (d *draft) limitText(limit int) string {
	rows := d.chooseRows(limit)
	var b strings.Builder
	for i, p := range d.parts {
		if p.of != nil && i == p.of.end && p.of.left > 0 {
			if p.of.shown > 0 {
				b.WriteString("\n")
			}
			b.WriteString(countOmitted(p.of.left))
			if p.of.shown > 0 {
				continue // the count replaces the table's closing line
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

// chooseRows reports which parts are rows that fit into limit bytes. It also counts shown and dropped rows per table.
func (d *draft) chooseRows(limit int) []bool {
	room := limit
	seen := map[*rowsOf]bool{}
	for _, p := range d.parts {
		if !p.row {
			room -= len(p.s)
		}
		if p.of != nil && !seen[p.of] {
			seen[p.of] = true
			room -= len(countOmitted(1_000_000))
		}
	}
	chosen := make([]bool, len(d.parts))
	short := false // a row with keep did not fit: drop all rows without keep
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

// cutLines keeps whole lines up to limit bytes, closes an open <details> and adds a note about the cut.
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
