// Package check implements gpuprof run --check: it compares each stage of a workload with a reference, or with vectors
// from another program. It reports to the terminal and to files. It imports package cli, but no package of another
// subcommand.
package check

import (
	"errors"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/cli"
	"github.com/gpuprof/gpuprof/internal/document"
	"github.com/gpuprof/gpuprof/internal/outside"
	"github.com/gpuprof/gpuprof/workloads"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/measure"
)

// Cmd has the arguments and flags of gpuprof run --check.
type Cmd struct {
	cli.TargetFlags `embed:""`
	Vectors         string   `complete:"file" placeholder:"FILE.json" help:"Compare with the vectors of this file instead of the workload's own reference."`
	Format          string   `default:"table" formats:"check" placeholder:"FORMAT" help:"Format to print: ${checkFormats}."`
	Output          []string `short:"o" sep:"none" complete:"file" placeholder:"FILE" help:"Also write FILE, in the format of its extension: ${checkFiles}; may be repeated."`
	Force           bool     `help:"Replace files that gpuprof did not write."`
}

// Help implements kong.HelpProvider.
func (Cmd) Help() string {
	return "Exits 4 when a comparison fails.\n\n" + cli.Examples(
		"gpuprof run --check e3nn",
		"gpuprof run --check e3nn --set impl=csr --seed 7 --format json",
		"gpuprof run --check e3nn --vectors vectors.json",
		"gpuprof run --check e3nn -o check.html",
	)
}

// Run implements gpuprof run --check.
func (c *Cmd) Run(a *cli.App) error {
	t, err := c.Resolve(a, "run --check")
	if err != nil {
		return err
	}
	if len(t.Knobs) > 1 {
		return gpuprof.Errorf(gpuprof.ErrUsage, "checking %s: check takes one setting, not a sweep", t.Workload.Name()).WithFix("give each knob one value")
	}
	outs, err := a.Documents.Check.Outputs(c.Output, c.Force)
	if err != nil {
		return err
	}
	vectors, err := c.readVectors(a)
	if err != nil {
		return err
	}
	if err := t.Refuse(a); err != nil {
		return err
	}
	dev, err := t.Device.Open()
	if err != nil {
		return err
	}
	var r *gpuprof.CheckReport
	if c.Vectors != "" {
		r, err = c.checkVectors(a, t, dev, vectors)
	} else {
		r, err = c.checkStages(a, t, dev)
	}
	if r != nil && len(r.Cases)+len(r.Stages) > 0 {
		err = errors.Join(err, c.writeReport(a, r, outs))
	}
	if a.Ctx.Err() != nil {
		err = gpuprof.Errorf(nil, "checking %s: %w", t.Workload.Name(), cli.ErrInterrupted).WithFix("run it again")
	}
	return errors.Join(err, dev.Close())
}

func (c *Cmd) readVectors(a *cli.App) ([]byte, error) {
	if c.Vectors == "" {
		return nil, nil
	}
	b, err := outside.ReadAll(a.Ctx, c.Vectors)
	if err != nil {
		return nil, outside.Failed("reading vectors "+c.Vectors, err, "give an existing file to --vectors", "write them again")
	}
	return b, nil
}

func newReport(t *cli.Target, a *cli.App, dev device.Device) *gpuprof.CheckReport {
	return &gpuprof.CheckReport{Head: document.NewHead(document.Check, a.Tool), Workload: t.Workload.Name(), Preset: t.Preset, Device: dev.Info().Name}
}

func (c *Cmd) checkStages(a *cli.App, t *cli.Target, dev device.Device) (r *gpuprof.CheckReport, err error) {
	r = newReport(t, a, dev)
	r.Stages, err = measure.Check(a.Ctx, dev, measure.Plan{Workload: t.Workload, Preset: t.Preset, Knobs: t.Knobs[0],
		Seed: c.Seed, Mode: gpuprof.Steady, Tool: a.Tool, Note: func(text string) { a.Note("%s", text) }})
	return r, err
}

func (c *Cmd) checkVectors(a *cli.App, t *cli.Target, dev device.Device, file []byte) (r *gpuprof.CheckReport, err error) {
	vc, ok := t.Workload.(workloads.VectorChecker)
	if !ok {
		return nil, gpuprof.Errorf(gpuprof.ErrUsage, "checking %s: this workload takes no vectors", t.Workload.Name()).WithFix("leave --vectors out")
	}
	r = newReport(t, a, dev)
	r.Preset = ""
	r.Cases, err = vc.CheckVectors(a.Ctx, dev, file, c.Vectors)
	return r, err
}

// writeReport prints and writes the report. It returns an error if a comparison failed.
func (c *Cmd) writeReport(a *cli.App, r *gpuprof.CheckReport, outs []cli.Output) error {
	document.CleanStrings(r) // the kinds of cases come from the file of --vectors
	a.Verbose = true         // show all failed cases
	k := a.Documents.Check
	if err := errors.Join(k.Show(a, c.Format, r), k.Save(a, outs, r, "", c.Force)); err != nil {
		return err
	}
	failed, all := r.Failed()
	if failed == 0 {
		return nil
	}
	what := "stages"
	if len(r.Cases) > 0 {
		what = "comparisons"
	}
	return gpuprof.Errorf(gpuprof.ErrCheck, "checking %s: %d of %d %s disagree with the reference", r.Workload, failed, all, what).WithFix("do not trust times of this build with these settings")
}
