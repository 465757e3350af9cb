package report_test

import (
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/testkit/fixture"
	htmlreport "github.com/gpuprof/gpuprof/report/html"
	"github.com/gpuprof/gpuprof/report/markdown"
	"github.com/gpuprof/gpuprof/report/page"
	"github.com/gpuprof/gpuprof/report/table"
)

// cellsOf visits every cell of a page's tables.
func cellsOf(sections []page.Section, visit func(section string, row page.Row, column page.Column, c page.Cell)) {
	for _, s := range sections {
		for _, b := range s.Blocks {
			t, ok := b.(page.Table)
			for _, r := range t.Rows {
				for i, c := range r.Cells {
					if ok {
						visit(s.ID, r, t.Columns[i], c)
					}
				}
			}
		}
		cellsOf(s.Sections, visit)
	}
}

// misread says where a cell's text is not its value in three digits, or a percentage.
func misread(p *page.Page) (figures int, wrong []string) {
	cellsOf(p.Sections, func(section string, row page.Row, column page.Column, c page.Cell) {
		if c.Unit == "" {
			return
		}
		figures++
		if !readsAs(c) {
			wrong = append(wrong, fmt.Sprintf("%s: %s of %s reads %s and is %g %s", section, column.Title, row.Cells[0].Text, c.Text, c.Value, c.Unit))
		}
	})
	return figures, wrong
}

// readsAs says whether a text with a prefix or percent sign is the value.
func readsAs(c page.Cell) bool {
	text, below := strings.CutPrefix(strings.TrimPrefix(c.Text, "x"), "<")
	number, unit, _ := strings.Cut(text, " ")
	v, err := strconv.ParseFloat(number, 64)
	if err != nil {
		return !(math.Abs(c.Value) <= math.MaxFloat64) // "not a number"
	}
	scale := 1.0
	switch {
	case unit == "%":
		scale = 0.01
	case unit != c.Unit && unit != "":
		var ok bool
		if scale, ok = map[string]float64{"n": 1e-9, "u": 1e-6, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}[strings.TrimSuffix(unit, c.Unit)]; !ok {
			return false
		}
	}
	if below {
		return c.Value < v*scale
	}
	step := 0.006 * math.Abs(c.Value) // three digits
	if unit == "%" {
		step = max(step, 0.0006) // or one behind the point
	}
	if strings.Contains(number, "e") || strings.HasPrefix(number, "0.00") {
		step = 0.06 * math.Abs(c.Value) // two digits
	}
	return math.Abs(v*scale-c.Value) <= step
}

// TestCellsReadAsTheirValues: the text of a figure is the value it was printed from.
func TestCellsReadAsTheirValues(t *testing.T) {
	runs := fixture.Every()
	maps.Copy(runs, galleryRuns(t))
	pages := map[string]*page.Page{"sweep": pageOf(append(fixture.Sweep(), fixture.Invalid()))}
	for name, r := range runs {
		pages[name] = pageOf([]*gpuprof.Run{r})
	}
	for _, name := range slices.Sorted(maps.Keys(pages)) {
		figures, wrong := misread(pages[name])
		if len(wrong) > 0 {
			t.Errorf("%s: %s", name, strings.Join(wrong, "\n"))
		}
		if figures < 10 && (name == "sweep" || strings.HasPrefix(name, "e3nn")) {
			t.Errorf("%s: only %d figures", name, figures)
		}
	}
}

// TestAMisprintIsFound: a text changed by hand is not the value.
func TestAMisprintIsFound(t *testing.T) {
	p := pageOf([]*gpuprof.Run{fixture.One()})
	for i := range p.Sections {
		for j, b := range p.Sections[i].Blocks {
			if table, ok := b.(page.Table); ok && table.Name == "Table of stages" {
				cell := &table.Rows[0].Cells[1]
				if cell.Unit != "s" {
					t.Fatalf("no time: %v", cell)
				}
				cell.Text = strings.NewReplacer("1", "2", "2", "3", "6", "7").Replace(cell.Text)
				p.Sections[i].Blocks[j] = table
			}
		}
	}
	if _, wrong := misread(p); len(wrong) != 1 {
		t.Errorf("found %v", wrong)
	}
}

// TestAFieldIsInEveryFormat: the device's clock, one line of a builder, is in the
// table, in Markdown and in the page, and not where it is unknown.
func TestAFieldIsInEveryFormat(t *testing.T) {
	r := fixture.One()
	for hz, want := range map[float64]bool{1.98e9: true, 0: false} {
		r.DeviceClockHz = hz
		p := pageOf([]*gpuprof.Run{r})
		for format, write := range map[string]func(io.Writer) error{
			"table":    func(w io.Writer) error { return table.Write(w, p, table.Options{}) },
			"markdown": func(w io.Writer) error { return markdown.Write(w, p, 0) },
			"html":     func(w io.Writer) error { return htmlreport.Write(w, p) },
		} {
			if got := strings.Contains(rendered(t, write), "1.98 GHz"); got != want {
				t.Errorf("%s with a clock of %g Hz: shown is %v", format, hz, got)
			}
		}
	}
}
