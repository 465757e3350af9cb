package markdown

import (
	"fmt"
	"strings"
)

type doc struct{ b strings.Builder }

func (d *doc) printf(format string, args ...any) { fmt.Fprintf(&d.b, format, args...) }

// table writes a table; left is how many leading columns hold words.
func (d *doc) table(left int, head []string, rows [][]string) {
	d.row(head)
	marks := make([]string, len(head))
	for i := range marks {
		marks[i] = "---:"
		if i < left {
			marks[i] = ":---"
		}
	}
	d.printf("| %s |\n", strings.Join(marks, " | "))
	for _, r := range rows {
		d.row(r)
	}
	d.printf("\n")
}

func (d *doc) row(cells []string) {
	out := make([]string, len(cells))
	for i, c := range cells {
		out[i] = text(c)
	}
	d.printf("| %s |\n", strings.Join(out, " | "))
}
