// Package fleet implements gpuprof fleet: it merges the documents that the ranks of a job stored in a folder or bucket,
// and names the slow GPU or node. It imports the packages cli and input, but no package of another subcommand.
package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/cli"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/input"
	"github.com/gpuprof/gpuprof/internal/bucket"
	"github.com/gpuprof/gpuprof/internal/fleet"
	"github.com/gpuprof/gpuprof/internal/outside"
)

// Cmd has the arguments and flags of gpuprof fleet.
type Cmd struct {
	Dir           []string      `arg:"" sep:"none" complete:"file" help:"Folder or s3://bucket/prefix that every rank wrote to with -o DIR/. Of several measurements by doctor --bench, the first has all nodes; only what is off in each stays off."`
	Again         bool          `help:"Print, in place of the report, the nodes that are off and as many healthy ones, for a second measurement: srun -w."`
	Wait          time.Duration `placeholder:"TIME" help:"Wait for TIME for the objects of all ranks (0)."`
	Missing       string        `default:"fail" choices:"fail,pass" placeholder:"fail|pass" help:"Exit with 4 if a rank left no object (fail), or go by the others (pass)."`
	Max           []string      `sep:"none" placeholder:"straggler=SHARE" help:"Exit with 1 if a rank that the others wait for costs more than this share of a step: straggler=5%."`
	AllowMismatch []string      `sep:"none" placeholder:"FIELD" help:"Merge ranks that differ in this setting too: a knob, preset, mode, version or commit; may be repeated."`
	Top           *int          `placeholder:"N" help:"Most rows of each table and entries of each list that are printed (what fits); the rest is counted."`
	Format        string        `default:"table" formats:"fleet" placeholder:"FORMAT" help:"Format to print: ${fleetFormats}."`
	Plot          string        `complete:"plot" placeholder:"KIND" help:"Content of pictures: ${fleetPlots}."`
	Output        []string      `short:"o" sep:"none" complete:"file" placeholder:"FILE" help:"Also write FILE, in the format of its extension: ${fleetFiles}; may be repeated."`
	Force         bool          `help:"Replace files that gpuprof did not write."`
}

// Help implements kong.HelpProvider.
func (Cmd) Help() string {
	return `The launcher of the job starts the same gpuprof as every rank, each with -o DIR/:

    srun gpuprof run e3nn -o /shared/job/
    srun gpuprof run -o /shared/job/ -- python train.py
    srun --ntasks-per-node=1 gpuprof doctor --bench -o /shared/job/

Exits 0 when no rank is slower than its siblings, 1 when one is, 3 when there is nothing
to compare with, and 4 when a rank failed or left no object. A rank that the others wait
for is named with what it costs per step; that is 0, and 1 with --max. See docs/fleet.md.

` + cli.Examples("gpuprof fleet job", "gpuprof fleet job --wait 60s -o fleet.html", "gpuprof fleet job --top 10", "gpuprof fleet check --again", "gpuprof fleet check check-again", "gpuprof fleet job --max straggler=5%")
}

// Run implements gpuprof fleet.
func (c *Cmd) Run(a *cli.App) error {
	defer input.LimitHeap(outside.DocumentMemory())()
	doc := a.Documents.Fleet
	outs, err := doc.Outputs(c.Output, c.Force)
	if err == nil {
		err = cli.CheckPlot(a, c.Plot, outs)
	}
	if err != nil {
		return err
	}
	r, err := c.merge(a)
	if err != nil {
		return err
	}
	show := func() error { return doc.Show(a, c.Format, r) }
	if c.Again {
		show = func() error { return printHosts(a, r) }
	}
	err = errors.Join(show(), doc.Save(a, outs, r, c.Plot, c.Force))
	if err != nil || r.ExitCode == cli.ExitOK {
		return err
	}
	return cli.Verdict{Code: r.ExitCode} // the report has the message
}

// printHosts prints the nodes to measure again, as a launcher's list of hosts: the nodes with a deviation, and for each
// of these a healthy node if possible.
func printHosts(a *cli.App, r *fleet.Report) error {
	off, healthy := r.Again()
	if len(off) == 0 {
		a.Note("no node is off, so there is none to measure again: %s", r.Reason)
		return nil
	}
	if less := len(off) - len(healthy); less > 0 {
		a.Note("%d of the %d nodes to measure again have no healthy one beside them", less, len(off))
	}
	a.Note("off: %s; healthy: %s", strings.Join(off, ", "), cmp.Or(strings.Join(healthy, ", "), "none"))
	_, err := fmt.Fprintln(a.Stdout, strings.Join(slices.Concat(off, healthy), ","))
	return err
}

// merge reads and judges the documents of the ranks.
func (c *Cmd) merge(a *cli.App) (*fleet.Report, error) {
	if c.Wait < 0 {
		return nil, gpuprof.Errorf(gpuprof.ErrUsage, "reading --wait %s: it is negative", c.Wait).WithFix("leave it out to wait for none")
	}
	top := 0
	if c.Top != nil {
		if top = *c.Top; top < 1 {
			return nil, gpuprof.Errorf(gpuprof.ErrUsage, "reading --top %d: a table has one row or more", top).WithFix("leave it out to print what fits")
		}
	}
	most, err := c.mostWaiting()
	if err != nil {
		return nil, err
	}
	o := fleet.Options{AllowMismatch: c.AllowMismatch, AllowMissing: c.Missing == "pass", MostWaiting: most, Top: top, Tool: a.Tool}
	var jobs []*fleet.Job
	for _, dir := range c.Dir {
		job, err := c.readJob(a, dir)
		if err != nil {
			return nil, err
		}
		jobs = append(jobs, job)
	}
	o.Again = jobs[1:]
	return fleet.Merge(jobs[0], o)
}

func (c *Cmd) readJob(a *cli.App, dir string) (*fleet.Job, error) {
	if !strings.Contains(dir, "://") {
		if info, err := os.Stat(dir); c.Wait == 0 && (err != nil || !info.IsDir()) {
			return nil, gpuprof.Errorf(gpuprof.ErrUsage, "reading the folder %s of a job: it is no folder", dir).WithFix("give the folder that every rank wrote to with -o FOLDER/")
		}
	}
	b, err := bucket.Open(dir, cli.FleetWords("on the command line"), os.Getenv)
	if err != nil {
		return nil, err
	}
	job, err := fleet.Gather(a.Ctx, b, c.Wait, cli.Pause)
	if err == nil && len(job.Objects)+len(job.Problems)+len(job.Elsewhere) == 0 {
		err = tracesInstead(a.Ctx, dir)
	}
	return job, err
}

// tracesInstead returns an error if the folder has traces in place of the documents of ranks.
func tracesInstead(ctx context.Context, dir string) error {
	if strings.Contains(dir, "://") {
		return nil
	}
	if input.IsRecording(dir) {
		return gpuprof.Errorf(gpuprof.ErrInput, "merging %s: it is one recording, and no job whose ranks left an object each", dir).
			WithFix("gpuprof analyze %s shows it and compares the ranks in it; gpuprof run -o JOB/ -- CMD, started as every rank, leaves a job", gpuprof.ShellWord(dir))
	}
	files, err := input.TracesIn(dir)
	if err != nil {
		return nil // no traces either; the missing documents are reported later
	}
	for _, file := range files {
		in, err := input.OpenFile(ctx, file)
		if err != nil {
			continue
		}
		found := in.IsTrace
		if in.Close() == nil && found {
			return gpuprof.Errorf(gpuprof.ErrInput, "merging %s: it holds traces and no object of a rank", dir).WithFix("read them with gpuprof analyze %s", dir)
		}
	}
	return nil
}

// mostWaiting returns the limit of --max straggler=SHARE, as a fraction of a step (0 to 1); 0 without the flag.
func (c *Cmd) mostWaiting() (float64, error) {
	most := 0.0
	for _, v := range c.Max {
		name, value, _ := strings.Cut(v, "=")
		number, percent := strings.CutSuffix(strings.TrimSpace(value), "%")
		share, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
		if percent {
			share /= 100
		}
		if name != "straggler" || err != nil || !(share > 0 && share <= 1) {
			return 0, gpuprof.Errorf(gpuprof.ErrUsage, "reading --max %s: it is not straggler=SHARE with a share of the step", v).WithFix("give --max straggler=5%%")
		}
		most = share
	}
	return most, nil
}
