package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/compare"
)

// judging is what compare and gate share: margins, metrics and outputs.
type judging struct {
	Threshold     []string `sep:"none" placeholder:"[NAME=]PERCENT" help:"Slowdown that must be found (5%); NAME=PERCENT for one metric or pattern; may be repeated."`
	Metric        []string `sep:"none" placeholder:"GLOB" help:"Judge only these metrics; may be repeated."`
	AllowMismatch []string `sep:"none" placeholder:"FIELD" help:"Compare although this field (driver, preset, a knob) differs; may be repeated."`
	SessionSpread *share   `placeholder:"PERCENT" help:"Spread assumed between sessions if it cannot be estimated (1%)."`
	Store         string   `complete:"file" placeholder:"STORE" help:"History whose sessions show the spread between sessions; without it GPUPROF_STORE names it, else the spread is assumed."`
	Seed          uint64   `default:"1" placeholder:"N" help:"Seed of the bootstrap and of the order of processes (1)."`
	Format        string   `default:"table" formats:"comparison" placeholder:"FORMAT" help:"Format to print: ${comparisonFormats}; bench is for benchstat -col /side."`
	Output        []string `short:"o" sep:"none" complete:"file" placeholder:"FILE" help:"Also write FILE, in the format of its extension: ${comparisonFiles} (.xml is JUnit); may be repeated."`
	Force         bool     `help:"Replace files that gpuprof did not write."`
}

// options reads the flags; ErrUsage names the one that cannot be meant.
func (j *judging) options(a *app) (compare.Options, error) {
	o := compare.Options{Only: j.Metric, AllowMismatch: j.AllowMismatch, Seed: j.Seed, Tool: a.tool}
	for _, t := range j.Threshold {
		name, text, named := cutLast(t)
		v, err := gpuprof.ParseShare(text)
		if err == nil && v <= 0 {
			err = errors.New("it is not above 0, and a slowdown of nothing cannot be found")
		}
		if err != nil {
			why, fix := gpuprof.FixOf(err)
			return o, gpuprof.Errorf(gpuprof.ErrUsage, "reading --threshold %s: %s", t, why).WithFix("%s", cmp.Or(fix, "give for example 5% or step=7%"))
		}
		m := compare.Margins{Threshold: v}
		if !named {
			o.Margins = m
			continue
		}
		o.Metrics = append(o.Metrics, compare.MarginsFor{Metric: name, Margins: m})
	}
	if j.SessionSpread != nil {
		if o.SessionSpread = float64(*j.SessionSpread); o.SessionSpread == 0 {
			o.SessionSpread = -1 // none, where 0 stands for the default
		}
	}
	return o, o.Validate()
}

// cutLast splits NAME=VALUE at the last sign: names of benchmarks hold some.
func cutLast(s string) (name, value string, named bool) {
	if i := strings.LastIndexByte(s, '='); i > 0 {
		return s[:i], s[i+1:], true
	}
	return "", s, false
}

// outputs checks every -o before anything is read or measured. What is read is
// not written, though gpuprof wrote it once: a run would be lost to its verdict.
func (j *judging) outputs(a *app, inputs ...string) ([]output, error) {
	for _, in := range inputs { // files, or auto, or a workload
		for _, out := range j.Output {
			if sameFile(in, out) {
				return nil, gpuprof.Errorf(gpuprof.ErrUsage, "writing %s: it is compared here, and would be lost", out).WithFix("give another name")
			}
		}
	}
	return a.documents.comparison.outputs(j.Output, j.Force)
}

// report prints and writes a comparison, tells GitHub where it is asked to,
// and returns the verdict as an exit code.
func (j *judging) report(a *app, c *compare.Comparison, outs []output) error {
	comparison := a.documents.comparison
	errs := []error{comparison.show(a, j.Format, c), comparison.save(a, outs, c, "", j.Force)}
	errs = append(errs, a.tellGitHub(cmp.Or(a.commands, a.stderr), c, os.Getenv))
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if c.ExitCode == exitOK {
		return nil
	}
	return verdict{code: c.ExitCode} // everything has been said
}

func encodeVerdict(w io.Writer, c *compare.Comparison, _ screen) error {
	text, err := json.MarshalIndent(c, "", " ")
	if err == nil {
		_, err = w.Write(append(lists.ReplaceAllFunc(text, oneLine), '\n'))
	}
	if err != nil {
		return fmt.Errorf("writing the comparison as JSON: %w", err)
	}
	return nil
}

// lists are those of numbers, indented: no text of JSON holds a line break, so
// that none is taken for one.
var lists = regexp.MustCompile(`\[\n *(?:(?:null|[-+.0-9eE]+),?\n *)+\]`)

// oneLine prints a process's samples in one line, not one a line.
func oneLine(list []byte) []byte { return bytes.Join(bytes.Fields(list), nil) }

// startedAt is when the first process of a comparison was measured, for JUnit. The
// zero time where no result says so: today's would make other bytes of the same
// input.
func startedAt(c *compare.Comparison) time.Time {
	first := math.Inf(1)
	for _, t := range c.Order {
		if t.StartS > 0 {
			first = min(first, t.StartS)
		}
	}
	if first > 1e11 {
		return time.Time{}
	}
	return time.Unix(int64(first), 0).UTC()
}
