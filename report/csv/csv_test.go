package csv_test

import (
	"bytes"
	stdcsv "encoding/csv"
	"errors"
	"flag"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/history"
	"github.com/gpuprof/gpuprof/internal/testkit/fixture"
	"github.com/gpuprof/gpuprof/report/csv"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func render(t *testing.T, runs ...*gpuprof.Run) string {
	t.Helper()
	var b bytes.Buffer
	if err := csv.Write(&b, runs); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestGolden(t *testing.T) {
	for name, runs := range map[string][]*gpuprof.Run{"complete": {fixture.One()}, "sweep": fixture.Sweep(), "invalid": {fixture.Invalid()}, "requests": fixture.Loaded()[3:]} {
		got, path := render(t, runs...), filepath.Join("testdata", name+".csv")
		if *update {
			if err := errors.Join(os.MkdirAll("testdata", 0o755), os.WriteFile(path, []byte(got), 0o644)); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// Whatever a run holds, the rows are whole, a value is a number with a unit, and no text
// is a formula to a spreadsheet.
func TestEveryRun(t *testing.T) {
	for name, r := range fixture.Every() {
		all, err := stdcsv.NewReader(strings.NewReader(render(t, r))).ReadAll()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		column := map[string]int{}
		for i, title := range all[0] {
			column[title] = i
		}
		for _, row := range all[1:] {
			if _, err := strconv.ParseFloat(row[column["value"]], 64); err != nil || row[column["unit"]] == "" || row[column["metric"]] == "" {
				t.Errorf("%s: row %q", name, row)
			}
			for _, cell := range row {
				if _, err := strconv.ParseFloat(cell, 64); err != nil && cell != "" && strings.ContainsRune("=+-@", rune(cell[0])) {
					t.Errorf("%s: %q is a formula", name, cell)
				}
			}
		}
	}
}

// A row for each figure of a history, and none where a session has no such metric; names
// that came from a store are no formulas.
func TestHistory(t *testing.T) {
	at := time.Date(2026, 11, 3, 9, 0, 0, 0, time.FixedZone("", 3600))
	r := &history.Report{Trends: []history.Trend{{
		Project: "=1+1", Benchmark: "@b",
		Sessions: []history.At{{Class: "+c", Started: at}, {Class: "c", Commit: history.Commit{ID: "-x", Time: at}, LeftOut: "warm"}},
		Metrics:  []history.Metric{{Name: "Step", Unit: "s", Values: []gpuprof.Number{0.5, 0.25}, Changes: []history.Change{{At: 1, Ratio: 0.5}}}, {Name: "Peak", Unit: "B", Values: []gpuprof.Number{gpuprof.Number(math.NaN()), 8}}},
	}}}
	var b bytes.Buffer
	if err := csv.History(&b, r); err != nil {
		t.Fatal(err)
	}
	const want = `project,benchmark,class,commit,committed,started,metric,unit,value,analysed,change
'=1+1,'@b,'+c,,,2026-11-03T08:00:00Z,Step,s,0.5,true,
'=1+1,'@b,c,'-x,2026-11-03T08:00:00Z,,Step,s,0.25,false,0.5
'=1+1,'@b,c,'-x,2026-11-03T08:00:00Z,,Peak,B,8,false,
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Error(diff)
	}
}
