// Package analyze implements gpuprof analyze, which reports where the time or memory of a recorded program went. Input:
// traces or memory snapshots. Output: an analysis, a comparison, or a part of a trace. It imports the packages cli and
// input, but no package of another subcommand.
package analyze

import (
	"cmp"
	"errors"
	"slices"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/cli"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/input"
	"github.com/gpuprof/gpuprof/internal/trace/rules"
)

// Cmd has the arguments and flags of gpuprof analyze.
type Cmd struct {
	Traces  []string `arg:"" name:"trace" sep:"none" complete:"file" help:"Trace files (PyTorch profiler JSON, Nsight Systems SQLite, rocprofv3 _results.db, JAX .xplane.pb or .trace.json.gz, gpuprof's own .gpt) or folders of them, or memory snapshots of PyTorch; several are the ranks of one job."`
	Compare bool     `help:"Compare two: before and after a change."`
	Format  string   `default:"table" formats:"analysis" placeholder:"FORMAT" help:"Format to print: ${analysisFormats}."`
	Output  []string `short:"o" sep:"none" complete:"file" placeholder:"FILE" help:"Also write FILE, in the format of its extension: ${analysisFiles}; may be repeated."`
	Plot    string   `complete:"plot" placeholder:"KIND" help:"Content of pictures: ${tracePlots}."`
	At      string   `placeholder:"MOMENT" help:"Of a memory snapshot: show this moment in place of the peak: peak, end, oom, step:N, event:N, or a time such as 1.5s."`
	WhatIf  []string `name:"what-if" sep:"none" placeholder:"SETTING" help:"Of a memory snapshot: replay it with this setting of PYTORCH_CUDA_ALLOC_CONF too, such as max_split_size_mb:64; may be repeated."`
	Limit   cli.Size `name:"memory-limit" placeholder:"SIZE" help:"Of a memory snapshot: what torch.cuda.set_per_process_memory_fraction let the process reserve; garbage_collection_threshold needs it, and no snapshot has it."`
	Steps   string   `placeholder:"A..B" help:"Cut out steps A to B of one trace: analyse them, and -o FILE.json.gz (of a .gpt: FILE.gpt) writes their events as a trace."`
	Window  string   `placeholder:"T..U" help:"Cut out the time from T to U (10s..12s, from the first event on) of one trace, as --steps does."`
	Peaks   string   `complete:"file" placeholder:"REPORT" help:"Judge matrix products and copies by the rates that gpuprof doctor --bench --format json measured on this machine, and not by public ones."`
	Force   bool     `help:"Replace files that gpuprof did not write."`

	cli.Pushed `embed:""`
}

// Help implements kong.HelpProvider.
func (Cmd) Help() string {
	return "Reads a profiler's recording of a program and reports which setting to change. docs/analyze.md has the ten lines that record a trace. Of a memory snapshot of PyTorch it reports which lines hold the memory (docs/memory.md).\n\n" + cli.Examples(
		"gpuprof analyze trace.json.gz",
		"gpuprof analyze trace.json.gz -o report.html -o stacks.pb.gz",
		"gpuprof analyze rank0.json.gz rank1.json.gz --format json",
		"gpuprof analyze before.json.gz after.json.gz --compare",
		"gpuprof analyze trace.json.gz --steps 1..2 -o part.json.gz",
		"gpuprof analyze snapshot.pickle -o memory.html -o memory.pb.gz",
		"gpuprof analyze snapshot.pickle --what-if max_split_size_mb:64",
	)
}

// Run implements gpuprof analyze.
func (c *Cmd) Run(a *cli.App) error {
	if c.Compare && len(c.Traces) != 2 {
		return gpuprof.Errorf(gpuprof.ErrUsage, "comparing traces: --compare takes two, before and after, not %d", len(c.Traces)).WithFix("give two files or two folders")
	}
	if err := c.checkCut(); err != nil {
		return err
	}
	first, err := c.openFirst(a)
	if err != nil {
		return err
	}
	if first != nil {
		defer first.Close()
		if first.Memory {
			return c.runMemory(a, first)
		}
	}
	analysis := a.Documents.Analysis
	if c.Compare { // a comparison has no stacks and no common timeline
		analysis = analysis.Called("a comparison").Without("pprof", "perfetto", "speedscope", "folded")
	}
	if err := c.refuseMemoryFlags(); err != nil {
		return err
	}
	outs, err := savedPart(analysis, c.asksForPart()).Outputs(c.Output, c.Force)
	if err == nil {
		err = cli.CheckPlot(a, c.Plot, outs)
	}
	server, wrong := analysis.Server(c.Pushed)
	if err := cmp.Or(err, wrong); err != nil {
		return err
	}
	s, err := c.runStudy(a, first, slices.ContainsFunc(outs, showsTraces))
	if err != nil {
		return err
	}
	defer s.Close()
	return errors.Join(analysis.Show(a, c.Format, s), savedPart(analysis, c.asksForPart()).Save(a, outs, s, c.Plot, c.Force), analysis.SendTo(a, server, s))
}

// showsTraces reports whether an output of a comparison also shows the two traces.
func showsTraces(o cli.Output) bool {
	return slices.Contains([]string{"html", "png", "svg"}, o.Format.Name)
}

// runStudy analyses traces. first is the opened first file, or nil. With keep, the old trace of a comparison stays in
// memory for outputs that show it.
func (c *Cmd) runStudy(a *cli.App, first *input.File, keep bool) (*cli.Study, error) {
	peaks, err := input.ReadPeaks(c.Peaks)
	if err != nil {
		return nil, err
	}
	o := input.AnalyzeOptions{Peaks: peaks}
	if c.asksForPart() {
		return c.cutStudy(a, o)
	}
	if !c.Compare {
		analysis, indexes, err := input.AnalyzeOpened(a, c.Traces, first, o)
		return &cli.Study{Analysis: analysis, Indexes: indexes}, err
	}
	old, before, err := input.AnalyzeOpened(a, c.Traces[:1], first, o)
	if err != nil {
		return nil, err
	}
	if !keep {
		before = nil
	}
	now, after, err := input.AnalyzeTraces(a, c.Traces[1:], o)
	if err != nil {
		return nil, err
	}
	return &cli.Study{Comparison: rules.Compare(old, now), Before: before, Indexes: after}, nil
}
