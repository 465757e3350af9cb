package page_test

import (
	"fmt"
	"testing"

	"github.com/gpuprof/gpuprof/report/page"
)

// TestRowsThatMatterAreShownLonger: a limit counts rows that matter apart from the rest.
func TestRowsThatMatterAreShownLonger(t *testing.T) {
	b := page.Table{Columns: []page.Column{{Title: "name"}, {Title: "words", In: page.HTML}}, Max: [3]int{2, 0, 3}}
	for i := range 30 {
		b.Rows = append(b.Rows, page.Row{Keep: i < 20, Cells: []page.Cell{{Text: fmt.Sprint(i)}, {Text: "x"}}})
	}
	for format, want := range map[page.Where][3]int{page.Terminal: {1, 12, 18}, page.Markdown: {1, 30, 0}, page.HTML: {2, 18, 12}} {
		columns, rows, left := b.For(format)
		if got := [3]int{len(columns), len(rows), left}; got != want {
			t.Errorf("format %d: %v columns, rows and left, want %v", format, got, want)
		}
		for _, r := range rows {
			if len(r.Cells) != len(columns) {
				t.Errorf("format %d: %d cells under %d columns", format, len(r.Cells), len(columns))
			}
		}
	}
}

// TestWhere: a thing is in the formats it names, in all of them when it names none.
func TestWhere(t *testing.T) {
	for w, want := range map[page.Where][3]bool{
		0: {true, true, true}, page.Verbose: {true, true, true}, page.HTML: {false, false, true}, page.Terminal | page.Verbose: {true, false, false},
	} {
		if got := [3]bool{w.In(page.Terminal), w.In(page.Markdown), w.In(page.HTML)}; got != want {
			t.Errorf("%b is in %v, want %v", w, got, want)
		}
	}
}
