package gate

import (
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/cli"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/judge"
)

// CompareCmd has the arguments and flags of gpuprof compare. It judges like gate, but a regression does not change its
// exit code.
type CompareCmd struct {
	Old         string `arg:"" optional:"" complete:"file" help:"Result file before: of gpuprof or another benchmark program (docs/ci.md lists them); a trace or an analysis; a folder of gpuprof run -- CMD; or a stored baseline (auto: the one that fits). Without files: run.previous.json and run.json."`
	New         string `arg:"" optional:"" complete:"file" help:"Result file after."`
	judge.Flags `embed:""`
}

// Help implements kong.HelpProvider.
func (CompareCmd) Help() string {
	return "Shows what changed, by how much, where it comes from and what explains it. It never exits 1; gate does. A verdict needs 6 processes per side (gpuprof run --runs 6).\n\n" + cli.Examples(
		"gpuprof compare old.json new.json",
		"gpuprof compare old.json new.json --metric step -o comparison.md",
	)
}

// Run implements gpuprof compare.
func (c *CompareCmd) Run(a *cli.App) error {
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
	comparison, err := (&files{old: c.Old, now: c.New, flags: &c.Flags}).judgeFiles(a, o)
	if err != nil {
		return err
	}
	return c.Report(a, comparison, outs)
}
