// Package outside opens untrusted files. All such files are opened through it: once, read from the beginning to the
// end, decompressed if necessary, and within a memory limit (MemoryVariable).
//
// A file that the user names may be a pipe or a device (Open), and waiting for it ends with the context. A file found
// in a folder, a store or a cache must be regular (Found, Folder): a planted pipe would block the program.
package outside

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/gpuprof/gpuprof"
)

// Limits are the limits of reading a file.
type Limits struct {
	Text   int64 // bytes, decompressed
	Memory int64 // memory limit that Text derives from, bytes
	window uint64
	whole  bool // a part of the file is useless: refuse a large file before reading it
}

// Document returns the limits of a file that is held in memory as a whole.
func Document() Limits {
	text := DocumentText()
	return Limits{Text: text, Memory: DocumentMemory(), window: uint64(max(text, leastWindow)), whole: true}
}

// traceText is the ratio of a trace's text limit to the memory for its events.
const traceText = 8

// Trace returns the limits of a file of which only events are kept.
func Trace() Limits {
	m := TraceMemory()
	return Limits{Text: traceText * m, Memory: m, window: uint64(min(max(m/16, leastWindow), traceWindow))}
}

// Limits of the window of a zstd file, bytes: at least the window of zstd -19, and for traces at most that of zstd
// --ultra -22 and --long.
const (
	leastWindow = 8 << 20
	traceWindow = 128 << 20
)

// TooMuch returns the error of a file with more text than the limit.
func (l Limits) TooMuch() error {
	return &TooLarge{What: "it holds more than " + MemoryText(l.Text) + " of text", Memory: l.Memory}
}

// ErrFolder is the error of a folder in place of a file.
var ErrFolder = errors.New("it is a directory")

// File is an open file. It can be read once.
type File struct {
	limits Limits
	file   *os.File
	raw    *bufio.Reader
	text   *Text
	size   int64 // -1 if unknown
	plain  bool  // see Plain
}

// Stdin is the name of standard input, on every system.
const Stdin = "/dev/stdin"

// Open opens a file that the user named, which may be a pipe or a device. Waiting for its writer ends with ctx, and
// so does each read. The errors are the system's without the path (fs.ErrNotExist …), ErrFolder, ctx's, and a
// TooLarge for a regular file beyond the size limit of a document, which is not read.
func Open(ctx context.Context, path string, l Limits) (*File, error) {
	info, err := os.Stat(path)
	switch {
	case path == Stdin && errors.Is(err, fs.ErrNotExist): // a system without that name
		return l.newFile(os.Stdin, &interruptible{ctx: ctx, r: os.Stdin}, false)
	case err != nil:
		return nil, trimPath(err)
	case info.IsDir():
		return nil, ErrFolder
	case info.Mode().IsRegular():
		f, err := Found(path, l)
		if f != nil {
			f.plain = !isDescriptor(path)
		}
		return f, err
	}
	file, err := waitFor(ctx, func() (*os.File, error) { return os.Open(path) })
	if err != nil {
		return nil, trimPath(err)
	}
	return l.newFile(file, &interruptible{ctx: ctx, r: file}, false)
}

// Found opens a file from a folder, or under a name from a file. It must be a regular file: the errors are Open's and
// an *Irregular.
func Found(path string, l Limits) (*File, error) {
	file, err := OpenRegular(path, os.O_RDONLY, 0)
	if err != nil {
		return nil, trimPath(err)
	}
	return l.newFile(file, file, true)
}

// newFile wraps a file that was just opened; r reads it.
func (l Limits) newFile(file *os.File, r io.Reader, plain bool) (*File, error) {
	f := &File{limits: l, file: file, raw: bufio.NewReaderSize(r, 1<<16), size: -1, plain: plain}
	info, err := file.Stat()
	switch {
	case err != nil:
		err = trimPath(err)
	case info.Mode().IsRegular():
		if f.size = info.Size(); l.whole && f.size > l.Text {
			err = l.TooMuch()
		}
	}
	if err != nil {
		_ = file.Close() // nothing was written
		return nil, err
	}
	return f, nil
}

// isDescriptor reports whether a path refers to an open file of this process, as /dev/stdin and a shell's <(…) do.
func isDescriptor(path string) bool {
	return strings.HasPrefix(path, "/dev/") || strings.HasPrefix(path, "/proc/")
}

// trimPath returns an error without the path, which the message already has.
func trimPath(err error) error {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		return pe.Err
	}
	return err
}

// Close implements io.Closer.
func (f *File) Close() error {
	if f.text != nil {
		f.text.Close()
	}
	return f.file.Close()
}

// Plain reports whether the file is a regular one with its own name, so that the name is meaningful and leads to the
// same bytes again.
func (f *File) Plain() bool { return f.plain }

// Head returns the beginning of the stored file, at most n bytes and 64 KiB.
func (f *File) Head(n int) ([]byte, error) {
	head, err := f.raw.Peek(n)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return head, trimPath(err)
}

// Text returns the reader of the file's text.
func (f *File) Text() *Text {
	if f.text == nil {
		f.text = decompress(f.raw, f.limits)
	}
	return f.text
}

// Bytes returns the whole text, within l if narrower. The error is the read error (see Damaged), or a TooLarge.
func (f *File) Bytes(l Limits) ([]byte, error) {
	text := f.Text()
	if text.Form() == "" && f.size > l.Text {
		return nil, l.TooMuch()
	}
	var b []byte
	var err error
	if in := io.LimitReader(text, l.Text+1); f.size > 0 && text.Form() == "" {
		buf := bytes.NewBuffer(make([]byte, 0, f.size+bytes.MinRead))
		_, err = buf.ReadFrom(in)
		b = buf.Bytes()
	} else {
		b, err = io.ReadAll(in)
	}
	if err == nil && int64(len(b)) > l.Text {
		err = l.TooMuch()
	}
	if err != nil {
		return nil, err
	}
	return b, nil
}

// CopyTo writes the stored content unchanged into a new file, within the memory limit of reading.
func (f *File) CopyTo(path string) (err error) {
	to, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("copying it to a temporary file: %w", err)
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	n, err := io.Copy(to, io.LimitReader(f.raw, f.limits.Memory+1))
	if err != nil {
		return fmt.Errorf("copying it to a temporary file: %w", err)
	}
	if n > f.limits.Memory {
		return &TooLarge{What: "it comes through a pipe and is larger than " + MemoryText(f.limits.Memory), Memory: f.limits.Memory}
	}
	return nil
}

// ReadAll opens a document, reads all of it and closes it.
func ReadAll(ctx context.Context, path string) ([]byte, error) {
	f, err := Open(ctx, path, Document())
	return f.readAllOf(err)
}

// ReadFound is ReadAll for a found file, see Found.
func ReadFound(path string) ([]byte, error) {
	f, err := Found(path, Document())
	return f.readAllOf(err)
}

// readAllOf returns the whole content of a document and closes it; err is the error of opening.
func (f *File) readAllOf(err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.Bytes(f.limits)
}

// Failed describes why a file could not be read. doing is the action and its object, for example "reading run
// x.json". The error is ErrUsage if the file does not exist or cannot be opened, and ErrInput for invalid content.
// missing is the fix for a missing file, damaged the fix for broken compression.
func Failed(doing string, err error, missing, damaged string) error {
	if whole, is := errors.AsType[*gpuprof.Error](err); is && whole.Fix != "" { // it names its own action and fix
		return err
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return gpuprof.Errorf(gpuprof.ErrUsage, "%s: there is no such file%w", doing, Silent{err}).WithFix("%s", missing)
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("%s: interrupted%w", doing, Silent{err})
	case errors.Is(err, ErrFolder):
		return gpuprof.Errorf(gpuprof.ErrUsage, "%s: %w", doing, err).WithFix("give a file")
	case Damaged(err):
		return gpuprof.Unreadable(doing, err, damaged)
	}
	if _, large := errors.AsType[*TooLarge](err); large {
		return gpuprof.Unreadable(doing, err, "")
	}
	return gpuprof.Errorf(gpuprof.ErrUsage, "%s: %w", doing, err).WithFix("give a readable file")
}

// Silent wraps a cause that the message itself describes.
type Silent struct{ Err error }

// Error returns "".
func (Silent) Error() string { return "" }

// Unwrap returns the cause.
func (s Silent) Unwrap() error { return s.Err }
