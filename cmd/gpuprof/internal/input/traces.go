package input

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/cli"
	"github.com/gpuprof/gpuprof/internal/document"
	"github.com/gpuprof/gpuprof/internal/fleet"
	"github.com/gpuprof/gpuprof/internal/outside"
	"github.com/gpuprof/gpuprof/internal/record"
	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/trace/model"
	"github.com/gpuprof/gpuprof/internal/trace/rules"
)

// Caveats returns a caveat of a finding whose reason is not in the trace, such as the cost of recording; "" for none.
// See analyze.Options.
type Caveats func(a *analyze.Analysis, f gpuprof.Finding) string

// AnalyzeOptions are the inputs of an analysis beyond the traces.
type AnalyzeOptions struct {
	Caveat Caveats
	Peaks  *Peaks // nil: peak rates from data sheets and public measurements
}

// AnalyzeTraces analyses the traces of one job together. It fails if one trace is unreadable, because the figures of a
// part of the job would mislead.
func AnalyzeTraces(a *cli.App, paths []string, o AnalyzeOptions) (*analyze.Analysis, []*analyze.Index, error) {
	return AnalyzeOpened(a, paths, nil, o)
}

// AnalyzeOpened is AnalyzeTraces for a caller that may have opened the first file; first is nil if it is not open.
func AnalyzeOpened(a *cli.App, paths []string, first *File, o AnalyzeOptions) (*analyze.Analysis, []*analyze.Index, error) {
	files, err := TraceFiles(paths)
	if err != nil {
		return nil, nil, err
	}
	var ins []*File
	for i, path := range files {
		ins = append(ins, &File{Path: path})
		if i == 0 && first != nil {
			ins[0] = first
		}
	}
	return AnalyzeInputs(a, ins, o)
}

// AnalyzeInputs is AnalyzeTraces for files of which some may be open. It opens the others one at a time.
func AnalyzeInputs(a *cli.App, ins []*File, o AnalyzeOptions) (*analyze.Analysis, []*analyze.Index, error) {
	var analysis *analyze.Analysis
	var indexes []*analyze.Index
	defer LimitHeap(outside.TraceMemory())()
	err := UnlessEnded(a.Ctx, func() (err error) {
		for _, in := range ins {
			t, err := ReadTrace(a.Ctx, in, outside.TraceMemory()/int64(len(ins)))
			if err != nil {
				return err
			}
			t.Path, t.Opens = document.CleanText(cli.ShownPath(in.Path)), document.CleanText(cli.StoredPath(in.Path))
			if program, samples := recordingOf(in.Path); program.Dir != "" {
				t.Program, t.Sampled = program, samples
			}
			if err := o.Peaks.apply(t); err != nil {
				return err
			}
			x, err := analyze.NewIndex(a.Ctx, t)
			if err != nil {
				return err
			}
			indexes = append(indexes, x)
		}
		analysis, err = analyze.SummariseIndexes(a.Ctx, indexes, analyze.Options{Rules: rules.Rules, Waits: fleet.Waits, Job: rules.Job, Tool: a.Tool, Caveat: o.Caveat})
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	shortenFindings(analysis.Findings, fromHere())
	return analysis, indexes, nil
}

// UnlessEnded runs do, which may take long, and returns its error. If the context ends first, it returns without
// waiting for do, because the program is about to end.
func UnlessEnded(ctx context.Context, do func() error) error {
	done := make(chan error, 1)
	go func() { done <- do() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("analysing the recording: %w", cli.ErrInterrupted)
	}
}

// recordingOf returns the program and host samples that gpuprof run -- stored in a trace's folder; both are empty for
// other traces.
func recordingOf(path string) (model.Program, *model.HostSamples) {
	dir := filepath.Dir(path)
	r, err := record.ReadResult(dir)
	if err != nil {
		return model.Program{}, nil
	}
	if !slices.ContainsFunc(r.Traces, func(t string) bool { return filepath.Base(t) == filepath.Base(path) }) {
		return model.Program{}, nil
	}
	p := model.Program{Command: document.MaskCommand(r.Command), CPUs: r.CPUs, Dir: cli.ShownPath(dir), Opens: cli.StoredPath(dir), Traces: len(r.Traces), Skip: r.Skip}
	document.CleanStrings(&p)
	s := r.SamplesOf(path)
	if s != nil {
		document.CleanStrings(s)
	}
	return p, s
}

// TraceFiles replaces folders by the traces in them.
func TraceFiles(paths []string) ([]string, error) {
	var out []string
	for _, path := range paths {
		info, err := os.Stat(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil, gpuprof.Errorf(gpuprof.ErrUsage, "reading trace %s: there is no such file", path).WithFix("gpuprof run -- CMD records one")
		case err != nil:
			return nil, gpuprof.Errorf(gpuprof.ErrUsage, "reading trace %s: %w", path, errors.Unwrap(err)).WithFix("give a readable file")
		case !info.IsDir():
			out = append(out, path)
			continue
		}
		found, err := TracesIn(path)
		if err != nil {
			return nil, err
		}
		out = append(out, found...)
	}
	return out, nil
}

// TracesIn lists the traces in a folder; ErrUsage if there is none.
func TracesIn(dir string) ([]string, error) {
	entries, err := outside.Dir(dir).ReadDir(".")
	if err != nil {
		return nil, gpuprof.Errorf(gpuprof.ErrUsage, "reading traces in %s: %w", dir, err).WithFix("give a readable folder")
	}
	var out []string
	recorded := IsRecording(dir)
	for _, e := range entries {
		name := e.Name()
		if recorded && strings.Contains(name, ".json") && !strings.HasPrefix(name, "trace-") { // results written by -o
			continue
		}
		// JAX and TensorFlow write each recording twice. Skip the .trace.json.gz: it has less data than the .xplane.pb.
		if stem, ok := strings.CutSuffix(name, ".trace.json.gz"); ok && slices.ContainsFunc(entries, func(e os.DirEntry) bool { return e.Name() == stem+".xplane.pb" }) {
			continue
		}
		// Skip gpuprof's own results.
		if slices.Contains([]string{analysisFile, cli.RunFile, record.ResultFile}, name) || e.IsDir() {
			continue
		}
		for _, ext := range []string{".json", ".json.gz", ".json.zst", ".sqlite", "_results.db", ".xplane.pb", ".gpt"} {
			if strings.HasSuffix(name, ext) {
				path := filepath.Join(dir, name)
				if err := CheckFound(path); err != nil {
					return nil, err
				}
				out = append(out, path)
				break
			}
		}
	}
	if run := lastProfile(dir); len(out) == 0 && run != "" {
		return TracesIn(run)
	}
	if len(out) == 0 && recorded {
		return nil, missingTraceError(dir)
	}
	if len(out) == 0 {
		return nil, gpuprof.Errorf(gpuprof.ErrUsage, "reading traces in %s: no file in it ends in .json, .json.gz, .sqlite, _results.db, .xplane.pb or .gpt", dir).WithFix("name the folder that the profiler wrote to")
	}
	return out, nil
}

// missingTraceError returns the error about a recording's folder without a trace. The recorder's result in the folder
// has the reason.
func missingTraceError(dir string) error {
	why, fix := "it is a recording without a trace", "record the program again with gpuprof run -- CMD"
	if r, err := record.ReadResult(dir); err == nil {
		why += ": " + strings.TrimSuffix(r.Answer().Sentence, ".")
		switch {
		case r.ExitCode != 0:
			fix = "correct the program's own failure, then record it again"
		case len(r.Warnings) > 0:
			fix = cmp.Or(r.Warnings[0].Fix, fix)
		}
	}
	return gpuprof.Errorf(gpuprof.ErrUsage, "reading traces in %s: %s", dir, why).WithFix("%s", fix)
}

// CheckFound refuses an irregular file, such as a pipe, in a folder. Skipping the file would hide a rank, and reading
// it might never end.
func CheckFound(path string) error {
	if err := outside.CheckRegular(path); err != nil {
		return gpuprof.Errorf(gpuprof.ErrUsage, "reading trace %s: %w", path, err).WithFix("remove it from the folder, or name the files to read")
	}
	return nil
}

// lastProfile returns the newest recording, by folder name, in a folder that jax.profiler.trace wrote; "" if there is
// none.
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
