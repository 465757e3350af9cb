package program

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/cli"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/input"
	"github.com/gpuprof/gpuprof/internal/record"
)

// RecordCmd has the arguments and flags of gpuprof run record.
type RecordCmd struct {
	Dir        string        `arg:"" name:"dir" sep:"none" complete:"file" help:"Folder that gpuprof run --cuda --idle named, or the number of the program's process."`
	Steps      int           `default:"5" placeholder:"N" help:"Record N steps (5)."`
	TimeWindow time.Duration `default:"10s" placeholder:"TIME" help:"Record for TIME in a program that shows no steps (10s)."`
	NoAnalyze  bool          `help:"Record only; gpuprof analyze reads the recording later."`
	Format     string        `default:"table" formats:"analysis" placeholder:"FORMAT" help:"Format to print: ${analysisFormats}."`
	Output     []string      `short:"o" sep:"none" complete:"file" placeholder:"FILE" help:"Also write FILE, in the format of its extension: ${analysisFiles}; may be repeated."`
	Force      bool          `help:"Replace files that gpuprof did not write."`
}

// Help implements kong.HelpProvider.
func (RecordCmd) Help() string {
	return "Records a window of a program that gpuprof run --cuda --idle has started, without restarting it, and analyses it. Ctrl-C ends the window; the program runs on.\n\n" + cli.Examples(
		"gpuprof run record gpuprof-20260102-150405",
		"gpuprof run record 4711 --time-window 5s -o window.html",
	)
}

// Run implements gpuprof run record.
func (c *RecordCmd) Run(a *cli.App) error {
	if c.Steps < 1 {
		return gpuprof.Errorf(gpuprof.ErrUsage, "reading --steps %d: at least one step is needed", c.Steps).WithFix("give --steps 5 or leave it out")
	}
	dir, err := record.ArmedFolder(c.Dir)
	if err != nil {
		return err
	}
	analysis := a.Documents.Analysis
	outs, err := analysis.Outputs(c.Output, c.Force)
	if err != nil {
		return err
	}
	if c.NoAnalyze && len(outs) > 0 {
		return gpuprof.Errorf(gpuprof.ErrUsage, "writing %s: --no-analyze leaves nothing to write into it", outs[0].Path).WithFix("leave out one of the two")
	}
	if err := record.MayRecord(dir); err != nil {
		return err
	}
	a.Note("recording %s, or %s without any; Ctrl-C ends the window", gpuprof.Plural(c.Steps, "step"), gpuprof.FormatSeconds(c.TimeWindow.Seconds()))
	r, err := record.Window(a.Ctx, dir, &record.Options{Dir: dir, Idle: true, Steps: c.Steps, WindowAfter: c.TimeWindow})
	if err != nil {
		return err
	}
	files := r.Traces
	switch {
	case len(files) == 0 && len(r.Warnings) > 0:
		return gpuprof.Errorf(nil, "recording a window in %s: %s", c.Dir, r.Warnings[0].Text).WithFix("%s", r.Warnings[0].Fix)
	case len(files) == 0:
		return gpuprof.Errorf(nil, "recording a window in %s: the program launched no kernel meanwhile", c.Dir).WithFix("record again while it works on the GPU, or give a longer --time-window")
	}
	a.Note("recorded %s", strings.Join(files, ", "))
	noteLeftOut(a, r, c.TimeWindow)
	for _, w := range r.Warnings {
		a.Note("%s", w.Sentence())
	}
	if c.NoAnalyze {
		return nil
	}
	inner := *a // Ctrl-C ended the window, and must not end the analysis
	ctx, stop := cli.NotifyInterrupt(context.WithoutCancel(a.Ctx))
	defer stop()
	inner.Ctx = ctx
	found, indexes, err := input.AnalyzeTraces(&inner, files, input.AnalyzeOptions{})
	if err != nil {
		return err
	}
	(&program{app: a}).noteCUDASteps(indexes)
	s := &cli.Study{Analysis: found, Indexes: indexes}
	return errors.Join(analysis.Show(a, c.Format, s), analysis.Save(a, outs, s, "", c.Force))
}
