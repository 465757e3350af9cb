// Package report implements gpuprof report: it converts runs and other documents of gpuprof to reports, pictures and
// other formats. It imports the packages cli and input, but no package of another subcommand.
package report

import (
	"bytes"
	"errors"
	"slices"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/cli"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/input"
	"github.com/gpuprof/gpuprof/internal/document"
	"github.com/gpuprof/gpuprof/internal/outside"
	"github.com/gpuprof/gpuprof/report/runfile"
)

// Cmd has the arguments and flags of gpuprof report.
type Cmd struct {
	Runs   []string `arg:"" name:"run" sep:"none" complete:"file" help:"Run files; several make one report, as a sweep does. Or one comparison, tuning result or analysis, as JSON, or the folder of gpuprof run -- CMD."`
	Output []string `short:"o" sep:"none" complete:"file" placeholder:"FILE" help:"Write FILE, in the format of its extension; may be repeated. Without it the report is printed. A run can be written as ${runFiles}."`
	Plot   string   `complete:"plot" placeholder:"KIND" help:"Content of pictures: ${plots}."`
	Format string   `default:"table" formats:"run" placeholder:"FORMAT" help:"Format to print without -o: ${runFormats}."`
	Force  bool     `help:"Replace files that gpuprof did not write."`

	cli.Pushed `embed:""`
}

// Help implements kong.HelpProvider.
func (Cmd) Help() string {
	return cli.Examples(
		"gpuprof report run.json",
		"gpuprof report run.json -o report.html -o run.md",
		"gpuprof report run.json --plot stages -o stages.svg",
		"gpuprof report run.json --plot telemetry -o telemetry.png",
		"gpuprof report run.json --push pyroscope+http://localhost:4040",
	)
}

// findAnalysis returns the path of the analysis in the folder of a recording. It refuses output formats that only
// gpuprof analyze can write.
func (c *Cmd) findAnalysis(dir string) (string, error) {
	path, err := input.AnalysisIn(dir)
	if err != nil {
		return "", err
	}
	for _, out := range c.Output {
		if f, err := runfile.FormatOf(out); err == nil && slices.Contains(recordingFormats(), f.Name) {
			return "", gpuprof.Errorf(gpuprof.ErrUsage, "writing %s: the analysis in %s does not hold the recording", out, dir).
				WithFix("gpuprof analyze %s -o %s writes it", gpuprof.ShellWord(dir), gpuprof.ShellWord(out))
		}
	}
	return path, nil
}

// recordingFormats lists the formats that need the recording itself, which an analysis does not contain.
func recordingFormats() []string { return []string{"pprof", "perfetto", "speedscope", "folded"} }

// isChromeTrace reports whether a text begins like a profiler's trace, and is no document of gpuprof.
func isChromeTrace(text []byte) bool {
	return document.HeadOf(text).Version == "" && bytes.Contains(text[:min(len(text), 1<<16)], []byte(`"traceEvents"`))
}

// Run implements gpuprof report.
func (c *Cmd) Run(a *cli.App) error {
	defer input.LimitHeap(outside.DocumentMemory())()
	if err := cli.KnownPlot(a, c.Plot); err != nil {
		return err
	}
	var runs []*gpuprof.Run
	var errs []error
	for i, path := range c.Runs {
		if cli.IsDir(path) {
			var err error
			if path, err = c.findAnalysis(path); err != nil {
				return err
			}
			c.Runs[i] = path
		}
		text, err := runfile.Text(a.Ctx, path)
		kind := document.HeadOf(text).Kind
		if report := reporters(a)[kind]; report != nil {
			if len(c.Runs) > 1 { // only runs can be combined
				return gpuprof.Errorf(gpuprof.ErrUsage, "reading %s: it is %s, and a report of several files takes runs", path, document.A(kind)).WithFix("give it alone")
			}
			return report(c, a, text, document.A(kind))
		}
		if err == nil && isChromeTrace(text) {
			err = gpuprof.Errorf(gpuprof.ErrInput, "reading run %s: it is a trace", path).WithFix("gpuprof analyze %s shows it", gpuprof.ShellWord(path))
		}
		if err == nil {
			var r []*gpuprof.Run
			r, err = document.Runs(text, path)
			runs = append(runs, r...)
		}
		errs = append(errs, err)
	}
	return reportOf(c, a, a.Documents.Run, runs, errors.Join(errs...))
}
