package main

import (
	"context"
	"errors"
	"os"
	"strings"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/bucket"
	"github.com/gpuprof/gpuprof/internal/fleet"
	"github.com/gpuprof/gpuprof/internal/outside"
)

type fleetCmd struct {
	Dir           string        `arg:"" complete:"file" help:"Folder or s3://bucket/prefix that every rank wrote to with -o DIR/."`
	Wait          time.Duration `placeholder:"TIME" help:"Wait so long for the objects of all ranks (0)."`
	Missing       string        `default:"fail" choices:"fail,pass" placeholder:"fail|pass" help:"Exit with 4 if a rank left no object (fail), or go by the others (pass)."`
	AllowMismatch []string      `sep:"none" placeholder:"FIELD" help:"Merge ranks that differ in this setting too: a knob, preset, mode, version or commit; may be repeated."`
	Format        string        `default:"table" formats:"fleet" placeholder:"FORMAT" help:"Format to print: ${fleetFormats}."`
	Output        []string      `short:"o" sep:"none" complete:"file" placeholder:"FILE" help:"Also write FILE, in the format of its extension: ${fleetFiles}; may be repeated."`
	Force         bool          `help:"Replace files that gpuprof did not write."`
}

// Help implements kong.HelpProvider.
func (fleetCmd) Help() string {
	return `The launcher of the job starts the same gpuprof as every rank, each with -o DIR/:

    srun gpuprof run e3nn -o /shared/job/
    srun --ntasks-per-node=1 gpuprof doctor --bench -o /shared/job/

Exits 0 when no rank is slower than its siblings, 1 when one is, 3 when there is nothing
to compare with, and 4 when a rank failed or left no object. See docs/fleet.md.

` + examples("gpuprof fleet job", "gpuprof fleet job --wait 60s -o fleet.html")
}

// Run implements the verb.
func (c *fleetCmd) Run(a *app) error {
	defer lean(outside.DocumentMemory())()
	doc := outputTable().fleet
	outs, err := doc.outputs(c.Output, c.Force)
	if err != nil {
		return err
	}
	r, err := c.merge(a)
	if err != nil {
		return err
	}
	err = errors.Join(doc.show(a, c.Format, r), doc.save(a, outs, r, "", c.Force))
	if err != nil || r.Verdict == fleet.Even {
		return err
	}
	return verdict{code: r.ExitCode} // everything has been said
}

// merge reads the objects and judges them.
func (c *fleetCmd) merge(a *app) (*fleet.Report, error) {
	if c.Wait < 0 {
		return nil, gpuprof.Errorf(gpuprof.ErrUsage, "reading --wait %s: it is negative", c.Wait).WithFix("leave it out to wait for none")
	}
	if !strings.Contains(c.Dir, "://") {
		if info, err := os.Stat(c.Dir); c.Wait == 0 && (err != nil || !info.IsDir()) {
			return nil, gpuprof.Errorf(gpuprof.ErrUsage, "reading the folder %s of a job: it is no folder", c.Dir).WithFix("give the folder that every rank wrote to with -o FOLDER/")
		}
	}
	b, err := bucket.Open(c.Dir, fleetWords("on the command line"), os.Getenv)
	if err != nil {
		return nil, err
	}
	job, err := fleet.Gather(a.ctx, b, c.Wait, pause)
	if err != nil {
		return nil, err
	}
	return fleet.Merge(job, b.String(), fleet.Options{AllowMismatch: c.AllowMismatch, AllowMissing: c.Missing == "pass", Tool: tool()})
}

// pause waits, or ends early with the context's error.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
