// Package outside opens untrusted files; nothing else opens them. It opens a file once and reads it from start to end,
// decompressed if necessary, within a memory limit (MemoryVariable). A file that the user names may be a pipe or a
// device (Open); waiting for it ends with the context. A file that is found in a folder, a store or a cache must be
// regular (Found, Folder), because a planted pipe would block the program.
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
	Text   int64 // bytes after decompression
	Memory int64 // memory limit from which Text follows, bytes
	window uint64
	whole  bool // a part of the file is useless: reject a large file unread
}

// Document returns the limits of a file that is in memory as a whole.
func Document() Limits {
	text := DocumentText()
	return Limits{Text: text, Memory: DocumentMemory(), window: uint64(max(text, leastWindow)), whole: true}
}

// traceText is the ratio of the text limit of a trace to its memory limit.
const traceText = 8

// Trace returns the limits of a file of which only events stay in memory.
func Trace() Limits {
	m := TraceMemory()
	return Limits{Text: traceText * m, Memory: m, window: uint64(min(max(m/16, leastWindow), traceWindow))}
}

// Limits of a zstd window, bytes: zstd -19 uses leastWindow, and zstd --ultra -22 and --long use traceWindow.
const (
	leastWindow = 8 << 20
	traceWindow = 128 << 20
)

// TooMuch returns the error about a file whose text exceeds the limit.
func (l Limits) TooMuch() error {
	return &TooLarge{What: "it holds more than " + MemoryText(l.Text) + " of text", Memory: l.Memory}
}

// ErrFolder is the error for a folder in place of a file.
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

// Stdin is the name of standard input on every system.
const Stdin = "/dev/stdin"

// Open opens a file that the user named, possibly a pipe or a device. Waiting for a writer, and each read, end with
// ctx. The error is the system's without the path (fs.ErrNotExist …), ErrFolder, ctx's, or a TooLarge: a regular file
// above the size limit of a document is not read.
func Open(ctx context.Context, path string, l Limits) (*File, error) {
	info, err := os.Stat(path)
	switch {
	case path == Stdin && errors.Is(err, fs.ErrNotExist): // systems without that name
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

// Found opens a regular file found in a folder or named in a file. It returns the errors of Open, or an *Irregular.
func Found(path string, l Limits) (*File, error) {
	file, err := OpenRegular(path, os.O_RDONLY, 0)
	if err != nil {
		return nil, trimPath(err)
	}
	return l.newFile(file, file, true)
}

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

// isDescriptor reports whether a path names an open file of this process, such as /dev/stdin or a shell's <(…).
func isDescriptor(path string) bool {
	return strings.HasPrefix(path, "/dev/") || strings.HasPrefix(path, "/proc/")
}

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

// Plain reports whether the file is regular and has a name of its own, by which it can be read again.
func (f *File) Plain() bool { return f.plain }

// Head returns the first bytes of the stored file, at most n and 64 KiB.
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

// Bytes returns the whole text, within l if l is the narrower limit. It fails with the read error (see Damaged) or a
// TooLarge.
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

// CopyTo copies the stored content to a new file, within the memory limit.
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

// ReadFound is ReadAll for a found file; see Found.
func ReadFound(path string) ([]byte, error) {
	f, err := Found(path, Document())
	return f.readAllOf(err)
}

// readAllOf reads the whole document and closes it. err is the error of opening it.
func (f *File) readAllOf(err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.Bytes(f.limits)
}

// Failed returns the error about a file that could not be read. doing is the action and its object: "reading run
// x.json". The error is ErrUsage if the file is missing or cannot be opened, and ErrInput if its content is invalid.
// missing is the fix for a missing file, damaged the fix for broken compression.
func Failed(doing string, err error, missing, damaged string) error {
	if whole, is := errors.AsType[*gpuprof.Error](err); is && whole.Fix != "" { // err has its own action and fix
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

// Silent wraps a cause whose text the message has already.
type Silent struct{ Err error }

// Error returns "".
func (Silent) Error() string { return "" }

// Unwrap returns the cause.
func (s Silent) Unwrap() error { return s.Err }
