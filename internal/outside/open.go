// Package outside opens the files that others wrote. It is the one way to them: a
// file is opened once, read from its beginning to its end, unfolded where it is
// compressed, and never further than memory has room for (MemoryVariable).
//
// A file that the user names may be a pipe or a device (Open), and waiting for it ends
// with the context. A file that is found in a folder, a store or a cache must be a
// regular one (Found, Folder): a pipe that is planted there would hold the program up.
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

// Limits are what may be read of a file.
type Limits struct {
	Text   int64 // bytes, unfolded
	Memory int64 // that this follows from, bytes
	window uint64
	whole  bool // a part of the file is worth nothing: refuse it before it is read
}

// Document are the limits of a file that is held in memory as a whole.
func Document() Limits {
	text := DocumentText()
	return Limits{Text: text, Memory: DocumentMemory(), window: uint64(max(text, leastWindow)), whole: true}
}

// traceText is how much longer a trace's text may be than the memory for its events.
const traceText = 8

// Trace are the limits of a file of which only events are kept.
func Trace() Limits {
	m := TraceMemory()
	return Limits{Text: traceText * m, Memory: m, window: uint64(min(max(m/16, leastWindow), traceWindow))}
}

// The memory that a zstd file may ask for, bytes: at least what zstd -19 uses, and for
// traces at most what zstd --ultra -22 and --long do.
const (
	leastWindow = 8 << 20
	traceWindow = 128 << 20
)

// TooMuch is the error of a file with more text than that.
func (l Limits) TooMuch() error {
	return &TooLarge{What: "it holds more than " + MemoryText(l.Text) + " of text", Memory: l.Memory}
}

// ErrFolder is a folder where a file is needed.
var ErrFolder = errors.New("it is a directory")

// File is an open file. It can be read once.
type File struct {
	limits Limits
	file   *os.File
	raw    *bufio.Reader
	text   *Text
	size   int64 // -1 unknown
	plain  bool  // see Plain
}

// Stdin is the name of standard input, on every system.
const Stdin = "/dev/stdin"

// Open opens a file that the user named, which may be a pipe or a device; waiting for its
// writer ends with ctx, and so does each read. The errors are those of the system without
// the path (fs.ErrNotExist …), ErrFolder, ctx's, and a TooLarge for a regular file that is
// larger than a document may be, of which nothing is read.
func Open(ctx context.Context, path string, l Limits) (*File, error) {
	info, err := os.Stat(path)
	switch {
	case path == Stdin && errors.Is(err, fs.ErrNotExist): // a system without that name
		return l.file(os.Stdin, &interruptible{ctx: ctx, r: os.Stdin}, false)
	case err != nil:
		return nil, cause(err)
	case info.IsDir():
		return nil, ErrFolder
	case info.Mode().IsRegular():
		f, err := Found(path, l)
		if f != nil {
			f.plain = !descriptor(path)
		}
		return f, err
	}
	file, err := waitFor(ctx, func() (*os.File, error) { return os.Open(path) })
	if err != nil {
		return nil, cause(err)
	}
	return l.file(file, &interruptible{ctx: ctx, r: file}, false)
}

// Found opens a file that was found in a folder or under a name that a file holds. It must
// be a regular file: the errors are those of Open and an *Irregular.
func Found(path string, l Limits) (*File, error) {
	file, err := OpenRegular(path, os.O_RDONLY, 0)
	if err != nil {
		return nil, cause(err)
	}
	return l.file(file, file, true)
}

// file is a file that has just been opened; r reads it.
func (l Limits) file(file *os.File, r io.Reader, plain bool) (*File, error) {
	f := &File{limits: l, file: file, raw: bufio.NewReaderSize(r, 1<<16), size: -1, plain: plain}
	info, err := file.Stat()
	switch {
	case err != nil:
		err = cause(err)
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

// descriptor says that a path stands for an open file of this process, as
// /dev/stdin does and what a shell puts in place of <(…).
func descriptor(path string) bool {
	return strings.HasPrefix(path, "/dev/") || strings.HasPrefix(path, "/proc/")
}

// cause is an error without the path, which the sentence about it has already.
func cause(err error) error {
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

// Plain says that the file is a regular one with a name of its own, so that the name
// may be asked what it holds and leads to the same bytes again.
func (f *File) Plain() bool { return f.plain }

// Head is the beginning of the file as it is stored, n bytes at most and 64 KiB.
func (f *File) Head(n int) ([]byte, error) {
	head, err := f.raw.Peek(n)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return head, cause(err)
}

// Text is the file's text, to be read on.
func (f *File) Text() *Text {
	if f.text == nil {
		f.text = unfold(f.raw, f.limits)
	}
	return f.text
}

// Bytes is the whole text, within narrower limits if they are. The error is what
// reading gave (see Damaged), or a TooLarge.
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

// CopyTo writes what is stored, as it is, into a new file: no more than the memory
// that reading may take.
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

// ReadAll is Open and Bytes of a document, closed again.
func ReadAll(ctx context.Context, path string) ([]byte, error) {
	f, err := Open(ctx, path, Document())
	return f.allOf(err)
}

// ReadFound is ReadAll of a file that was found, see Found.
func ReadFound(path string) ([]byte, error) {
	f, err := Found(path, Document())
	return f.allOf(err)
}

// allOf is the whole of a document that was opened with this error, and closes it.
func (f *File) allOf(err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.Bytes(f.limits)
}

// Failed words why a file could not be read: what was being done to which file, as
// in "reading run x.json", the cause and what to do. ErrUsage where there is no such
// file or none that can be opened, ErrInput where its content is the cause; missing
// says what to do where there is none, damaged where its compression is broken.
func Failed(doing string, err error, missing, damaged string) error {
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

// Silent is a cause that the sentence words itself.
type Silent struct{ Err error }

// Error is empty.
func (Silent) Error() string { return "" }

// Unwrap is the cause.
func (s Silent) Unwrap() error { return s.Err }
