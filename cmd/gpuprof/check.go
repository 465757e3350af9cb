package main

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/document"
	"github.com/gpuprof/gpuprof/internal/measure"
	"github.com/gpuprof/gpuprof/internal/outside"
)

type checkCmd struct {
	target  `embed:""`
	Vectors string `complete:"file" placeholder:"FILE.json" help:"Compare with the vectors of this file instead of the workload's own reference."`
	Format  string `default:"table" choices:"table,json" placeholder:"FORMAT" help:"Format to print: table or json."`
}

// Help implements kong.HelpProvider.
func (checkCmd) Help() string {
	return "Exits 4 when a comparison fails.\n\n" + examples(
		"gpuprof check e3nn",
		"gpuprof check e3nn --set impl=csr --seed 7 --format json",
		"gpuprof check e3nn --vectors vectors.json",
	)
}

// checkDocument is what check prints as JSON: cases with --vectors, the
// stages otherwise.
type checkDocument struct {
	gpuprof.Head
	Cases  []gpuprof.CaseResult `json:"cases,omitempty"`
	Stages []gpuprof.Check      `json:"stages,omitempty"`
}

// Run implements the verb.
func (c *checkCmd) Run(a *app) error {
	t, err := c.resolve("check")
	if err != nil {
		return err
	}
	if len(t.knobs) > 1 {
		return gpuprof.Errorf(gpuprof.ErrUsage, "checking %s: check takes one setting, not a sweep", t.workload.Name()).WithFix("give each knob one value")
	}
	vectors, err := c.readVectors()
	if err != nil {
		return err
	}
	if err := t.refuse(a); err != nil {
		return err
	}
	dev, err := t.device.open()
	if err != nil {
		return err
	}
	if c.Vectors != "" {
		err = c.checkVectors(a, t, dev, vectors)
	} else {
		err = c.checkStages(a, t, dev)
	}
	if a.ctx.Err() != nil {
		err = gpuprof.Errorf(nil, "checking %s: %w", t.workload.Name(), errInterrupted).WithFix("run it again")
	}
	return errors.Join(err, dev.Close())
}

func (c *checkCmd) readVectors() ([]byte, error) {
	if c.Vectors == "" {
		return nil, nil
	}
	b, err := outside.ReadAll(c.Vectors)
	if err != nil {
		return nil, outside.Failed("reading vectors "+c.Vectors, err, "give an existing file to --vectors", "write them again")
	}
	return b, nil
}

func (c *checkCmd) checkStages(a *app, t *aim, dev gpuprof.Device) error {
	checks, err := measure.Check(a.ctx, dev, measure.Plan{Workload: t.workload, Preset: t.preset, Knobs: t.knobs[0],
		Seed: c.Seed, Mode: gpuprof.Steady, Tool: tool()})
	if err != nil && len(checks) == 0 {
		return err
	}
	document.CleanStrings(&checks)
	if c.Format == "json" {
		err = errors.Join(err, writeJSON(a.stdout, checkDocument{Head: document.NewHead(document.Check, tool()), Stages: checks}))
	} else {
		err = errors.Join(err, printStages(a.stdout, checks))
	}
	if err != nil {
		return err
	}
	failed := 0
	for _, ch := range checks {
		if !ch.Pass {
			failed++
		}
	}
	return failure(t.workload.Name(), failed, len(checks), "stages")
}

func (c *checkCmd) checkVectors(a *app, t *aim, dev gpuprof.Device, file []byte) error {
	vc, ok := t.workload.(gpuprof.VectorChecker)
	if !ok {
		return gpuprof.Errorf(gpuprof.ErrUsage, "checking %s: this workload takes no vectors", t.workload.Name()).WithFix("leave --vectors out")
	}
	cases, err := vc.CheckVectors(a.ctx, dev, file, c.Vectors)
	if err != nil {
		return err
	}
	document.CleanStrings(&cases) // their kinds are the file's words
	if c.Format == "json" {
		err = writeJSON(a.stdout, checkDocument{Head: document.NewHead(document.Check, tool()), Cases: cases})
	} else {
		err = printCases(a.stdout, cases)
	}
	if err != nil {
		return err
	}
	failed := 0
	for _, r := range cases {
		if !r.Pass {
			failed++
		}
	}
	return failure(t.workload.Name(), failed, len(cases), "comparisons")
}

// failure is the verdict: nil when nothing failed.
func failure(name string, failed, total int, what string) error {
	if failed == 0 {
		return nil
	}
	return gpuprof.Errorf(gpuprof.ErrCheck, "checking %s: %d of %d %s disagree with the reference", name, failed, total, what).WithFix("do not trust times of this build with these settings")
}

func printStages(w io.Writer, checks []gpuprof.Check) error {
	rows := [][]string{{"STAGE", "RELATIVE ERROR", "TOLERANCE", "ROWS", "RESULT"}}
	for _, c := range checks {
		rows = append(rows, []string{c.Stage, scientific(float64(c.RelativeError)), scientific(c.Tolerance), c.Rows, passed(c.Pass)})
	}
	return columns(w, rows)
}

// printCases prints a row for each kind, precision and tolerance, then every case that
// failed.
func printCases(w io.Writer, cases []gpuprof.CaseResult) error {
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
	var failed [][]string
	for _, c := range cases {
		k := key{c.Kind, c.Precision, c.Tolerance}
		if !slices.Contains(order, k) {
			order = append(order, k)
			sums[k] = &sum{}
		}
		s := sums[k]
		s.n++
		// A NaN is the worst there is, and nothing is greater than it.
		if c.RelativeError > s.worst || math.IsNaN(float64(c.RelativeError)) {
			s.worst = c.RelativeError
		}
		if !c.Pass {
			s.failed++
			failed = append(failed, []string{c.Kind, strconv.Itoa(c.Index), c.Precision, scientific(float64(c.RelativeError)), scientific(c.Tolerance)})
		}
	}
	rows := [][]string{{"KIND", "PRECISION", "CASES", "FAILED", "WORST ERROR", "TOLERANCE", "RESULT"}}
	for _, k := range order {
		s := sums[k]
		rows = append(rows, []string{k.kind, k.precision, strconv.Itoa(s.n), strconv.Itoa(s.failed), scientific(float64(s.worst)), scientific(k.tolerance), passed(s.failed == 0)})
	}
	if err := columns(w, rows); err != nil || len(failed) == 0 {
		return err
	}
	fmt.Fprintln(w)
	return columns(w, append([][]string{{"FAILED KIND", "CASE", "PRECISION", "ERROR", "TOLERANCE"}}, failed...))
}

func scientific(v float64) string { return strconv.FormatFloat(v, 'e', 2, 64) }

func passed(ok bool) string {
	if ok {
		return "pass"
	}
	return "FAIL"
}
