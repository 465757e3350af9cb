// Package judge measures and compares two builds of a program for gpuprof gate, bisect, history and run. It makes
// checkouts and builds, measures blocks, compares them in statistical stages, and uses the spread that a history shows.
// The result is a compare.Comparison. A side is one of the two builds and how to run it. A block is one process of each
// side. A turn is a short time in which one of two running processes measures. The package imports package cli, but no
// package of a subcommand.
package judge

import (
	"cmp"
	"errors"
	"os"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/cli"
	"github.com/gpuprof/gpuprof/internal/compare"
)

// Flags has the flags that gpuprof compare and gpuprof gate share.
type Flags struct {
	Threshold     []string   `sep:"none" placeholder:"[NAME=]PERCENT" help:"Slowdown that must be found (5%); NAME=PERCENT for one metric or pattern; may be repeated."`
	Metric        []string   `sep:"none" placeholder:"GLOB" help:"Judge only these metrics; may be repeated."`
	AllowMismatch []string   `sep:"none" placeholder:"FIELD" help:"Compare although this field (driver, preset, a knob) differs; may be repeated."`
	SessionSpread *cli.Share `placeholder:"PERCENT" help:"Spread assumed between sessions if it cannot be estimated (1%)."`
	Store         string     `complete:"file" placeholder:"STORE" help:"History whose sessions show the spread between sessions; without it GPUPROF_STORE names it, else the spread is assumed."`
	Seed          uint64     `default:"1" placeholder:"N" help:"Seed of the order of processes (1)."`
	Format        string     `default:"table" formats:"comparison" placeholder:"FORMAT" help:"Format to print: ${comparisonFormats}; bench is for benchstat -col /side."`
	Output        []string   `short:"o" sep:"none" complete:"file" placeholder:"FILE" help:"Also write FILE, in the format of its extension: ${comparisonFiles} (.xml is JUnit); may be repeated."`
	Force         bool       `help:"Replace files that gpuprof did not write."`
}

// Options parses the flags; ErrUsage names an invalid flag.
func (j *Flags) Options(a *cli.App) (compare.Options, error) {
	o := compare.Options{Only: j.Metric, AllowMismatch: j.AllowMismatch, Seed: j.Seed, Tool: a.Tool}
	for _, t := range j.Threshold {
		name, text, named := CutLast(t)
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
			o.SessionSpread = -1 // no spread, whereas 0 means the default
		}
	}
	return o, o.Validate()
}

// CutLast splits NAME=VALUE at the last "=": benchmark names may contain "=".
func CutLast(s string) (name, value string, named bool) {
	if i := strings.LastIndexByte(s, '='); i > 0 {
		return s[:i], s[i+1:], true
	}
	return "", s, false
}

// Outputs checks the output files of -o before anything is read or measured. It refuses to overwrite one of the inputs,
// even with --force.
func (j *Flags) Outputs(a *cli.App, inputs ...string) ([]cli.Output, error) {
	for _, in := range inputs { // files, "auto" or a workload
		for _, out := range j.Output {
			if cli.SameFile(in, out) {
				return nil, gpuprof.Errorf(gpuprof.ErrUsage, "writing %s: it is compared here, and would be lost", out).WithFix("give another name")
			}
		}
	}
	return a.Documents.Comparison.Outputs(j.Output, j.Force)
}

// Report prints and writes a comparison, reports it to GitHub if requested, and returns the verdict as an error.
func (j *Flags) Report(a *cli.App, c *compare.Comparison, outs []cli.Output) error {
	comparison := a.Documents.Comparison
	errs := []error{comparison.Show(a, j.Format, c), comparison.Save(a, outs, c, "", j.Force)}
	errs = append(errs, a.ReportToGitHub(cmp.Or(a.Commands, a.Stderr), c, os.Getenv))
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if c.ExitCode == cli.ExitOK {
		return nil
	}
	return cli.Verdict{Code: c.ExitCode} // the report has the message
}
