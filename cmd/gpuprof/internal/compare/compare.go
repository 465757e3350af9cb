// Package compare is gpuprof compare: it reports what changed between two results, and why. Two files come
// in, a comparison goes to the terminal and to files. It imports cli, input and judge, and no other verb.
package compare

import (
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/cli"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/input"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/judge"
	"github.com/gpuprof/gpuprof/internal/outside"
)

// Cmd is the command line of the verb.
type Cmd struct {
	Old         string `arg:"" optional:"" complete:"file" help:"Result file before: of gpuprof or another benchmark program (docs/ci.md lists them); a trace or an analysis; or a stored baseline. Without files: run.previous.json and run.json."`
	New         string `arg:"" optional:"" complete:"file" help:"Result file after."`
	judge.Flags `embed:""`
}

// Help implements kong.HelpProvider.
func (Cmd) Help() string {
	return "Shows what changed, by how much, where it comes from and what explains it. It never exits 1; gate does. A verdict needs 6 processes per side (gpuprof run --runs 6).\n\n" + cli.Examples(
		"gpuprof compare old.json new.json",
		"gpuprof compare old.json new.json --metric step -o comparison.md",
	)
}

// Run implements the verb.
func (c *Cmd) Run(a *cli.App) error {
	defer input.LimitHeap(outside.DocumentMemory())()
	var err error
	if c.Old, c.New, err = cli.TwoRunFiles(c.Old, c.New); err != nil {
		return err
	}
	o, err := c.Options(a)
	if err != nil {
		return err
	}
	outs, err := c.Outputs(a, c.Old, c.New)
	if err != nil {
		return err
	}
	now, err := input.ReadCounted(a, c.New)
	if err != nil {
		return err
	}
	old, err := input.ReadOld(a, c.Old)
	if err != nil {
		return err
	}
	if err := c.Learn(a, now, &o); err != nil {
		return err
	}
	comparison, err := old.Against(a, now, o)
	if err != nil {
		return err
	}
	return c.Report(a, comparison, outs)
}
