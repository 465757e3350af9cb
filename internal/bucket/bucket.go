// Package bucket stores named objects in a folder or an S3 bucket. Any number of processes may write at once, and each
// object is written completely or not at all. Packages history and fleet store their data in buckets.
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

// Bucket stores objects under slash-separated names. Every method is safe for concurrent use, also across processes.
type Bucket interface {
	// List returns the names of the objects below a folder, in any order; none if it does not exist.
	List(ctx context.Context, folder string) ([]string, error)
	// Get returns an object's content; fs.ErrNotExist if there is none.
	Get(ctx context.Context, name string) ([]byte, error)
	// Put writes an object completely or not at all.
	Put(ctx context.Context, name string, content []byte) error
	// Remove deletes an object; a missing object is no error.
	Remove(ctx context.Context, name string) error
	// String returns the bucket's name as the user gave it.
	String() string
}

// Words are terms for the bucket, in error messages.
type Words struct {
	What string // "store"
	Give string // how the user gives one: "with --store"
}

// Open opens the bucket s3://bucket/prefix, or a folder, which need not exist yet. getenv is os.Getenv.
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

// longName limits an object's name, bytes (Amazon's limit).
const longName = 1024

// checkName refuses a name that leads out of its bucket or has unprintable characters, since names can come from users.
func checkName(name string) error {
	if !fs.ValidPath(name) || name == "." || len(name) > longName || strings.ContainsFunc(name, unicode.IsControl) || strings.Contains(name, `\`) {
		return fmt.Errorf("%q is no name of an object: it has an empty part, . or .., a backslash or a control character, or more than %d bytes", shortenName(name), longName)
	}
	return nil
}

// shortenName returns the beginning of a name, for error messages.
func shortenName(name string) string { return name[:min(len(name), 100)] }

// Folder is a Bucket of files.
type Folder struct {
	Dir   string
	Words Words
	Flush func(*os.File) error // writes a file to disk; nil for (*os.File).Sync
}

// String implements Bucket.
func (f *Folder) String() string { return f.Dir }

func (f *Folder) filePath(name string) string { return filepath.Join(f.Dir, filepath.FromSlash(name)) }

func (f *Folder) folderError(doing string, err error) error {
	return gpuprof.Unwritable(doing+" the "+f.Words.What+" "+f.Dir, err, "give another folder "+f.Words.Give, "give a folder that is readable and writable "+f.Words.Give)
}

// List implements Bucket.
func (f *Folder) List(ctx context.Context, below string) ([]string, error) {
	var out []string
	folder := outside.Dir(f.filePath(below))
	err := fs.WalkDir(folder, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil // nothing was stored yet, or the folder was removed meanwhile
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
				_ = os.Remove(file) // left by a killed writer
			}
			return nil
		}
		out = append(out, path.Join(filepath.ToSlash(below), name))
		return nil
	})
	if err != nil {
		return nil, f.folderError("listing", err)
	}
	return out, nil
}

// Get implements Bucket.
func (f *Folder) Get(_ context.Context, name string) ([]byte, error) {
	if err := checkName(name); err != nil {
		return nil, f.folderError("reading from", err)
	}
	file, err := outside.OpenRegular(f.filePath(name), os.O_RDONLY, 0)
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
	return nil, f.folderError("reading "+name+" of", err)
}

// readBounded reads a content, at most up to the size limit of a document.
func readBounded(r io.Reader) ([]byte, error) {
	limits := outside.Document()
	content, err := io.ReadAll(io.LimitReader(r, limits.Text+1))
	if err == nil && int64(len(content)) > limits.Text {
		err = limits.TooMuch()
	}
	return content, err
}

// Text returns an object's decompressed content; fs.ErrNotExist if there is none. fix is the remedy for damaged
// content.
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

// NewCompressor returns a zstd encoder that uses little memory, for content that Text reads.
func NewCompressor() (*zstd.Encoder, error) {
	z, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(2), zstd.WithWindowSize(1<<20), zstd.WithLowerEncoderMem(true))
	if err != nil {
		return nil, fmt.Errorf("compressing: %w", err)
	}
	return z, nil
}

// Put implements Bucket.
func (f *Folder) Put(_ context.Context, name string, content []byte) error {
	file := f.filePath(name)
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
		return f.folderError("writing to", err)
	}
	return nil
}

// Sweep removes the temporary files of killed writers from a folder. List does the same in every folder that it lists.
func (f *Folder) Sweep(folder string) { owner.Sweep(f.filePath(folder)) }

// Remove implements Bucket.
func (f *Folder) Remove(_ context.Context, name string) error {
	err := checkName(name)
	if err == nil {
		err = os.Remove(f.filePath(name))
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return f.folderError("removing "+name+" of", err)
	}
	return nil
}
