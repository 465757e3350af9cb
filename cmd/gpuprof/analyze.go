package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/child"
	"github.com/gpuprof/gpuprof/internal/document"
	"github.com/gpuprof/gpuprof/internal/outside"
	"github.com/gpuprof/gpuprof/internal/record"
	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/trace/model"
	"github.com/gpuprof/gpuprof/internal/trace/rules"
)

type analyzeCmd struct {
	Traces  []string `arg:"" name:"trace" sep:"none" complete:"file" help:"Trace files (PyTorch profiler JSON, Nsight Systems SQLite, rocprofv3 _results.db, JAX .xplane.pb or .trace.json.gz, gpuprof's own .gpt) or folders of them, or memory snapshots of PyTorch; several are the ranks of one job."`
	Compare bool     `help:"Compare two: before and after a change."`
	Format  string   `default:"table" formats:"analysis" placeholder:"FORMAT" help:"Format to print: ${analysisFormats}."`
	Output  []string `short:"o" sep:"none" complete:"file" placeholder:"FILE" help:"Also write FILE, in the format of its extension: ${analysisFiles}; may be repeated."`
	Plot    string   `complete:"plot" placeholder:"KIND" help:"Content of pictures: ${tracePlots}."`
	At      string   `placeholder:"MOMENT" help:"Of a memory snapshot: show this moment in place of the peak: peak, end, oom, step:N, event:N, or a time such as 1.5s."`
	WhatIf  []string `name:"what-if" sep:"none" placeholder:"SETTING" help:"Of a memory snapshot: replay it with this setting of PYTORCH_CUDA_ALLOC_CONF too, such as max_split_size_mb:64; may be repeated."`
	Limit   size     `name:"memory-limit" placeholder:"SIZE" help:"Of a memory snapshot: what torch.cuda.set_per_process_memory_fraction let the process reserve; garbage_collection_threshold needs it, and no snapshot has it."`
	Steps   string   `placeholder:"A..B" help:"Cut out steps A to B of one trace: analyse them, and -o FILE.json.gz (of a .gpt: FILE.gpt) writes their events as a trace."`
	Window  string   `placeholder:"T..U" help:"Cut out the time from T to U (10s..12s, from the first event on) of one trace, as --steps does."`
	Force   bool     `help:"Replace files that gpuprof did not write."`
}

// Help implements kong.HelpProvider.
func (analyzeCmd) Help() string {
	return "Reads a profiler's recording of a program and reports which setting to change. docs/analyze.md has the ten lines that record a trace. Of a memory snapshot of PyTorch it reports which lines hold the memory (docs/memory.md).\n\n" + examples(
		"gpuprof analyze trace.json.gz",
		"gpuprof analyze trace.json.gz -o report.html -o stacks.pb.gz",
		"gpuprof analyze rank0.json.gz rank1.json.gz --format json",
		"gpuprof analyze before.json.gz after.json.gz --compare",
		"gpuprof analyze trace.json.gz --steps 1..2 -o part.json.gz",
		"gpuprof analyze snapshot.pickle -o memory.html -o memory.pb.gz",
		"gpuprof analyze snapshot.pickle --what-if max_split_size_mb:64",
	)
}

// study is what analyze found out: one analysis, or a comparison of two.
type study struct {
	analysis   *analyze.Analysis
	indexes    []*analyze.Index
	comparison *analyze.Comparison
	before     []*analyze.Index // of a comparison; indexes are those after
	scratch    *child.Scratch   // nil for whole traces
	part       string           // the file with the part that was cut out, "" for whole traces
}

// Run implements the verb.
func (c *analyzeCmd) Run(a *app) error {
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
		if first.memory {
			return c.runMemory(a, first)
		}
	}
	analysis := outputTable().analysis
	if c.Compare { // of two programs there are no stacks and no one timeline
		analysis = analysis.called("a comparison").without("pprof", "perfetto")
	}
	if err := c.memoryOnly(); err != nil {
		return err
	}
	outs, err := savedPart(analysis, c.cuts()).outputs(c.Output, c.Force)
	if err == nil {
		err = checkPlot(c.Plot, outs)
	}
	if err != nil {
		return err
	}
	s, err := c.study(a, first, slices.ContainsFunc(outs, output.showsTraces))
	if err != nil {
		return err
	}
	defer s.close()
	return errors.Join(analysis.show(a, c.Format, s), savedPart(analysis, c.cuts()).save(a, outs, s, c.Plot, c.Force))
}

// showsTraces says whether an output of a comparison shows the traces themselves, beside
// what was found in them.
func (o output) showsTraces() bool {
	return slices.Contains([]string{"html", "png", "svg"}, o.format.Name)
}

// study analyses what was given; keep says whether the traces of a comparison, which may
// be large, are needed after that. first is the first file, where it is open.
func (c *analyzeCmd) study(a *app, first *input, keep bool) (*study, error) {
	if c.cuts() {
		return c.cutStudy(a)
	}
	if !c.Compare {
		analysis, indexes, err := analyzeOpened(a, c.Traces, first, nil)
		return &study{analysis: analysis, indexes: indexes}, err
	}
	old, before, err := analyzeOpened(a, c.Traces[:1], first, nil)
	if err != nil {
		return nil, err
	}
	if !keep {
		before = nil
	}
	now, after, err := analyzeTraces(a, c.Traces[1:], nil)
	if err != nil {
		return nil, err
	}
	return &study{comparison: rules.Compare(old, now), before: before, indexes: after}, nil
}

// caveats are what limits findings for reasons outside the trace, see trace.Options.
type caveats func(a *analyze.Analysis, f gpuprof.Finding) string

// analyzeTraces reads the files of one job and analyses them together. A file
// that cannot be read ends the command: an analysis of some of the ranks would
// pass for one of all.
func analyzeTraces(a *app, paths []string, caveat caveats) (*analyze.Analysis, []*analyze.Index, error) {
	return analyzeOpened(a, paths, nil, caveat)
}

// analyzeOpened is analyzeTraces; first is the first file, where it is open.
func analyzeOpened(a *app, paths []string, first *input, caveat caveats) (*analyze.Analysis, []*analyze.Index, error) {
	files, err := traceFiles(paths)
	if err != nil {
		return nil, nil, err
	}
	var ins []*input
	for i, path := range files {
		ins = append(ins, &input{path: path})
		if i == 0 && first != nil {
			ins[0] = first
		}
	}
	return analyzeInputs(a, ins, caveat)
}

// analyzeInputs is analyzeTraces of files that are open, or are opened in turn.
func analyzeInputs(a *app, ins []*input, caveat caveats) (*analyze.Analysis, []*analyze.Index, error) {
	var analysis *analyze.Analysis
	var indexes []*analyze.Index
	defer lean(outside.TraceMemory())()
	err := unlessEnded(a.ctx, func() (err error) {
		for _, in := range ins {
			t, err := readTrace(a.ctx, in, outside.TraceMemory()/int64(len(ins)))
			if err != nil {
				return err
			}
			t.Path, t.Opens = document.CleanText(shownPath(in.path)), document.CleanText(storedPath(in.path))
			t.Program = programOf(in.path)
			x, err := analyze.NewIndex(a.ctx, t)
			if err != nil {
				return err
			}
			indexes = append(indexes, x)
		}
		analysis, err = analyze.SummariseIndexes(a.ctx, indexes, analyze.Options{Rules: rules.Rules, Tool: tool(), Caveat: caveat})
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	return analysis, indexes, nil
}

// unlessEnded does what may take long, and does not wait for its end once the
// context has ended: the program ends then.
func unlessEnded(ctx context.Context, do func() error) error {
	done := make(chan error, 1)
	go func() { done <- do() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("analysing the recording: %w", errInterrupted)
	}
}

// programOf is what the recording beside a trace says of the program; nothing
// where `gpuprof run --` did not record the trace.
func programOf(path string) model.Program {
	dir := filepath.Dir(path)
	text, err := outside.ReadFound(filepath.Join(dir, "telemetry.json"))
	var r record.Result
	if err != nil || document.Decode(text, path, &r, document.Recording) != nil {
		return model.Program{}
	}
	if !slices.ContainsFunc(r.Traces, func(t string) bool { return filepath.Base(t) == filepath.Base(path) }) {
		return model.Program{}
	}
	p := model.Program{Command: document.MaskCommand(r.Command), CPUs: r.CPUs, Dir: shownPath(dir), Opens: storedPath(dir), Traces: len(r.Traces), Skip: r.Skip}
	document.CleanStrings(&p)
	return p
}

// traceFiles replaces folders by the traces in them.
func traceFiles(paths []string) ([]string, error) {
	var out []string
	for _, path := range paths {
		info, err := os.Stat(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil, gpuprof.Errorf(gpuprof.ErrUsage, "reading trace %s: there is no such file", path).WithFix("record one as docs/analyze.md shows")
		case err != nil:
			return nil, gpuprof.Errorf(gpuprof.ErrUsage, "reading trace %s: %w", path, errors.Unwrap(err)).WithFix("give a readable file")
		case !info.IsDir():
			out = append(out, path)
			continue
		}
		found, err := tracesIn(path)
		if err != nil {
			return nil, err
		}
		out = append(out, found...)
	}
	return out, nil
}

func tracesIn(dir string) ([]string, error) {
	entries, err := outside.Dir(dir).ReadDir(".")
	if err != nil {
		return nil, gpuprof.Errorf(gpuprof.ErrUsage, "reading traces in %s: %w", dir, err).WithFix("give a readable folder")
	}
	var out []string
	for _, e := range entries {
		name := e.Name()
		// JAX and TensorFlow leave the same recording twice, the other time with less.
		if stem, ok := strings.CutSuffix(name, ".trace.json.gz"); ok && slices.ContainsFunc(entries, func(e os.DirEntry) bool { return e.Name() == stem+".xplane.pb" }) {
			continue
		}
		// gpuprof's own results lie beside the traces they were made from.
		if slices.Contains([]string{"analysis.json", "run.json", "telemetry.json"}, name) || e.IsDir() {
			continue
		}
		for _, ext := range []string{".json", ".json.gz", ".json.zst", ".sqlite", "_results.db", ".xplane.pb", ".gpt"} {
			if strings.HasSuffix(name, ext) {
				path := filepath.Join(dir, name)
				if err := checkFound(path); err != nil {
					return nil, err
				}
				out = append(out, path)
				break
			}
		}
	}
	if run := lastProfile(dir); len(out) == 0 && run != "" {
		return tracesIn(run)
	}
	if _, err := os.Stat(filepath.Join(dir, "telemetry.json")); len(out) == 0 && err == nil {
		return nil, gpuprof.Errorf(gpuprof.ErrUsage, "reading traces in %s: it is a recording without a trace", dir).WithFix("the warnings in %s say why; record the program again with gpuprof run -- CMD", filepath.Join(dir, "telemetry.json"))
	}
	if len(out) == 0 {
		return nil, gpuprof.Errorf(gpuprof.ErrUsage, "reading traces in %s: no file in it ends in .json, .json.gz, .sqlite, _results.db, .xplane.pb or .gpt", dir).WithFix("name the folder that the profiler wrote to")
	}
	return out, nil
}

// checkFound refuses a file of a folder that is no regular one: an analysis of the others would
// pass for one of all, and a pipe might never end.
func checkFound(path string) error {
	if err := outside.CheckRegular(path); err != nil {
		return gpuprof.Errorf(gpuprof.ErrUsage, "reading trace %s: %w", path, err).WithFix("remove it from the folder, or name the files to read")
	}
	return nil
}

// lastProfile is the newest recording in a folder that was given to
// jax.profiler.trace, "" none: the folders are named by their time.
func lastProfile(dir string) string {
	profiles := filepath.Join(dir, "plugins", "profile")
	entries, err := outside.Dir(profiles).ReadDir(".")
	if err != nil {
		return ""
	}
	for _, e := range slices.Backward(entries) {
		if e.IsDir() {
			return filepath.Join(profiles, e.Name())
		}
	}
	return ""
}
