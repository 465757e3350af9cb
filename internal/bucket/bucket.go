// Package bucket keeps objects by name in a folder or an S3 bucket: written whole or
// not at all, from any number of processes at once. A history and a fleet are kept in one.
package bucket

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"unicode"

	"github.com/klauspost/compress/zstd"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/atomicfile"
	"github.com/gpuprof/gpuprof/internal/outside"
	"github.com/gpuprof/gpuprof/internal/owner"
)

// Bucket holds objects by name. Names are paths with slashes. Every method may be
// called from several goroutines and processes at once.
type Bucket interface {
	// List names the objects below a folder, in any order; none where there is none.
	List(ctx context.Context, folder string) ([]string, error)
	// Get is the content of an object; fs.ErrNotExist where there is none.
	Get(ctx context.Context, name string) ([]byte, error)
	// Put writes an object whole or not at all.
	Put(ctx context.Context, name string, content []byte) error
	// Remove deletes an object; no error where there is none.
	Remove(ctx context.Context, name string) error
	// String is the bucket as the user named it.
	String() string
}

// Words are how errors speak of a bucket.
type Words struct {
	What string // "store"
	Give string // how one is given: "with --store"
}

// Open is the bucket that a name stands for: s3://bucket/prefix, or a folder,
// which need not be there yet. getenv is os.Getenv.
func Open(name string, w Words, getenv func(string) string) (Bucket, error) {
	scheme, rest, is := strings.Cut(name, "://")
	switch {
	case is && scheme == "s3":
		return openS3(rest, w, getenv)
	case is && scheme == "file":
		name = rest
	case is:
		return nil, gpuprof.Errorf(gpuprof.ErrUsage, "opening the %s %s: it is neither a folder nor s3://bucket/prefix", w.What, name).WithFix("give one of them; a bucket elsewhere can be mounted as a folder")
	}
	return &Folder{Dir: name, Words: w}, nil
}

// longName is the longest name of an object, bytes: Amazon's limit.
const longName = 1024

// checkName refuses a name of an object that would lead out of its bucket, or that is no path of
// printable characters: of what a list holds and of what users and results give.
func checkName(name string) error {
	if !fs.ValidPath(name) || name == "." || len(name) > longName || strings.ContainsFunc(name, unicode.IsControl) || strings.Contains(name, `\`) {
		return fmt.Errorf("%q is no name of an object: it has an empty part, . or .., a backslash or a control character, or more than %d bytes", shortened(name), longName)
	}
	return nil
}

// shortened is the beginning of a name, for errors.
func shortened(name string) string { return name[:min(len(name), 100)] }

// Folder is a Bucket of files.
type Folder struct {
	Dir   string
	Words Words
	Flush func(*os.File) error // to the disk; nil for the system's
}

// String implements Bucket.
func (f *Folder) String() string { return f.Dir }

func (f *Folder) file(name string) string { return filepath.Join(f.Dir, filepath.FromSlash(name)) }

func (f *Folder) cannot(doing string, err error) error {
	return gpuprof.Unwritable(doing+" the "+f.Words.What+" "+f.Dir, err, "give another folder "+f.Words.Give, "give a folder that is readable and writable "+f.Words.Give)
}

// List implements Bucket.
func (f *Folder) List(ctx context.Context, below string) ([]string, error) {
	var out []string
	folder := outside.Dir(f.file(below))
	err := fs.WalkDir(folder, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil // nothing was added yet, or it was removed meanwhile
		case err != nil:
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		case d.IsDir() && strings.HasPrefix(d.Name(), ".") && name != ".":
			return fs.SkipDir
		case d.IsDir():
			return nil
		case strings.HasPrefix(d.Name(), owner.Prefix) || strings.HasSuffix(d.Name(), atomicfile.Temporary):
			if file := folder.Path(name); owner.Left(file) {
				_ = os.Remove(file) // of a writer that was killed
			}
			return nil
		}
		out = append(out, path.Join(filepath.ToSlash(below), name))
		return nil
	})
	if err != nil {
		return nil, f.cannot("listing", err)
	}
	return out, nil
}

// Get implements Bucket.
func (f *Folder) Get(_ context.Context, name string) ([]byte, error) {
	if err := checkName(name); err != nil {
		return nil, f.cannot("reading from", err)
	}
	file, err := outside.OpenRegular(f.file(name), os.O_RDONLY, 0)
	if err == nil {
		defer file.Close()
		var content []byte
		if content, err = readBounded(file); err == nil {
			return content, nil
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return nil, f.cannot("reading "+name+" of", err)
}

// readBounded reads an object, which may take as much memory as a document.
func readBounded(r io.Reader) ([]byte, error) {
	limits := outside.Document()
	content, err := io.ReadAll(io.LimitReader(r, limits.Text+1))
	if err == nil && int64(len(content)) > limits.Text {
		err = limits.TooMuch()
	}
	return content, err
}

// Text is what an object holds, unfolded; fs.ErrNotExist where there is none. fix is
// what helps where it is damaged.
func Text(ctx context.Context, b Bucket, name, fix string) ([]byte, error) {
	content, err := b.Get(ctx, name)
	if err != nil {
		return nil, err
	}
	t := outside.Unfold(bytes.NewReader(content), outside.Document())
	defer t.Close()
	text, err := io.ReadAll(t)
	if err != nil {
		return nil, gpuprof.Unreadable("reading "+name, err, fix)
	}
	return text, nil
}

// NewCompressor compresses what Text unfolds, in little memory.
func NewCompressor() (*zstd.Encoder, error) {
	z, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(2), zstd.WithWindowSize(1<<20), zstd.WithLowerEncoderMem(true))
	if err != nil {
		return nil, fmt.Errorf("compressing: %w", err)
	}
	return z, nil
}

// Put implements Bucket.
func (f *Folder) Put(_ context.Context, name string, content []byte) error {
	file := f.file(name)
	err := checkName(name)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(file), 0o755)
	}
	if err == nil {
		flush := f.Flush
		if flush == nil {
			flush = (*os.File).Sync
		}
		err = atomicfile.Options{Mode: 0o644, Flush: flush, Unswept: true}.Write(file, content)
	}
	if err != nil {
		return f.cannot("writing to", err)
	}
	return nil
}

// Sweep removes what killed writers left in a folder; List does it for all that it lists.
func (f *Folder) Sweep(folder string) { owner.Sweep(f.file(folder)) }

// Remove implements Bucket.
func (f *Folder) Remove(_ context.Context, name string) error {
	err := checkName(name)
	if err == nil {
		err = os.Remove(f.file(name))
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return f.cannot("removing "+name+" of", err)
	}
	return nil
}
