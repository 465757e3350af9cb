// Package history implements gpuprof history: it adds sessions to a store, shows trends, and decides whether a
// benchmark became slower over the last sessions. It also stores baselines. Reports go to the terminal, to files or to
// static pages. It imports the packages cli, input and judge, but no package of another subcommand.
package history

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/cli"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/input"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/judge"
	"github.com/gpuprof/gpuprof/internal/history"
	"github.com/gpuprof/gpuprof/internal/outside"
	"github.com/gpuprof/gpuprof/report/runfile"
)

// Cmd has the flags and subcommands of gpuprof history.
type Cmd struct {
	Store   string `complete:"file" placeholder:"STORE" help:"Folder or s3://bucket/prefix of the sessions; without it GPUPROF_STORE names it."`
	Project string `placeholder:"NAME" help:"Project in the store: for add the one of this checkout, otherwise all."`

	Show  ShowCmd  `cmd:"" default:"withargs" help:"Show the trend of every benchmark, and where it changed."`
	Add   AddCmd   `cmd:"" help:"Add results to the store, each as a session."`
	Check CheckCmd `cmd:"" help:"Decide whether something became slower over the last sessions, for CI."`
	Prune PruneCmd `cmd:"" help:"List what need not be kept; with --yes remove it."`

	Baseline BaselineCmd `cmd:"" help:"Keep sessions of a workload in a folder, to judge later ones against."`
}

// Help implements kong.HelpProvider.
func (Cmd) Help() string {
	return "A store keeps every measured session with its commit; nothing in it is ever changed. See docs/history.md.\n\n" + cli.Examples(
		"gpuprof history add six.json --store perf",
		"gpuprof history --store perf",
		"gpuprof history --store perf -o trend.png",
		"gpuprof history baseline add six.json",
	)
}

// open opens the store of --store or of GPUPROF_STORE.
func (h *Cmd) open() (*history.Store, error) { return judge.OpenHistory(h.Store) }

// trends has the flags that history show and history check share.
type trends struct {
	Benchmark string     `arg:"" optional:"" help:"Benchmark to show, as gpuprof history names it; without it all."`
	Metric    []string   `sep:"none" placeholder:"GLOB" help:"Only these metrics; may be repeated."`
	Last      int        `default:"250" placeholder:"N" help:"Sessions of each benchmark, the latest (250)."`
	Class     string     `placeholder:"HASH" help:"Only sessions of this class (machine and settings), by the first digits of its hash."`
	Threshold *cli.Share `placeholder:"PERCENT" help:"Slowdown that is an alarm (5%)."`
	Since     string     `placeholder:"COMMIT" help:"No alarm for changes up to this commit: they are known."`
	Format    string     `default:"table" formats:"history" placeholder:"FORMAT" help:"Format to print: ${historyFormats}."`
	Output    []string   `short:"o" sep:"none" complete:"file" placeholder:"FILE" help:"Also write FILE, in the format of its extension (${historyFiles}), or a site of static pages into a folder (site/); may be repeated."`
	Force     bool       `help:"Replace files that gpuprof did not write."`
}

// ShowCmd has the arguments and flags of gpuprof history show.
type ShowCmd struct {
	trends       `embed:""`
	FailOnChange bool `help:"Exit 1 if something became slower, by the rule of gpuprof history check."`
}

// Help implements kong.HelpProvider.
func (ShowCmd) Help() string {
	return cli.Examples(
		"gpuprof history --store perf",
		"gpuprof history e3nn-small --store perf --metric step -o trend.png",
		"gpuprof history --store perf -o site/",
	)
}

// Run implements gpuprof history show.
func (c *ShowCmd) Run(a *cli.App, h *Cmd) error {
	r, err := c.makeReport(a, h, c.FailOnChange)
	if err != nil {
		return err
	}
	if c.FailOnChange && len(r.Alarms()) > 0 {
		return cli.Verdict{Code: cli.ExitRegression} // the report has the message
	}
	return nil
}

// makeReport reads the store, and prints and writes its report. watch makes the report raise alarms for slowdowns.
func (c *trends) makeReport(a *cli.App, h *Cmd, watch bool) (*history.Report, error) {
	defer input.LimitHeap(outside.DocumentMemory())()
	files, sites := c.splitOutputs()
	doc := a.Documents.History
	outs, err := doc.Outputs(files, c.Force)
	if err != nil {
		return nil, err
	}
	store, err := h.open()
	if err != nil {
		return nil, err
	}
	o, err := c.buildOptions(a, h.Project)
	if err != nil {
		return nil, err
	}
	o.Watch = watch
	r, err := store.Report(a.Ctx, o)
	if err != nil {
		return nil, err
	}
	for _, w := range r.Warnings {
		a.Note("warning: %s", w.Sentence())
	}
	errs := []error{doc.Show(a, c.Format, r), doc.Save(a, outs, r, "", c.Force)}
	for _, dir := range sites {
		errs = append(errs, writeSite(a, dir, r, c.Force))
	}
	return r, errors.Join(errs...)
}

// buildOptions returns the options from the flags, with the order of the commits on the current branch.
func (c *trends) buildOptions(a *cli.App, project string) (history.Options, error) {
	o := history.Options{Filter: history.Filter{Project: project, Benchmark: c.Benchmark, Class: c.Class}, Metrics: c.Metric, Last: c.Last, Tool: a.Tool}
	if c.Last < history.LeastSessions {
		return o, gpuprof.Errorf(gpuprof.ErrUsage, "reading --last %d: nothing can be said about fewer than %d sessions", c.Last, history.LeastSessions).WithFix("give %d or more", history.LeastSessions)
	}
	if c.Threshold != nil {
		o.Threshold = float64(*c.Threshold)
		if o.Threshold <= 0 {
			return o, gpuprof.Errorf(gpuprof.ErrUsage, "reading --threshold: it is not above 0").WithFix("give for example 5%%")
		}
	}
	run, done := judge.NewChildren(a)
	defer done()
	o.Order = run.Order()
	var err error
	if c.Since != "" {
		o.Since, err = commitOf(run, c.Since)
	}
	return o, err
}

func (c *trends) splitOutputs() (files, sites []string) {
	for _, o := range c.Output {
		info, err := os.Stat(o)
		if strings.HasSuffix(o, "/") || err == nil && info.IsDir() {
			sites = append(sites, o)
			continue
		}
		files = append(files, o)
	}
	return files, sites
}

func writeSite(a *cli.App, dir string, r *history.Report, force bool) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return gpuprof.Unwritable("writing the site "+dir, err, "choose another folder with -o", "give a folder that can be made")
	}
	files, err := a.Site(r)
	if err != nil {
		return err
	}
	var errs []error
	for _, f := range files {
		errs = append(errs, runfile.Write(filepath.Join(dir, f.Name), force, f.Write))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	a.Note("wrote %s", filepath.Join(dir, files[0].Name))
	return nil
}
