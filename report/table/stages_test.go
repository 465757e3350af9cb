package table_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/olekukonko/tablewriter/pkg/twwidth"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/testkit/fixture"
	"github.com/gpuprof/gpuprof/report/internal/view"
	"github.com/gpuprof/gpuprof/report/table"
)

// stageTable is the title line of the stage table and its rows.
func stageTable(t *testing.T, r *gpuprof.Run, width int) []string {
	t.Helper()
	var b bytes.Buffer
	if err := write(&b, table.Options{Width: width}, r); err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(b.String(), "\n\n")
	if !ok {
		t.Fatal(b.String())
	}
	if at := strings.Index(rest, "\nstage "); at >= 0 {
		rest = rest[at+1:]
	}
	rows, _, _ := strings.Cut(rest, "\nspread:")
	return strings.Split(rows, "\n")
}

// columnEnd is where a column ends on a line, in columns of the terminal.
func columnEnd(line, cell string) int {
	before, _, ok := strings.Cut(line, cell)
	if !ok {
		return -1
	}
	return twwidth.Width(before) + twwidth.Width(cell)
}

// TestNamesKeepTheColumns: names of wide, joined and right-to-left letters take
// the room they are drawn in, and the figures after them stay in their columns.
func TestNamesKeepTheColumns(t *testing.T) {
	for name, stage := range map[string]string{
		"wide": "張量積核心", "wide and long": strings.Repeat("長", 30), "emoji": "🚀 gemm 🧮", "combining": "re\u0301sume\u0301", "hebrew": "סכום", "arabic": "تجميع ٣", "mixed": "sum סכום 3",
	} {
		r := fixture.One()
		r.Stage("scatter").Name = stage
		rows := stageTable(t, r, 80)
		want := columnEnd(rows[0], "share")
		if !strings.Contains(rows[0], "device") || !strings.Contains(rows[0], "spread") {
			t.Errorf("%s takes the room of the figures: %s", name, rows[0])
		}
		for i, s := range view.Stages(r) {
			if s.Name == gpuprof.StageGap {
				continue
			}
			if got := columnEnd(rows[i+1], view.ShareCell(s)); got != want {
				t.Errorf("%s: the share of row %d ends at column %d, its title at %d:\n%s", name, i+1, got, want, strings.Join(rows, "\n"))
			}
		}
	}
}

// TestRightToLeftEndsInAMark: else a terminal that orders letters would draw
// the figures after the name before it.
func TestRightToLeftEndsInAMark(t *testing.T) {
	r := fixture.One()
	r.Stage("scatter").Name = "סכום"
	found := false
	for _, row := range stageTable(t, r, 80) {
		found = found || strings.HasPrefix(row, "סכום\u200e ")
	}
	if !found {
		t.Error("no mark after a right-to-left name")
	}
}

// TestEveryStageHasItsSpread, at every width, and what has no room is named.
func TestEveryStageHasItsSpread(t *testing.T) {
	r := fixture.Three()
	for _, width := range []int{80, 100, 120, 160} {
		rows := stageTable(t, r, width)
		for i, s := range view.Stages(r) {
			if s.Name != gpuprof.StageGap && !strings.ContainsAny(rows[i+1], "█") {
				t.Errorf("width %d: %s has no sparkline: %s", width, s.Name, rows[i+1])
			}
		}
		var b bytes.Buffer
		if err := write(&b, table.Options{Width: width}, r); err != nil {
			t.Fatal(err)
		}
		for _, column := range []string{"GB/s", "GF/s", "bound", "host"} {
			if shown := strings.Contains(rows[0], column); shown == strings.Contains(b.String(), "no room for "+column) {
				t.Errorf("width %d: column %s is shown: %v, and named as left out: %v", width, column, shown, !shown)
			}
		}
	}
}

// TestWiderSaysMore: what has no room says how much it needs, and has it then.
func TestWiderSaysMore(t *testing.T) {
	r := fixture.One()
	var b bytes.Buffer
	if err := write(&b, table.Options{Width: 70}, r); err != nil {
		t.Fatal(err)
	}
	_, after, ok := strings.Cut(strings.Join(strings.Fields(b.String()), " "), "all of it needs ")
	var need int
	if _, err := fmt.Sscan(after, &need); err != nil || !ok {
		t.Fatalf("no width is named in\n%s", b.String())
	}
	b.Reset()
	if err := write(&b, table.Options{Width: need}, r); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(b.String(), "no room") {
		t.Errorf("at the width it asked for:\n%s", b.String())
	}
}
