// Package tuneprogram implements gpuprof tune -- COMMAND: it tries settings on the user's own program. The tuning
// result goes to the terminal and to files; a state file, from which --resume continues, is kept up to date. It imports
// package cli, but no package of another subcommand.
package tuneprogram

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/cli"
	"github.com/gpuprof/gpuprof/internal/child"
	"github.com/gpuprof/gpuprof/internal/document"
	"github.com/gpuprof/gpuprof/internal/outside"
	"github.com/gpuprof/gpuprof/internal/record"
	"github.com/gpuprof/gpuprof/internal/tune"
	"github.com/gpuprof/gpuprof/internal/tuneprogram"
	"github.com/gpuprof/gpuprof/report/runfile"
	"github.com/gpuprof/gpuprof/workloads/measure"
)

// Cmd has the flags of gpuprof tune -- COMMAND.
type Cmd struct {
	Try       []string      `sep:"none" placeholder:"NAME=V1,V2" help:"Also try these values of an environment variable. With {NAME} in the command: of its words, as 'batch=--batch-size {32,64}'; the first is today's. May be repeated."`
	Budget    time.Duration `default:"10m" placeholder:"TIME" help:"Time for all runs (10m). A run that would exceed it is stopped."`
	Steps     int           `placeholder:"N" help:"Measure N steps in each run (as many as take 1.5 s, 20 to 400, whole epochs)."`
	Claims    bool          `help:"Test the promises of tuning guides on this program in place of a search: each setting that a guide recommends, beside the guide's figure."`
	Only      []string      `placeholder:"A,B" help:"Try only these settings, such as num_workers or num_workers=2."`
	Skip      []string      `placeholder:"A,B" help:"Do not try these settings."`
	MaxError  cli.Share     `default:"1%" placeholder:"PERCENT" help:"Leave out settings whose losses differ by more than this share of the first loss (1%)."`
	InPlace   bool          `help:"Run in the working folder itself, and not in a copy of it: what the program writes stays."`
	Link      []string      `placeholder:"PATH" help:"In the copy, link this file or folder to the original in place of copying it; may be repeated."`
	CopyLimit cli.Size      `default:"1GiB" placeholder:"SIZE" help:"Copy no working folder that is larger (1GiB)."`
	Resume    string        `complete:"file" placeholder:"FILE" help:"Go on with the search of the same command that left FILE, and keep it up to date."`
	Format    string        `default:"table" formats:"tuning" placeholder:"FORMAT" help:"Format to print: ${tuningFormats}."`
	Output    []string      `short:"o" sep:"none" complete:"file" placeholder:"FILE" help:"Write FILE, in the format of its extension: ${tuningFiles}; may be repeated. The first .json is kept up to date while tune works."`
	Force     bool          `help:"Replace files that gpuprof did not write."`
}

// Help implements kong.HelpProvider.
func (Cmd) Help() string {
	return "Runs the command behind -- again and again for a few steps, in a copy of the working folder: as it is, and with one setting changed from outside. " +
		"Settings that are faster are combined, and a gate confirms the best set in fresh processes. The losses of every run are compared with those of the program as it is. " +
		"Only a confirmed set with the same training is recommended, as lines of code.\n\n" + cli.Examples(
		"gpuprof tune -- python train.py",
		"gpuprof tune --budget 5m -o tune.json -o tune.html -- python train.py",
		"gpuprof tune --try 'batch=--batch-size {32,64,128}' -- python train.py {batch}",
		"gpuprof tune --try OMP_NUM_THREADS=1,2,4 -- ./simulation",
		"gpuprof tune --claims -- python train.py",
	)
}

type tuning struct {
	*Cmd
	app   *cli.App
	opts  tuneprogram.Options
	run   *tuneprogram.Command
	outs  []cli.Output
	state string // JSON file with the state of the search; "" for none
}

// Run implements gpuprof tune -- COMMAND.
func (c *Cmd) Run(a *cli.App) error {
	t, err := c.prepare(a)
	if err != nil {
		return err
	}
	if t.run.Folder == nil && !c.InPlace {
		done, err := t.copyFolder()
		if err != nil {
			return err
		}
		defer done()
	}
	if c.InPlace {
		a.Note("each run starts in this folder: what the program writes in its first steps stays, over what was there")
	}
	counters, unknown, done := a.Energy()
	defer done()
	t.run.Meter = tuneprogram.Meter{Counters: counters, Unknown: unknown}
	bar := a.NewProgress("tune")
	t.opts.Progress = func(p tuneprogram.Progress) {
		bar.Show(measure.Progress{Phase: p.Phase, Note: p.Note, Done: p.Spent.Seconds(),
			Total: (p.Spent + p.Left).Seconds()})
	}
	r, err := t.runSearch()
	bar.Close()
	if errors.Is(err, gpuprof.ErrUsage) || err != nil && len(r.Program.Runs) < 2 { // there is nothing to print
		return t.interruptError(err, false)
	}
	tuning := a.Documents.Tuning
	return errors.Join(t.interruptError(err, true), tuning.Show(a, c.Format, r), tuning.Save(a, t.outs, r, "", c.Force))
}

func (t *tuning) runSearch() (*tune.Result, error) {
	if t.Claims {
		return tuneprogram.RunClaims(t.app.Ctx, t.opts, guideClaims())
	}
	t.opts.Findings = t.recordFindings
	return tuneprogram.Run(t.app.Ctx, t.opts)
}

// interruptError converts the error of an interrupt to one with a fix; other errors are unchanged. some reports that
// there are measurements from which a search can go on.
func (t *tuning) interruptError(err error, some bool) error {
	if t.app.Ctx.Err() == nil {
		return err
	}
	e := gpuprof.Errorf(nil, "tuning: %w", cli.ErrInterrupted)
	switch {
	case !some:
		return e.WithFix("nothing was measured: start again")
	case t.state == "":
		return e.WithFix("the runs so far are not kept: give -o FILE.json to go on later")
	}
	return e.WithFix("the runs so far are in %s: go on with gpuprof tune --resume %s -- and the command", t.state,
		t.state)
}

func (c *Cmd) prepare(a *cli.App) (*tuning, error) {
	t := &tuning{Cmd: c, app: a, run: &tuneprogram.Command{Args: a.Rest, Start: map[string]string{}}}
	if err := record.Check(&record.Options{Args: a.Rest, Nsys: record.NsysNever, CUDA: record.CUDANever}); err != nil {
		return nil, err
	}
	if c.Budget <= 0 || c.Steps < 0 || c.MaxError <= 0 {
		return nil, gpuprof.Errorf(gpuprof.ErrUsage,
			"reading the command line of gpuprof tune: --budget and --max-error must be above 0, --steps not below").
			WithFix("give for example --budget 10m --max-error 1%%")
	}
	if c.InPlace && len(c.Link) > 0 {
		return nil, gpuprof.Errorf(gpuprof.ErrUsage,
			"reading the command line of gpuprof tune: --link is for the copy of the working folder, and --in-place makes none").
			WithFix("leave one out")
	}
	o := &t.opts
	for _, text := range c.Try {
		try, err := tuneprogram.ParseTry(text, a.Rest)
		if err != nil {
			return nil, err
		}
		o.Tries = append(o.Tries, try)
		if try.Argument {
			t.run.Start[try.Name] = try.Values[0]
		}
	}
	*o = tuneprogram.Options{
		Tool: a.Tool, Runner: t.run, Command: a.Rest, Tries: o.Tries, Only: c.Only, Skip: c.Skip, Steps: c.Steps, MaxError: float64(c.MaxError), Budget: c.Budget,
		CPUs: runtime.NumCPU(), Copied: !c.InPlace, Getenv: os.Getenv, Build: cli.BuildHash(), Now: time.Now, Whole: func() { t.run.Whole = true },
	}
	if a.Clock != nil {
		o.Now = a.Clock
	}
	if err := t.readEarlier(); err != nil {
		return nil, err
	}
	err := t.chooseFiles()
	return t, err
}

func (t *tuning) readEarlier() error {
	if t.Resume == "" {
		return nil
	}
	text, err := outside.ReadFound(t.Resume)
	if err != nil {
		return outside.Failed("reading tuning result "+t.Resume, err, "give the file that gpuprof tune left",
			"start again with another -o FILE")
	}
	old, err := tune.Decode(text, t.Resume)
	if err != nil {
		return err
	}
	refuse := func(why string) error {
		return gpuprof.Errorf(gpuprof.ErrUsage, "resuming %s: %s", t.Resume, why).
			WithFix("give the same command and flags, or start a new file with -o")
	}
	switch {
	case old.Program == nil:
		return refuse("it holds the tuning of a workload")
	case !slices.Equal(old.Program.Command, document.MaskCommand(t.app.Rest)):
		return refuse("it holds the tuning of " + old.Program.CommandText())
	case (old.Kind == document.Claims) != t.Claims:
		return refuse("one of both is a test of claims, and the other a search")
	case old.Build != t.opts.Build:
		return refuse("another build of gpuprof measured it")
	}
	t.opts.Resume = old
	return nil
}

// chooseFiles chooses the output files. The state of the search goes to the file of --resume, or else to the first
// .json output, if there is one.
func (t *tuning) chooseFiles() error {
	paths := t.Output
	t.state = t.Resume
	for _, p := range paths {
		if f, err := runfile.FormatOf(p); err == nil && f.Ext == ".json" && t.state == "" {
			t.state = p
		}
	}
	if t.state != "" && !slices.Contains(paths, t.state) {
		paths = append([]string{t.state}, paths...)
	}
	var err error
	if t.outs, err = t.app.Documents.Tuning.Outputs(paths, t.Force); err != nil || t.state == "" {
		return err
	}
	t.opts.Save = func(r *tune.Result) error {
		return runfile.Write(t.state, t.Force, func(w io.Writer) error { return document.Encode(w, r) })
	}
	return nil
}

// copyFolder copies the working folder, for the program to run in; done removes the copy.
func (t *tuning) copyFolder() (done func(), err error) {
	here, err := os.Getwd()
	if err != nil {
		return nil, gpuprof.Errorf(nil, "finding the current folder: %w", err).WithFix("change into one that exists")
	}
	scratch, err := child.NewScratch("tune")
	if err != nil {
		return nil, gpuprof.Errorf(nil, "making a folder for a copy of the working folder: %w", err).
			WithFix("check TMPDIR, or use --in-place")
	}
	t.run.Folder, err = tuneprogram.CopyFolder(here, filepath.Join(scratch.Dir, "work"), t.CopyLimit.Bytes(), t.Link)
	if err != nil {
		scratch.Close()
		return nil, err
	}
	return scratch.Close, nil
}
