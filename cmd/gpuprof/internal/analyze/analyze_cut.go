package analyze

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/cli"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/input"
	"github.com/gpuprof/gpuprof/internal/child"
	"github.com/gpuprof/gpuprof/internal/document"
	"github.com/gpuprof/gpuprof/internal/outside"
	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/trace/model"
	"github.com/gpuprof/gpuprof/internal/trace/read/cupti"
	"github.com/gpuprof/gpuprof/internal/trace/read/kineto"
	"github.com/gpuprof/gpuprof/report/runfile"
)

func (c *Cmd) asksForPart() bool { return c.Steps != "" || c.Window != "" }

func (c *Cmd) checkCut() error {
	if !c.asksForPart() {
		return nil
	}
	flag := "--steps"
	if c.Window != "" {
		flag = "--window"
	}
	switch {
	case c.Steps != "" && c.Window != "":
		return gpuprof.Errorf(gpuprof.ErrUsage, "cutting a trace: --steps and --window exclude each other").WithFix("give one")
	case c.Compare:
		return gpuprof.Errorf(gpuprof.ErrUsage, "cutting a trace: --compare takes whole traces").WithFix("write the parts with %s and -o PART.json.gz, and compare those", flag)
	case len(c.Traces) != 1:
		return gpuprof.Errorf(gpuprof.ErrUsage, "cutting a trace: %s takes one trace, not %d", flag, len(c.Traces)).WithFix("cut the ranks one after the other")
	}
	_, err := c.requestedPart()
	return err
}

// requestedPart parses --steps or --window. It returns a function that finds the requested part of a trace's index.
func (c *Cmd) requestedPart() (func(x *analyze.Index) (*model.Cut, error), error) {
	if c.Steps != "" {
		r, err := analyze.ParseSteps(c.Steps)
		return func(x *analyze.Index) (*model.Cut, error) { return x.StepsPart(r) }, err
	}
	r, err := analyze.ParseWindow(c.Window)
	return func(x *analyze.Index) (*model.Cut, error) { return x.WindowPart(r) }, err
}

// cutStudy writes the part that --steps or --window asks for to a temporary file, and analyses that file.
func (c *Cmd) cutStudy(a *cli.App, o input.AnalyzeOptions) (*cli.Study, error) {
	files, err := input.TraceFiles(c.Traces)
	if err != nil {
		return nil, err
	}
	if len(files) != 1 {
		return nil, gpuprof.Errorf(gpuprof.ErrUsage, "cutting a trace: the folder %s has %d", c.Traces[0], len(files)).WithFix("give one file")
	}
	scratch, err := child.NewScratch("trace")
	if err != nil {
		return nil, gpuprof.Errorf(nil, "making a folder for a part of %s: %w", files[0], err).WithFix("check TMPDIR")
	}
	s := &cli.Study{Scratch: scratch, Part: filepath.Join(scratch.Dir, "part.json")}
	err = input.UnlessEnded(a.Ctx, func() error { return c.cutPart(a.Ctx, files[0], s.Part) })
	if err == nil {
		var in *input.File
		if in, err = input.OpenFile(a.Ctx, s.Part); err == nil {
			in.Path = files[0]
			s.Analysis, s.Indexes, err = input.AnalyzeInputs(a, []*input.File{in}, o)
			err = errors.Join(err, in.Close())
		}
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// cutPart reads a trace, and writes the requested part of it to a new file.
func (c *Cmd) cutPart(ctx context.Context, path, to string) (err error) {
	asked, err := c.requestedPart()
	if err != nil {
		return err
	}
	in, err := openTrace(ctx, path)
	if err != nil {
		return err
	}
	plain, database := in.File.Plain(), in.Database
	t, err := input.ReadTrace(ctx, in, outside.TraceMemory())
	err = errors.Join(err, in.Close())
	if err != nil {
		return err
	}
	switch {
	case database || t.Format != model.Kineto && t.Format != model.CUDA:
		return gpuprof.Errorf(gpuprof.ErrUsage, "cutting trace %s: only traces of PyTorch's profiler and of gpuprof's CUDA recorder can be cut", path).WithFix("give a shorter range to the profiler that recorded it")
	case !plain:
		return gpuprof.Errorf(gpuprof.ErrUsage, "cutting trace %s: it is read twice, and a pipe cannot be", path).WithFix("give a file")
	}
	t.Path = document.CleanText(cli.ShownPath(path))
	x, err := analyze.NewIndex(ctx, t)
	if err != nil {
		return err
	}
	part, err := asked(x)
	if err != nil {
		return err
	}
	if err := c.partsFormat(t.Format); err != nil {
		return err
	}
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return gpuprof.Errorf(nil, "writing a part of %s to a temporary file: %w", path, err).WithFix("check TMPDIR")
	}
	return errors.Join(cutAgain(ctx, path, t, part, out), out.Close())
}

// cutAgain reads the trace once more and writes its part to out. For a trace of gpuprof's CUDA recorder it opens the
// file twice, because cupti.Cut needs two readers.
func cutAgain(ctx context.Context, path string, t *model.Trace, part *model.Cut, out io.Writer) error {
	in, err := openTrace(ctx, path)
	if err != nil {
		return err
	}
	defer in.Close()
	if t.Format == model.CUDA {
		again, err := openTrace(ctx, path)
		if err != nil {
			return err
		}
		defer again.Close()
		return cupti.Cut(ctx, in.Reader(), again.Reader(), path, part, out)
	}
	_, err = kineto.Cut(ctx, in.Reader(), path, part, t.Shift, out)
	return err
}

// partsFormat refuses to write a part of a trace into an output with the extension of another trace format.
func (c *Cmd) partsFormat(f model.Format) error {
	for _, path := range c.Output {
		have, err := runfile.FormatOf(path)
		switch {
		case err != nil: // this error was reported before
		case f == model.CUDA && have.Name == "json":
			return gpuprof.Errorf(gpuprof.ErrUsage, "writing %s: a part of a recording of the CUDA recorder is none of JSON", path).WithFix("name it FILE%s", cupti.Extension)
		case f != model.CUDA && have.Name == "recording":
			return gpuprof.Errorf(gpuprof.ErrUsage, "writing %s: a part of a trace of PyTorch's profiler is JSON", path).WithFix("name it FILE.json.gz")
		}
	}
	return nil
}

func openTrace(ctx context.Context, path string) (*input.File, error) {
	in, err := input.OpenFile(ctx, path)
	if err != nil {
		return nil, outside.Failed("reading trace "+path, err, "gpuprof run -- CMD records one", "record it again")
	}
	return in, nil
}

// savedPart returns the formats k of an analysis. If a part was cut out of the trace, outputs in a trace format (.json,
// .gpt) get this part in place of the analysis.
func savedPart(k cli.Kind[*cli.Study], cut bool) cli.Kind[*cli.Study] {
	if !cut {
		return k
	}
	k.Writers = maps.Clone(k.Writers)
	part := func(w io.Writer, s *cli.Study, _ cli.Screen) error {
		f, err := outside.OpenRegular(s.Part, os.O_RDONLY, 0)
		if err == nil {
			_, err = io.Copy(w, f)
			err = errors.Join(err, f.Close())
		}
		if err != nil {
			return fmt.Errorf("writing the part of the trace: %w", err)
		}
		return nil
	}
	k.Writers["json"], k.Writers["recording"] = part, part
	return k
}
