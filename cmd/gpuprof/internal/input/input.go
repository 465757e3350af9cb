// Package input reads the files that the command line names: results of gpuprof and of other programs, traces, memory
// snapshots and baselines. It opens each file once, so that a file may be a pipe. It imports package cli, but no
// package of a subcommand.
package input

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
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
	"github.com/gpuprof/gpuprof/internal/record"
	"github.com/gpuprof/gpuprof/internal/trace/model"
	"github.com/gpuprof/gpuprof/internal/trace/read/cupti"
	"github.com/gpuprof/gpuprof/internal/trace/read/kineto"
	"github.com/gpuprof/gpuprof/internal/trace/read/nsys"
	"github.com/gpuprof/gpuprof/internal/trace/read/xla"
)

// LimitHeap makes the garbage collector keep the heap below 7/8 of memory, in bytes. Without it the heap would grow to
// twice the live data. undo restores the earlier limit.
func LimitHeap(memory int64) (undo func()) {
	before := debug.SetMemoryLimit(memory / 8 * 7)
	return func() { debug.SetMemoryLimit(before) }
}

// File is an input file or folder. A file is opened once, since it may be a pipe, and its format is recognised by its
// first bytes.
type File struct {
	Path     string
	File     *outside.File // nil until it is opened
	Database bool          // an SQLite database, by its first bytes
	report   bool          // a report of Nsight Systems, which nsys must export
	xla      bool          // a trace of JAX, by its first bytes
	cuda     bool          // a recording of the CUDA recorder, by its first bytes
	Memory   bool          // a pickle, as memory snapshots are
	IsTrace  bool          // a trace of any format, or a memory snapshot
	text     []byte        // the whole text of a document, once it was read
	whole    bool          // text and err are set
	err      error         // error of reading the text
	folder   []string      // traces or snapshots, if Path is a folder
}

// Numbers of bytes by which a format is recognised: of the stored file, and of the decompressed text.
const (
	headStored = 512
	headText   = 64 << 10
)

// OpenFile opens a file and recognises its format, or finds the recordings in a folder. The caller closes it.
func OpenFile(ctx context.Context, path string) (*File, error) {
	in := &File{Path: path}
	if cli.IsDir(path) {
		err := in.openFolder()
		return in, err
	}
	if err := in.open(ctx); err != nil {
		return nil, err
	}
	return in, nil
}

func (in *File) open(ctx context.Context) (err error) {
	if in.File, err = outside.Open(ctx, in.Path, outside.Trace()); err != nil {
		return err
	}
	head, err := in.File.Head(headStored)
	if err != nil {
		return errors.Join(err, in.File.Close())
	}
	in.Database = nsys.Sniff(head)
	in.report = nsys.IsReport(head, in.Path)
	in.cuda = !in.Database && cupti.Sniff(in.File.Text().Peek(headText))
	in.xla = !in.Database && !in.cuda && xla.IsTrace(in.File.Text().Peek(headText))
	in.Memory = !in.Database && !in.cuda && !in.xla && memsnap.IsPickle(in.File.Text().Peek(headText))
	in.IsTrace = in.Database || in.report || in.cuda || in.xla || in.Memory || kineto.IsTrace(in.File.Text().Peek(headText))
	return nil
}

// Close implements io.Closer.
func (in *File) Close() error {
	if in.File == nil { // a folder
		return nil
	}
	return in.File.Close()
}

func (in *File) readDocument() ([]byte, error) {
	if !in.whole {
		in.text, in.err = in.File.Bytes(outside.Document())
		in.whole = true
	}
	return in.text, in.err
}

// Reader returns a reader from the beginning of the text.
func (in *File) Reader() io.Reader {
	if in.whole {
		return bytes.NewReader(in.text)
	}
	return in.File.Text()
}

// Result returns the only result of the file or recording; ErrUsage if there are several.
func (in *File) Result(a *cli.App) (*compare.Result, error) {
	found, err := in.Results(a)
	if err != nil {
		return nil, err
	}
	if len(found) > 1 {
		return nil, gpuprof.Errorf(gpuprof.ErrUsage, "reading %s: it holds %d runs of a sweep and a comparison takes one", in.Path, len(found)).WithFix("write one point to a file of its own with gpuprof run --set")
	}
	return found[0], nil
}

// Results returns every result of the file. The result of a recording has its counters and step times.
func (in *File) Results(a *cli.App) ([]*compare.Result, error) {
	if in.folder != nil {
		return in.folderResult(a)
	}
	var err error
	if !in.IsTrace {
		var found []*compare.Result
		if found, err = in.parseResults(); err == nil || errors.Is(err, gpuprof.ErrUsage) {
			return found, err
		}
		if _, large := errors.AsType[*outside.TooLarge](err); large {
			return nil, err
		}
	}
	if in.Memory {
		return memoryResult(AnalyzeMemory(a, []*File{in}, memsnap.Options{}))
	}
	analysis, indexes, traceErr := AnalyzeInputs(a, []*File{in}, AnalyzeOptions{})
	if traceErr != nil && err != nil {
		return nil, err // the error of reading a result is more helpful
	}
	return in.traceResult(analysis, indexes, traceErr)
}

// parseResults returns the results of a file that is not a trace.
func (in *File) parseResults() ([]*compare.Result, error) {
	text, err := in.readDocument()
	if err != nil {
		return nil, results.Failed(in.Path, err)
	}
	found, _, err := results.Parse(text, in.Path, results.OS)
	for _, r := range found {
		r.Source = document.CleanText(cli.ShownPath(in.Path))
	}
	return found, err
}

// Run returns the only run of the file; ErrUsage if there are several, ErrInput if the file is a recording.
func (in *File) Run() (*gpuprof.Run, error) {
	if in.IsTrace {
		return nil, gpuprof.Errorf(gpuprof.ErrInput, "finding the baseline of %s: it is a recording, and baselines are of runs", in.Path).WithFix("give a file written by gpuprof run")
	}
	text, err := in.readDocument()
	if err != nil {
		return nil, results.Failed(in.Path, err)
	}
	runs, err := document.Runs(text, in.Path)
	if err != nil {
		return nil, err
	}
	if len(runs) != 1 {
		return nil, gpuprof.Errorf(gpuprof.ErrUsage, "finding the baseline of %s: it holds %d runs and one is judged", in.Path, len(runs)).WithFix("give a file of one run")
	}
	return runs[0], nil
}

// ReadCounted opens a file and returns its only result.
func ReadCounted(a *cli.App, path string) (*compare.Result, error) {
	in, err := OpenFile(a.Ctx, path)
	if err != nil {
		return nil, results.Failed(path, err)
	}
	defer in.Close()
	return in.Result(a)
}

// ReadTrace reads a trace, in the format that its first bytes show. It opens and closes a file that is not open. room
// limits the memory of the events, in bytes.
func ReadTrace(ctx context.Context, in *File, room int64) (*model.Trace, error) {
	if in.File == nil {
		if err := in.open(ctx); err != nil {
			return nil, outside.Failed("reading trace "+in.Path, err, "gpuprof run -- CMD records one", "record it again")
		}
		defer in.Close()
	}
	if in.report {
		return readReport(ctx, in, room)
	}
	if err := in.foreignError(); err != nil {
		return nil, err
	}
	switch {
	case in.cuda:
		return cupti.Read(ctx, in.Reader(), in.Path, room)
	case in.xla:
		return readXLA(ctx, in, room)
	case !in.Database:
		return kineto.Read(ctx, in.Reader(), in.Path, room) // its error explains a file that is no trace
	case in.File.Plain():
		return nsys.Read(ctx, in.Path, in.Path, room)
	}
	return readPiped(ctx, in, room)
}

// readXLA reads a trace of JAX. The whole text must be in memory; it may take a quarter of room, which is in bytes.
func readXLA(ctx context.Context, in *File, room int64) (*model.Trace, error) {
	l := outside.Trace()
	l.Text = room / 4
	l.Memory = room
	text, err := in.File.Bytes(l)
	if err != nil {
		return nil, outside.Failed("reading trace "+in.Path, err, "gpuprof run -- CMD records one", "record it again")
	}
	return xla.Read(ctx, text, in.Path, room-l.Text)
}

// foreignError returns the error for a file that is not a trace; the error names the file's kind.
func (in *File) foreignError() error {
	if in.whole || in.Database || in.cuda || in.xla {
		return nil // reading the file gives the error
	}
	text := in.File.Text().Peek(headText)
	if h := document.HeadOf(text); h.Kind != "" && h.Version != "" {
		return gpuprof.Errorf(gpuprof.ErrInput, "reading trace %s: it is a file that gpuprof wrote, and no trace", in.Path).WithFix("gpuprof report %s shows it", gpuprof.ShellWord(in.Path))
	}
	return kineto.Foreign(text, in.Path)
}

// readReport makes nsys export a report of Nsight Systems into a scratch folder, and reads the export. Without nsys on
// PATH, the error has the command to run on a machine with nsys.
func readReport(ctx context.Context, in *File, room int64) (*model.Trace, error) {
	if _, err := exec.LookPath("nsys"); err != nil {
		return nil, nsys.ReportError(in.Path)
	}
	scratch, err := child.NewScratch("trace")
	if err != nil {
		return nil, gpuprof.Errorf(nil, "making a folder for the export of %s: %w", in.Path, err).WithFix("check TMPDIR")
	}
	defer scratch.Close()
	path, stored := in.Path, filepath.Join(scratch.Dir, "trace.sqlite")
	if !in.File.Plain() {
		path = filepath.Join(scratch.Dir, "report.nsys-rep")
		if err := in.File.CopyTo(path); err != nil {
			return nil, gpuprof.Unreadable("reading trace "+in.Path, err, "give the report itself, or a TMPDIR with room for it")
		}
	}
	last, err := record.ExportReport(ctx, path, stored, nil)
	switch {
	case ctx.Err() != nil:
		return nil, fmt.Errorf("reading trace %s: %w", in.Path, context.Cause(ctx))
	case err != nil:
		return nil, gpuprof.Errorf(gpuprof.ErrInput, "reading trace %s: nsys export failed: %w (%s)", in.Path, err, document.CleanText(last)).
			WithFix("export it with the version of nsys that recorded it, and give the .sqlite file")
	}
	return nsys.Read(ctx, stored, in.Path, room)
}

// readPiped reads a database from a pipe. It copies the database to a file, since SQLite needs random access.
func readPiped(ctx context.Context, in *File, room int64) (*model.Trace, error) {
	scratch, err := child.NewScratch("trace")
	if err != nil {
		return nil, gpuprof.Errorf(nil, "making a folder for a copy of %s: %w", in.Path, err).WithFix("check TMPDIR")
	}
	defer scratch.Close()
	stored := filepath.Join(scratch.Dir, "trace.db")
	if err := in.File.CopyTo(stored); err != nil {
		return nil, gpuprof.Unreadable("reading trace "+in.Path, err, "give the database itself, or a TMPDIR with room for it")
	}
	return nsys.Read(ctx, stored, in.Path, room)
}
