package program

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/term"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/cli"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/input"
	"github.com/gpuprof/gpuprof/internal/memsnap"
	"github.com/gpuprof/gpuprof/internal/record"
	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/trace/rules"
	"github.com/gpuprof/gpuprof/report/runfile"
)

// noteSummary notes how the program ended. It writes to standard error: standard output is the program's.
func (p *program) noteSummary(r *record.Result) {
	a := p.app
	cost := ""
	switch one, all := gpuprof.FormatBytes(float64(r.PeakBytes)), gpuprof.FormatBytes(float64(r.TreePeakBytes)); {
	case r.PeakBytes > 0 && r.TreePeakBytes > r.PeakBytes:
		cost += fmt.Sprintf("; peak memory %s in one process, %s in all", one, all)
	case r.PeakBytes > 0:
		cost += "; peak memory " + one
	case r.TreePeakBytes > 0: // the sampled memory
		cost += "; peak memory " + all
	}
	if r.WallS > 0 && r.CPUS > 0 {
		cost += fmt.Sprintf("; %.2g CPU cores on average", r.CPUS/r.WallS)
	}
	a.Note("%s%s", r.EndText(), cost)
	if r.Hook != nil {
		p.noteRecorded(r.Hook)
	}
	p.noteCUDA(r)
	if o := r.Overhead; o != nil {
		a.Note("%s", p.overheadSentence(o))
	}
	for _, w := range r.Warnings {
		a.Note("%s", w.Sentence())
	}
}

// markNames has the words for the user by the kind of event that the Python hook counts as a step.
var markNames = map[string]string{
	"optimizer": "optimizer steps", "zero_grad": "optimizer steps", "backward": "backward passes", "module": "calls of the model", "loader": "batches of the data loader",
}

func (p *program) noteRecorded(h *record.Hook) {
	recorded := 0
	var first *record.Process
	for i := range h.Processes {
		if q := &h.Processes[i]; cmp.Or(q.File, q.OOMFile) != "" {
			recorded++
			if first == nil || q.Rank == 0 {
				first = q
			}
		}
	}
	if first == nil || first.Torch == "" { // without torch, a warning describes the recording
		return
	}
	where := ""
	if recorded > 1 {
		where = fmt.Sprintf(", in each of %d processes", recorded)
	}
	if p.Memory {
		p.noteSnapshot(first, where)
		return
	}
	what := fmt.Sprintf("recorded %d %s from number %d on", first.Recorded, markNames[first.Kind], first.After+1)
	if first.Kind == "window" {
		what = "recorded a stretch of time"
	}
	p.app.Note("%s (torch %s%s)", what, first.Torch, where)
}

// noteSnapshot notes the period that a memory snapshot covers.
func (p *program) noteSnapshot(first *record.Process, where string) {
	until := "its end"
	switch n := first.After + first.Recorded; {
	case first.File == "":
		until = "an out-of-memory error"
	case n > 0:
		until = fmt.Sprintf("the end of number %d of its %s", n, markNames[first.Kind])
	}
	p.app.Note("recorded the memory of the program from its first use of a GPU to %s (torch %s%s)", until, first.Torch, where)
}

// overheadSentence describes the cost of recording as a ratio. It gives no step times: the hook measures trimmed means
// on the host, which differ from the mean step in the analysis printed below.
func (p *program) overheadSentence(o *record.Overhead) string {
	var text string
	switch {
	case o.Uneven:
		text = fmt.Sprintf("steps after the recording took %.2g times as long as before: the program's own pace changed, so the cost of recording is unknown", o.AfterS/o.BeforeS)
	case o.Ratio > 0:
		text = fmt.Sprintf("recording made steps %.2f times as long", o.Ratio)
	default:
		text = "too few steps were timed to measure the cost of recording"
	}
	if o.ExportS > 0 {
		what := "trace"
		if p.Memory {
			what = "snapshot"
		}
		text += fmt.Sprintf("; writing the %s took %s once", what, gpuprof.FormatSeconds(o.ExportS))
	}
	return text
}

// analyzeRecording analyzes the recording and returns the function that formats the analysis.
func (p *program) analyzeRecording(a *cli.App, r *record.Result) (write func(w io.Writer, format string, s cli.Screen) error, err error) {
	files := chosenTraces(r)
	if p.Memory {
		var ins []*input.File
		for _, path := range files {
			ins = append(ins, &input.File{Path: path})
		}
		found, err := input.AnalyzeMemory(a, ins, memsnap.Options{})
		return func(w io.Writer, format string, s cli.Screen) error {
			return a.Documents.Memory.Write(w, format, found, s)
		}, err
	}
	analysis, indexes, err := input.AnalyzeTraces(a, files, input.AnalyzeOptions{Caveat: inflationCaveats(r.Overhead)})
	if p.sink != nil && err == nil {
		p.collectives = analyze.CollectivesOf(indexes)
	}
	if r.Recorder == record.ByCUDA && err == nil {
		p.noteCUDASteps(indexes)
	}
	s := &cli.Study{Analysis: analysis, Indexes: indexes}
	return func(w io.Writer, format string, on cli.Screen) error {
		return a.Documents.Analysis.Write(w, format, s, on)
	}, err
}

// writeAnalysis analyzes the recording, and prints and writes the analysis.
func (p *program) writeAnalysis(ctx context.Context, r *record.Result) error {
	inner := *p.app
	inner.Ctx = ctx
	show, err := p.analyzeRecording(&inner, r)
	if err != nil {
		return gpuprof.Errorf(nil, "analysing the recording: %w", err).WithFix("analyse it again with gpuprof analyze %s", p.dir)
	}
	errs := []error{p.printOnce(show), p.storeAnalysis(show)}
	p.app.Pages = append(p.app.Pages, filepath.Join(p.dir, "report.html"))
	for _, o := range p.files {
		write := runfile.Write
		if cli.SameFile(filepath.Dir(o.Path), p.dir) {
			write = runfile.WritePrivate
		}
		errs = append(errs, write(o.Path, p.Force, func(w io.Writer) error { return show(w, o.Format.Name, cli.Screen{}) }))
	}
	return errors.Join(errs...)
}

// printOnce prints an analysis, unless an equal one was printed while the program ran.
func (p *program) printOnce(show func(w io.Writer, format string, s cli.Screen) error) error {
	var found bytes.Buffer
	if err := show(&found, "json", cli.Screen{}); err != nil {
		return err
	}
	if bytes.Equal(found.Bytes(), p.printed) {
		p.app.Note("the answer is the one above")
		return nil
	}
	if err := show(p.app.Stderr, "table", p.stderrScreen()); err != nil {
		return err
	}
	p.printed = found.Bytes()
	return nil
}

func (p *program) storeAnalysis(show func(w io.Writer, format string, s cli.Screen) error) error {
	var errs []error
	for _, own := range []struct{ name, format string }{{"analysis.json", "json"}, {"report.html", "html"}} {
		errs = append(errs, runfile.WritePrivate(filepath.Join(p.dir, own.name), p.Force, func(w io.Writer) error { return show(w, own.format, cli.Screen{}) }))
	}
	return errors.Join(errs...)
}

// chosenTraces returns the traces to analyze. If there are traces of ranks, it omits all others, because launchers and
// evaluators are not part of the job.
func chosenTraces(r *record.Result) []string {
	var ranks []string
	for _, t := range r.Traces {
		if strings.Contains(filepath.Base(t), "-rank") {
			ranks = append(ranks, t)
		}
	}
	if len(ranks) > 0 {
		return ranks
	}
	return r.Traces
}

func (p *program) stderrScreen() cli.Screen {
	s := cli.Screen{Lines: p.app.Screen().Lines, Quiet: p.app.Quiet}
	f := cli.FileBehind(p.app.Stderr)
	if f == nil || !term.IsTerminal(int(f.Fd())) {
		s.Width = p.app.Width()
		return s
	}
	if w, _, err := term.GetSize(int(f.Fd())); err == nil {
		s.Width = w
	}
	s.Color = !p.app.NoColor && os.Getenv("TERM") != "dumb"
	return s
}

// inflatedFrom is the ratio of the step time with recording to the step time without, from which the recorded steps
// count as slowed down. Ordinary variation is smaller.
const inflatedFrom = 1.1

// inflationCaveats returns a function that gives findings about host time a caveat: recording lengthened the steps. It
// returns nil if recording did not.
func inflationCaveats(o *record.Overhead) input.Caveats {
	if o == nil || o.Ratio < inflatedFrom && !o.Uneven {
		return nil
	}
	return func(a *analyze.Analysis, f gpuprof.Finding) string {
		switch {
		case !rules.OfHost(f.Rule):
			return ""
		case o.Uneven:
			return fmt.Sprintf("may be inflated by profiling: steps after the recording took %.2g times as long as before, too uneven to say by how much", o.AfterS/o.BeforeS)
		}
		return fmt.Sprintf("inflated by profiling: recording made steps %.2f times as long; of what is claimed up to %s %s may be the recording's",
			o.Ratio, gpuprof.FormatSeconds(min(gpuprof.Seconds(a.Step.NS)*(1-1/o.Ratio), f.PerStepS())), a.PerStep())
	}
}
