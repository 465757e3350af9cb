// Package gate implements gpuprof gate and gpuprof compare. Both judge whether a program became slower; gate also sets
// an exit code for CI. Input: results, a trace or two builds. Output: a comparison on the terminal, in files and on
// GitHub. It imports the packages cli, input and judge, but no package of another subcommand.
package gate

import (
	"slices"
	"strings"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/cli"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/input"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/judge"
	"github.com/gpuprof/gpuprof/internal/compare"
)

// Cmd has the arguments and flags of gpuprof gate.
type Cmd struct {
	Args           []string      `arg:"" optional:"" name:"arg" sep:"none" complete:"file" help:"OLD NEW (OLD may be auto: the stored baseline that fits), or one RUN or TRACE with --max, or a WORKLOAD with --against."`
	Against        string        `placeholder:"REF|./BINARY" help:"Measure this git revision, or this binary (written as a path: ./old), against the present one, both in this job in turn."`
	Build          string        `placeholder:"COMMAND" help:"How to build the program in a checkout, with a shell; without it nothing is built for a command after --, and gpuprof itself is built with Go."`
	Result         string        `complete:"file" placeholder:"FILE" help:"File that the command after -- writes its result to, from where it runs; without it its standard output is read."`
	Budget         time.Duration `default:"10m" placeholder:"TIME" help:"Time for the measurement of --against (10m)."`
	MinTime        time.Duration `default:"2s" placeholder:"TIME" help:"Measure a workload about this long in each process of --against (2s)."`
	AA             bool          `name:"aa" help:"Measure the noise of this machine: the workload, or the command after --, against itself; kept for --plan."`
	Plan           bool          `help:"Print, from the noise that --aa measured, how many pairs of processes and how much time it takes to find 2, 5 and 10 percent; measures nothing."`
	Max            []string      `sep:"none" placeholder:"NAME=N" help:"Fail when this exact counter is above N (sync_points, bytes_h2d_pageable, launches, allocations …); may be repeated."`
	Inconclusive   string        `placeholder:"pass|fail" help:"Exit code of an inconclusive verdict: 0 or 1 instead of 3."`
	Preset         string        `placeholder:"NAME" help:"Preset of the workload for --against."`
	Set            []string      `sep:"none" placeholder:"KNOB=VALUE" help:"Knob of the workload for --against; may be repeated."`
	Device         string        `default:"auto" placeholder:"NAME" help:"Device of the workload for --against; never falls back by itself."`
	Dir            string        `placeholder:"FOLDER" help:"Folder of the baselines, as for gpuprof history baseline."`
	judge.LinkFlag `embed:""`
	judge.Flags    `embed:""`
}

// newBuilds returns the builds that --against, --aa and --plan measure.
func (c *Cmd) newBuilds() *judge.Builds {
	b := &judge.Builds{Args: c.Args, Against: c.Against, Build: c.Build, Result: c.Result, Budget: c.Budget, MinTime: c.MinTime, Preset: c.Preset, Set: c.Set, Device: c.Device, Link: c.Link}
	switch {
	case c.AA:
		b.Way = "--aa"
	case c.Plan:
		b.Way = "--plan"
	}
	return b
}

// Help implements kong.HelpProvider.
func (Cmd) Help() string {
	return "Exits 1 on a regression, 3 when the data cannot tell, 0 otherwise. Measuring both sides in one job (--against) is the mode to prefer: differences between sessions are then no part of the comparison. After -- any command can be judged that writes a known format. One that prints none, such as python train.py, is recorded as gpuprof run -- does, and its steps are compared.\n\n" + cli.Examples(
		"gpuprof gate --against main -- python train.py",
		"gpuprof gate --against main --build 'make bench' -- ./bench",
		"gpuprof gate old.json new.json",
		"gpuprof gate auto new.json",
		"gpuprof gate new.json --max sync_points=3",
		"gpuprof gate trace.json.gz --max sync_points=40",
	)
}

// Run implements gpuprof gate.
func (c *Cmd) Run(a *cli.App) error {
	o, err := c.Options(a)
	if err != nil {
		return err
	}
	o.Judge, o.Inconclusive = true, c.Inconclusive
	if err := o.Validate(); err != nil {
		return err
	}
	budgets, err := readBudgets(c.Max)
	if err != nil {
		return err
	}
	outs, err := c.Outputs(a, c.Args...)
	if err != nil {
		return err
	}
	if c.AA || c.Plan {
		return c.runNoise(a, o)
	}
	comparison, err := c.judgeSides(a, o, budgets)
	if err != nil {
		return err
	}
	return c.Report(a, comparison, outs)
}

func (c *Cmd) judgeSides(a *cli.App, o compare.Options, budgets []compare.Budget) (*compare.Comparison, error) {
	if err := c.checkFlags(len(a.Rest) > 0); err != nil {
		return nil, err
	}
	switch {
	case c.Against != "":
		return c.newBuilds().JudgeAgainst(a, o, budgets)
	case len(a.Rest) > 0:
		return nil, gpuprof.Errorf(gpuprof.ErrUsage, "reading the command line of gpuprof gate: a command after -- is measured against another build of it").WithFix("add --against REF or ./BINARY")
	case len(c.Args) == 1 && len(budgets) > 0:
		r, err := input.ReadCounted(a, c.Args[0])
		if err != nil {
			return nil, err
		}
		return compare.CheckBudgets(r, budgets, o)
	case len(c.Args) == 2:
		return (&files{old: c.Args[0], now: c.Args[1], dir: c.Dir, flags: &c.Flags, budgets: budgets}).judgeFiles(a, o)
	}
	return nil, gpuprof.Errorf(gpuprof.ErrUsage, "reading the command line of gpuprof gate: give OLD and NEW, or one file with --max NAME=N, or a workload with --against").WithFix("see gpuprof gate --help")
}

// runNoise implements gate --aa and gate --plan, which measure or print noise and judge nothing.
func (c *Cmd) runNoise(a *cli.App, o compare.Options) error {
	refuse := func(what string) error {
		return gpuprof.Errorf(gpuprof.ErrUsage, "reading the command line of gpuprof gate: %s", what).WithFix("leave one out")
	}
	switch {
	case c.AA && c.Plan:
		return refuse("--aa measures and --plan measures nothing")
	case c.AA && c.Against != "":
		return refuse("--aa measures one build against itself and --against another")
	case len(c.Max) > 0 || len(c.Output) > 0 || c.Inconclusive != "":
		return refuse("--aa and --plan judge nothing, so --max, -o and --inconclusive have no effect")
	case !slices.Contains(a.Documents.Noise.Prints, c.Format):
		return refuse("--aa and --plan print no --format " + c.Format)
	}
	if err := c.checkFlags(len(a.Rest) > 0); err != nil {
		return err
	}
	if c.Plan {
		return c.planGate(a, o)
	}
	return c.measureNoise(a, o)
}

// checkFlags refuses flags that have no effect with the given arguments.
func (c *Cmd) checkFlags(command bool) error {
	refuse := func(what, why string) error {
		return gpuprof.Errorf(gpuprof.ErrUsage, "reading the command line of gpuprof gate: %s %s", what, why).WithFix("leave it out")
	}
	for _, f := range []struct {
		flag             string
		given            bool
		workload, others bool // whether the flag is for a workload, or for a command after --
	}{
		{"--build", c.Build != "", true, true}, {"--result", c.Result != "", false, true},
		{"--preset", c.Preset != "", true, false}, {"--set", len(c.Set) > 0, true, false}, {"--device", c.Device != "auto", true, false},
	} {
		switch {
		case !f.given:
		case c.Against == "" && !c.AA && !c.Plan:
			return refuse(f.flag, "is for --against, and files are judged as they are")
		case command && !f.others:
			return refuse(f.flag, "is for a workload of gpuprof's, and a command follows --")
		case !command && !f.workload:
			return refuse(f.flag, "is for a command after --, and there is none")
		}
	}
	if len(c.Link) > 0 && (c.Against == "" || !command) {
		return refuse("--link", "is for a command after -- that --against measures in another checkout")
	}
	if command && (c.Against != "" || c.AA || c.Plan) && len(c.Args) > 0 {
		return refuse(c.Args[0], "is a workload or a file, and a command to be judged follows --")
	}
	return nil
}

func readBudgets(texts []string) ([]compare.Budget, error) {
	var out []compare.Budget
	for _, t := range texts {
		name, text, ok := judge.CutLast(t)
		if !ok {
			return nil, gpuprof.Errorf(gpuprof.ErrUsage, "reading --max %s: it is no counter with a limit", t).WithFix("give for example --max sync_points=3 or --max bytes_h2d=2MB")
		}
		v, err := gpuprof.ParseLimit(text, strings.Contains(name, "bytes"))
		if err != nil {
			return nil, gpuprof.Errorf(gpuprof.ErrUsage, "reading --max %s: %w", t, err)
		}
		out = append(out, compare.Budget{Name: name, Max: v})
	}
	return out, nil
}
