package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"path/filepath"
	"runtime/debug"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/cli"
	"github.com/gpuprof/gpuprof/internal/child"
	"github.com/gpuprof/gpuprof/internal/compare"
	"github.com/gpuprof/gpuprof/internal/compare/results"
	"github.com/gpuprof/gpuprof/internal/document"
	"github.com/gpuprof/gpuprof/internal/memsnap"
	"github.com/gpuprof/gpuprof/internal/outside"
	"github.com/gpuprof/gpuprof/internal/trace"
	"github.com/gpuprof/gpuprof/internal/trace/cuda"
	"github.com/gpuprof/gpuprof/internal/trace/kineto"
	"github.com/gpuprof/gpuprof/internal/trace/nsys"
	"github.com/gpuprof/gpuprof/internal/trace/xla"
)

// lean has the collector of garbage work more where the heap would otherwise become
// twice as large as what is in use, and so larger than was promised; undo ends that.
func lean(memory int64) (undo func()) {
	before := debug.SetMemoryLimit(memory / 8 * 7)
	return func() { debug.SetMemoryLimit(before) }
}

// input is a file of the command line. It is opened once, so that a pipe does as
// well as a plain file; its format is recognised by its first bytes.
type input struct {
	path     string
	file     *outside.File // nil until it is opened
	database bool          // it begins as an SQLite database does
	xla      bool          // it begins as the traces of JAX do
	cuda     bool          // it begins as the recordings of the CUDA recorder do
	memory   bool          // it begins as the pickles of memory snapshots do
	isTrace  bool          // it is a trace or a snapshot, or begins as a JSON trace does
	text     []byte        // the whole of a document, once it was asked for
	whole    bool
	err      error // of reading it
}

// What is looked at of a file, bytes: as it is stored, and of its text.
const (
	headStored = 512
	headText   = 64 << 10
)

func openInput(ctx context.Context, path string) (*input, error) {
	in := &input{path: path}
	if err := in.open(ctx); err != nil {
		return nil, err
	}
	return in, nil
}

func (in *input) open(ctx context.Context) (err error) {
	if in.file, err = outside.Open(ctx, in.path, outside.Trace()); err != nil {
		return err
	}
	head, err := in.file.Head(headStored)
	if err != nil {
		return errors.Join(err, in.file.Close())
	}
	in.database = nsys.Sniff(head)
	in.cuda = !in.database && cuda.Sniff(in.file.Text().Peek(headText))
	in.xla = !in.database && !in.cuda && xla.IsTrace(in.file.Text().Peek(headText))
	in.memory = !in.database && !in.cuda && !in.xla && memsnap.IsPickle(in.file.Text().Peek(headText))
	in.isTrace = in.database || in.cuda || in.xla || in.memory || kineto.IsTrace(in.file.Text().Peek(headText))
	return nil
}

// Close implements io.Closer.
func (in *input) Close() error { return in.file.Close() }

// document is the whole text of what is no trace.
func (in *input) document() ([]byte, error) {
	if !in.whole {
		in.text, in.err = in.file.Bytes(outside.Document())
		in.whole = true
	}
	return in.text, in.err
}

// reader gives the text from its beginning.
func (in *input) reader() io.Reader {
	if in.whole {
		return bytes.NewReader(in.text)
	}
	return in.file.Text()
}

// counted is the result that the file holds, or the counters and step times of a
// trace.
func (in *input) counted(a *cli.App) (*compare.Result, error) {
	found, err := in.results(a)
	if err != nil {
		return nil, err
	}
	if len(found) > 1 {
		return nil, gpuprof.Errorf(gpuprof.ErrUsage, "reading %s: it holds %d runs of a sweep and a comparison takes one", in.path, len(found)).WithFix("write one point to a file of its own with gpuprof run --set")
	}
	return found[0], nil
}

// results are those of every run in the file, or the counters and step times of a trace.
func (in *input) results(a *cli.App) ([]*compare.Result, error) {
	var err error
	if !in.isTrace {
		var found []*compare.Result
		if found, err = in.parsed(); err == nil || errors.Is(err, gpuprof.ErrUsage) {
			return found, err
		}
		if _, large := errors.AsType[*outside.TooLarge](err); large {
			return nil, err
		}
	}
	if in.memory {
		found, err := analyzeMemory(a, []*input{in}, memsnap.Options{})
		if err != nil {
			return nil, err
		}
		return []*compare.Result{results.FromMemory(found)}, nil
	}
	analysis, indexes, traceErr := analyzeInputs(a, []*input{in}, nil)
	switch {
	case traceErr != nil && err != nil:
		return nil, err // what it is no result for says more
	case traceErr != nil:
		return nil, traceErr
	}
	r, err := results.FromIndexes(indexes, analysis)
	if err != nil {
		return nil, err
	}
	r.Source = document.CleanText(cli.ShownPath(in.path))
	return []*compare.Result{r}, nil
}

// parsed are the results of a file that is no trace.
func (in *input) parsed() ([]*compare.Result, error) {
	text, err := in.document()
	if err != nil {
		return nil, results.Failed(in.path, err)
	}
	found, _, err := results.Parse(text, in.path, results.OS)
	for _, r := range found {
		r.Source = document.CleanText(cli.ShownPath(in.path))
	}
	return found, err
}

// run is the one run that the file holds.
func (in *input) run() (*gpuprof.Run, error) {
	if in.isTrace {
		return nil, gpuprof.Errorf(gpuprof.ErrInput, "finding the baseline of %s: it is a recording, and baselines are of runs", in.path).WithFix("give a file written by gpuprof run")
	}
	text, err := in.document()
	if err != nil {
		return nil, results.Failed(in.path, err)
	}
	runs, err := document.Runs(text, in.path)
	if err != nil {
		return nil, err
	}
	if len(runs) != 1 {
		return nil, gpuprof.Errorf(gpuprof.ErrUsage, "finding the baseline of %s: it holds %d runs and one is judged", in.path, len(runs)).WithFix("give a file of one run")
	}
	return runs[0], nil
}

// readCounted reads a result, or the counters and step times of a trace.
func readCounted(a *cli.App, path string) (*compare.Result, error) {
	in, err := openInput(a.Ctx, path)
	if err != nil {
		return nil, results.Failed(path, err)
	}
	defer in.Close()
	return in.counted(a)
}

// readTrace lets the reader of the file's own kind read it, whatever its name. room
// is the memory that its events may take, bytes.
func readTrace(ctx context.Context, in *input, room int64) (*trace.Trace, error) {
	if in.file == nil {
		if err := in.open(ctx); err != nil {
			return nil, outside.Failed("reading trace "+in.path, err, "record one as docs/analyze.md shows", "record it again")
		}
		defer in.Close()
	}
	if err := in.foreign(); err != nil {
		return nil, err
	}
	switch {
	case in.cuda:
		return cuda.Read(ctx, in.reader(), in.path, room)
	case in.xla:
		return readXLA(ctx, in, room)
	case !in.database:
		return kineto.Read(ctx, in.reader(), in.path, room) // says itself what is wrong with a file that is no trace
	case in.file.Plain():
		return nsys.Read(ctx, in.path, in.path, room)
	}
	return readPiped(ctx, in, room)
}

// readXLA reads a trace of JAX, whose text is held in memory: a quarter of it at most.
func readXLA(ctx context.Context, in *input, room int64) (*trace.Trace, error) {
	l := outside.Trace()
	l.Text = room / 4
	l.Memory = room
	text, err := in.file.Bytes(l)
	if err != nil {
		return nil, outside.Failed("reading trace "+in.path, err, "record one as docs/analyze.md shows", "record it again")
	}
	return xla.Read(ctx, text, in.path, room-l.Text)
}

// foreign is the error of a file of another kind, which is called by its name.
func (in *input) foreign() error {
	head, err := in.file.Head(headStored)
	if err != nil || in.whole || in.database || in.cuda || in.xla {
		return nil // reading it says what is wrong
	}
	if nsys.IsReport(head, in.path) {
		return nsys.ReportError(in.path)
	}
	text := in.file.Text().Peek(headText)
	if h := document.HeadOf(text); h.Kind != "" && h.Version != "" {
		return gpuprof.Errorf(gpuprof.ErrInput, "reading trace %s: it is a file that gpuprof wrote, and no trace", in.path).WithFix("gpuprof report %s shows it", gpuprof.ShellWord(in.path))
	}
	return kineto.Foreign(text, in.path)
}

// readPiped reads a database that comes through a pipe: SQLite reads here and there,
// so it is copied to a file.
func readPiped(ctx context.Context, in *input, room int64) (*trace.Trace, error) {
	scratch, err := child.NewScratch("trace")
	if err != nil {
		return nil, gpuprof.Errorf(nil, "making a folder for a copy of %s: %w", in.path, err).WithFix("check TMPDIR")
	}
	defer scratch.Close()
	stored := filepath.Join(scratch.Dir, "trace.db")
	if err := in.file.CopyTo(stored); err != nil {
		return nil, gpuprof.Unreadable("reading trace "+in.path, err, "give the database itself, or a TMPDIR with room for it")
	}
	return nsys.Read(ctx, stored, in.path, room)
}
