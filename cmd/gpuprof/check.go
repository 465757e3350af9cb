package main

import (
	"errors"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/document"
	"github.com/gpuprof/gpuprof/internal/outside"
	"github.com/gpuprof/gpuprof/workloads"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/measure"
)

type checkCmd struct {
	target  `embed:""`
	Vectors string   `complete:"file" placeholder:"FILE.json" help:"Compare with the vectors of this file instead of the workload's own reference."`
	Format  string   `default:"table" formats:"check" placeholder:"FORMAT" help:"Format to print: ${checkFormats}."`
	Output  []string `short:"o" sep:"none" complete:"file" placeholder:"FILE" help:"Also write FILE, in the format of its extension: ${checkFiles}; may be repeated."`
	Force   bool     `help:"Replace files that gpuprof did not write."`
}

// Help implements kong.HelpProvider.
func (checkCmd) Help() string {
	return "Exits 4 when a comparison fails.\n\n" + examples(
		"gpuprof check e3nn",
		"gpuprof check e3nn --set impl=csr --seed 7 --format json",
		"gpuprof check e3nn --vectors vectors.json",
		"gpuprof check e3nn -o check.html",
	)
}

// Run implements the verb.
func (c *checkCmd) Run(a *app) error {
	t, err := c.resolve(a, "check")
	if err != nil {
		return err
	}
	if len(t.knobs) > 1 {
		return gpuprof.Errorf(gpuprof.ErrUsage, "checking %s: check takes one setting, not a sweep", t.workload.Name()).WithFix("give each knob one value")
	}
	outs, err := a.documents.check.outputs(c.Output, c.Force)
	if err != nil {
		return err
	}
	vectors, err := c.readVectors(a)
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
	var r *gpuprof.CheckReport
	if c.Vectors != "" {
		r, err = c.checkVectors(a, t, dev, vectors)
	} else {
		r, err = c.checkStages(a, t, dev)
	}
	if r != nil && len(r.Cases)+len(r.Stages) > 0 {
		err = errors.Join(err, c.tell(a, r, outs))
	}
	if a.ctx.Err() != nil {
		err = gpuprof.Errorf(nil, "checking %s: %w", t.workload.Name(), errInterrupted).WithFix("run it again")
	}
	return errors.Join(err, dev.Close())
}

func (c *checkCmd) readVectors(a *app) ([]byte, error) {
	if c.Vectors == "" {
		return nil, nil
	}
	b, err := outside.ReadAll(a.ctx, c.Vectors)
	if err != nil {
		return nil, outside.Failed("reading vectors "+c.Vectors, err, "give an existing file to --vectors", "write them again")
	}
	return b, nil
}

// report is an empty one of the workload on the device.
func (t *aim) report(a *app, dev device.Device) *gpuprof.CheckReport {
	return &gpuprof.CheckReport{Head: document.NewHead(document.Check, a.tool), Workload: t.workload.Name(), Preset: t.preset, Device: dev.Info().Name}
}

func (c *checkCmd) checkStages(a *app, t *aim, dev device.Device) (r *gpuprof.CheckReport, err error) {
	r = t.report(a, dev)
	r.Stages, err = measure.Check(a.ctx, dev, measure.Plan{Workload: t.workload, Preset: t.preset, Knobs: t.knobs[0],
		Seed: c.Seed, Mode: gpuprof.Steady, Tool: a.tool, Note: func(text string) { a.note("%s", text) }})
	return r, err
}

func (c *checkCmd) checkVectors(a *app, t *aim, dev device.Device, file []byte) (r *gpuprof.CheckReport, err error) {
	vc, ok := t.workload.(workloads.VectorChecker)
	if !ok {
		return nil, gpuprof.Errorf(gpuprof.ErrUsage, "checking %s: this workload takes no vectors", t.workload.Name()).WithFix("leave --vectors out")
	}
	r = t.report(a, dev)
	r.Preset = ""
	r.Cases, err = vc.CheckVectors(a.ctx, dev, file, c.Vectors)
	return r, err
}

// tell prints and writes what was compared; the error is that of a comparison that failed.
func (c *checkCmd) tell(a *app, r *gpuprof.CheckReport, outs []output) error {
	document.CleanStrings(r) // kinds of cases are the file's words
	a.verbose = true         // a failed case is not left out
	k := a.documents.check
	if err := errors.Join(k.show(a, c.Format, r), k.save(a, outs, r, "", c.Force)); err != nil {
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
