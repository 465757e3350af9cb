package page

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/report/internal/view"
)

// Check builds the page of gpuprof run --check. It has a row per stage, or per kind of test vectors, and the failed
// cases.
func Check(r *gpuprof.CheckReport) (*Page, error) {
	if r == nil {
		return nil, view.ErrNoRun("a check")
	}
	p := &Page{Title: "Check of " + r.Workload, Answer: r.Answer(), Tool: toolText(r.Tool), Data: jsonData("check.json", r), Footer: "A relative error is ||out - ref|| / ||ref|| in float64."}
	for _, text := range []string{r.Preset, r.Device} {
		if text != "" {
			p.Meta = append(p.Meta, text)
		}
	}
	p.Sections = []Section{{Blocks: stepChecks(r.Stages)}}
	if len(r.Stages) > 0 {
		p.Sections = append(p.Sections, Section{ID: "stages", Blocks: []Block{checkTable(r.Stages)}})
	}
	if len(r.Cases) > 0 {
		p.Sections = append(p.Sections, Section{ID: "cases", Blocks: []Block{kindTable(r.Cases)}}, Section{ID: "failed", Blocks: []Block{failedCases(r.Cases)}})
	}
	return p, nil
}

// stepChecks explains checks that include the whole step.
func stepChecks(checks []gpuprof.Check) []Block {
	for _, c := range checks {
		if strings.HasPrefix(c.Stage, gpuprof.WholeStep) {
			return []Block{Text{S: fmt.Sprintf("Compared: each stage from its own inputs, and the whole step "+
				"from the step's inputs to its results (%s).", c.Rows)}}
		}
	}
	return nil
}

// checkTable has a row per stage.
func checkTable(checks []gpuprof.Check) Table {
	t := Table{Name: "Table of checks", Noun: "stage", Caption: "Each stage against a float64 reference, before any timing: ||out - ref|| / ||ref||.",
		Columns: []Column{{Title: "stage", Left: true}, {Title: "relative error"}, {Title: "tolerance"}, {Title: "rows"}, {Title: "result"}}}
	for _, c := range checks {
		rows := c.Rows
		if c.Virtual {
			rows = "in virtual time"
		}
		row := Row{Cells: []Cell{wordsCell(c.Stage), amountCell(errorText(c.RelativeError), float64(c.RelativeError), "1"), toleranceCell(c.Tolerance), wordsCell(rows), wordsCell("passed")}}
		if !c.Pass {
			row.Tone, row.Keep, row.Cells[4].Text = Bad, true, "FAILED"
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

func toleranceCell(v float64) Cell { return amountCell(fmt.Sprintf("%.2g", v), v, "1") }

// kindTable has a row per kind, precision and tolerance of cases.
func kindTable(cases []gpuprof.CaseResult) Table {
	type key struct {
		kind, precision string
		tolerance       float64
	}
	type sum struct {
		n, failed int
		worst     gpuprof.Number
	}
	var order []key
	sums := map[key]*sum{}
	for _, c := range cases {
		k := key{c.Kind, c.Precision, c.Tolerance}
		if !slices.Contains(order, k) {
			order = append(order, k)
			sums[k] = &sum{}
		}
		s := sums[k]
		s.n++
		// NaN is the worst error, but does not compare as greater.
		if c.RelativeError > s.worst || math.IsNaN(float64(c.RelativeError)) {
			s.worst = c.RelativeError
		}
		if !c.Pass {
			s.failed++
		}
	}
	t := Table{Name: "Table of vectors", Noun: "kind", Columns: []Column{{Title: "kind", Left: true}, {Title: "arithmetic", Left: true, Drop: 3}, {Title: "cases", Drop: 2}, {Title: "failed"}, {Title: "worst error"}, {Title: "tolerance", Drop: 4}, {Title: "result"}}}
	for _, k := range order {
		s := sums[k]
		row := Row{Cells: []Cell{wordsCell(k.kind), wordsCell(k.precision), countCell(s.n), countCell(s.failed), amountCell(errorText(s.worst), float64(s.worst), "1"), toleranceCell(k.tolerance), wordsCell("passed")}}
		if s.failed > 0 {
			row.Tone, row.Keep, row.Cells[6].Text = Bad, true, "FAILED"
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

func failedCases(cases []gpuprof.CaseResult) Table {
	t := Table{Name: "Table of failed cases", Noun: "case", Columns: []Column{{Title: "failed kind", Left: true}, {Title: "case"}, {Title: "arithmetic", Left: true}, {Title: "error"}, {Title: "tolerance"}}}
	for _, c := range cases {
		if !c.Pass {
			t.Rows = append(t.Rows, Row{Keep: true, Cells: []Cell{wordsCell(c.Kind), wordsCell(strconv.Itoa(c.Index)), wordsCell(c.Precision), amountCell(errorText(c.RelativeError), float64(c.RelativeError), "1"), toleranceCell(c.Tolerance)}})
		}
	}
	return t
}
