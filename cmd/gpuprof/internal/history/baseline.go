package history

import (
	"cmp"
	"fmt"
	"strconv"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/cli"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/input"
	"github.com/gpuprof/gpuprof/internal/compare/baseline"
	"github.com/gpuprof/gpuprof/internal/document"
	"github.com/gpuprof/gpuprof/internal/outside"
	"github.com/gpuprof/gpuprof/internal/stats"
	"github.com/gpuprof/gpuprof/report/runfile"
)

// BaselineCmd has the flags and subcommands of gpuprof history baseline. A baseline is a set of stored sessions, with
// which later runs are compared.
type BaselineCmd struct {
	Dir string `complete:"file" placeholder:"FOLDER" help:"Folder of the baselines (./baselines if it exists, else the user's data folder)."`

	Add  BaselineAddCmd  `cmd:"" help:"Add runs to the baselines that fit them, each as a session."`
	List BaselineListCmd `cmd:"" help:"List the baselines."`
	Show BaselineShowCmd `cmd:"" help:"Show the sessions of one."`
	Rm   BaselineRmCmd   `cmd:"" help:"Remove one."`
	Path BaselinePathCmd `cmd:"" help:"Print the folder."`
}

// Help implements kong.HelpProvider.
func (BaselineCmd) Help() string {
	return "A baseline holds sessions of one workload on one device; gpuprof gate auto RUN judges against the one that fits.\n\n" + cli.Examples(
		"gpuprof history baseline add six.json",
		"gpuprof history baseline list",
		"gpuprof history baseline path",
	)
}

// BaselineAddCmd has the arguments and flags of gpuprof history baseline add.
type BaselineAddCmd struct {
	Runs    []string `arg:"" name:"run" sep:"none" complete:"file" help:"Run files, each measured with --runs 6."`
	Machine string   `placeholder:"NAME" help:"Name this machine in the baseline; without it the baseline names none."`
	Command string   `placeholder:"TEXT" help:"Command that measured the runs, for readers of the baseline."`
	Keep    int      `placeholder:"N" help:"Sessions to keep, the latest (20)."`
}

// Run implements gpuprof history baseline add.
func (c *BaselineAddCmd) Run(a *cli.App, b *BaselineCmd) error {
	defer input.LimitHeap(outside.DocumentMemory())()
	store, err := b.openStore()
	if err != nil {
		return err
	}
	var runs []*gpuprof.Run
	for _, path := range c.Runs {
		if input.IsRecording(path) {
			return gpuprof.Errorf(gpuprof.ErrUsage, "adding %s to the baselines: it is a recording, and baselines are of runs", path).
				WithFix("gpuprof history add %s keeps a recording", gpuprof.ShellWord(path))
		}
		r, err := runfile.Read(a.Ctx, path)
		if err != nil {
			return err
		}
		runs = append(runs, r...)
	}
	p := baseline.Provenance{Now: time.Now().UTC(), Machine: document.CleanText(c.Machine), Command: document.CleanText(document.MaskText(c.Command)), Tool: a.Tool}
	added, warnings, err := store.Add(runs, p, c.Keep)
	for _, x := range added {
		fmt.Fprintf(a.Stdout, "%s: %s%s\n", document.CleanText(x.Path), gpuprof.Plural(x.Sessions, "session"), olderLeftOut(x.Dropped))
	}
	for _, w := range warnings {
		a.Note("warning: %s; %s", w.Text, w.Fix)
	}
	return err
}

func olderLeftOut(n int) string {
	if n == 0 {
		return ""
	}
	return ", " + gpuprof.Plural(n, "older one") + " left out"
}

func (b *BaselineCmd) openStore() (*baseline.Store, error) { return input.OpenStore(b.Dir) }

// BaselineListCmd has the arguments and flags of gpuprof history baseline list.
type BaselineListCmd struct {
	Format string `default:"table" choices:"table,json" placeholder:"FORMAT" help:"Format to print: table or json."`
}

// Run implements gpuprof history baseline list.
func (c *BaselineListCmd) Run(a *cli.App, b *BaselineCmd) error {
	return input.ListBaselines(a, b.Dir, c.Format, "")
}

// BaselineShowCmd has the arguments and flags of gpuprof history baseline show.
type BaselineShowCmd struct {
	Name   string `arg:"" help:"Name of the baseline, see gpuprof history baseline list."`
	Format string `default:"table" choices:"table,json" placeholder:"FORMAT" help:"Format to print: table or json."`
}

// Run implements gpuprof history baseline show.
func (c *BaselineShowCmd) Run(a *cli.App, b *BaselineCmd) error {
	store, err := b.openStore()
	if err != nil {
		return err
	}
	x, err := store.Show(c.Name)
	if err != nil {
		return err
	}
	if c.Format == "json" {
		return input.WriteBaselines(a, []*baseline.Baseline{x})
	}
	fmt.Fprintf(a.Stdout, "%s\n%s\n\n", document.CleanText(x.Path), x.Fingerprint)
	rows := [][]string{{"MEASURED", "PROCESSES", "STEP", "COMMIT", "MACHINE", "COMMAND"}}
	for _, s := range x.Sessions {
		step := "-"
		if m := s.Result("").Metric("step"); m != nil {
			step = gpuprof.FormatSeconds(stats.Summarise("s", m.Runs...).Median)
		}
		rows = append(rows, []string{s.Started.Format("2006-01-02 15:04"), strconv.Itoa(s.Processes), step, s.Tool.Commit, cmp.Or(s.Machine, "-"), s.Command})
	}
	return cli.Columns(a.Stdout, rows)
}

// BaselineRmCmd has the arguments and flags of gpuprof history baseline rm.
type BaselineRmCmd struct {
	Name string `arg:"" help:"Name of the baseline, see gpuprof history baseline list."`
}

// Run implements gpuprof history baseline rm.
func (c *BaselineRmCmd) Run(a *cli.App, b *BaselineCmd) error {
	store, err := b.openStore()
	if err != nil {
		return err
	}
	path, err := store.Remove(c.Name)
	if err == nil {
		a.Note("removed %s", path)
	}
	return err
}

// BaselinePathCmd is gpuprof history baseline path, which has no flags.
type BaselinePathCmd struct{}

// Run implements gpuprof history baseline path.
func (BaselinePathCmd) Run(a *cli.App, b *BaselineCmd) error {
	store, err := b.openStore()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(a.Stdout, store.Path())
	return err
}
