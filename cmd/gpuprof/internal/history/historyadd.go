package history

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/cli"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/input"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/judge"
	"github.com/gpuprof/gpuprof/internal/compare"
	"github.com/gpuprof/gpuprof/internal/compare/results"
	"github.com/gpuprof/gpuprof/internal/document"
	"github.com/gpuprof/gpuprof/internal/history"
	"github.com/gpuprof/gpuprof/internal/outside"
)

// AddCmd has the arguments and flags of gpuprof history add.
type AddCmd struct {
	Results   []string `arg:"" name:"result" sep:"none" complete:"file" help:"Results: whatever gpuprof compare reads. Each file, and each folder of gpuprof run -- CMD, is a session."`
	Benchmark string   `placeholder:"NAME" help:"Call the benchmark so; without it by its workload and preset, or by the format of the file."`
	Commit    string   `placeholder:"COMMIT" help:"Commit that was measured; without it the one that is checked out here."`
	Sentinel  []string `sep:"none" complete:"file" placeholder:"FILE" help:"Result of a benchmark whose code never changes, measured in the same job; may be repeated."`
}

// Help implements kong.HelpProvider.
func (AddCmd) Help() string {
	return "Adding a result again changes nothing, so that a job may be repeated.\n\n" + cli.Examples(
		"gpuprof history add six.json --store perf",
		"gpuprof history add six.json --sentinel sentinel.json --store perf",
	)
}

// Run implements gpuprof history add.
func (c *AddCmd) Run(a *cli.App, h *Cmd) error {
	defer input.LimitHeap(outside.DocumentMemory())()
	store, err := h.open()
	if err != nil {
		return err
	}
	sentinel, err := c.readSentinel(a)
	if err != nil {
		return err
	}
	run, done := judge.NewChildren(a)
	defer done()
	o := history.Origin{Benchmark: document.CleanText(c.Benchmark)}
	if o.Commit, err = measuredCommit(run, c.Commit); err != nil {
		return err
	}
	o.Project = document.CleanText(cmp.Or(h.Project, projectName(run)))
	switch {
	case o.Commit.ID == "":
		a.Note("warning: there is no git checkout here, so that the sessions have no commit and are shown but not analysed; give --commit COMMIT")
	case o.Commit.Dirty:
		a.Note("warning: files of this checkout differ from its commit, so that the sessions are shown but not analysed; commit them, or give --commit COMMIT")
	}
	var errs []error
	for _, path := range c.Results {
		errs = append(errs, addResult(a, store, path, sentinel, o))
	}
	return errors.Join(errs...)
}

// readSentinel merges the results of all files of --sentinel, which measure code that never changes; nil without files.
func (c *AddCmd) readSentinel(a *cli.App) (*compare.Result, error) {
	var all []*compare.Result
	for _, path := range c.Sentinel {
		found, err := readResults(a, path)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	if len(all) == 0 {
		return nil, nil
	}
	return results.Merge(all...)
}

func addResult(a *cli.App, store *history.Store, path string, sentinel *compare.Result, o history.Origin) error {
	o.Written = time.Now()
	if info, err := os.Stat(path); err == nil && (info.Mode().IsRegular() || info.IsDir()) {
		o.Written = info.ModTime()
	}
	found, err := readResults(a, path)
	if err != nil {
		return err
	}
	for _, r := range found {
		s, err := history.NewSession(r, sentinel, o)
		if err != nil {
			return err
		}
		added, err := store.Add(a.Ctx, s)
		if err != nil {
			return gpuprof.Errorf(nil, "adding %s to the history: %w", document.CleanText(cli.ShownPath(path)), err)
		}
		state := "added"
		if added.Known {
			state = "already there"
		}
		fmt.Fprintf(a.Stdout, "%s: %s %s\n", document.CleanText(cli.ShownPath(path)), state, added.Name)
	}
	return nil
}

// readResults reads all results of a file. A sweep has one result for each point, a trace one with its counters and
// step times.
func readResults(a *cli.App, path string) ([]*compare.Result, error) {
	in, err := input.OpenFile(a.Ctx, path)
	if err != nil {
		return nil, results.Failed(path, err)
	}
	defer in.Close()
	return in.Results(a)
}
