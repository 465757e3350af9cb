package history

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/atomicfile"
	"github.com/gpuprof/gpuprof/internal/outside"
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

// OpenBucket is the bucket that a name stands for: s3://bucket/prefix, or a folder,
// which need not be there yet. getenv is os.Getenv.
func OpenBucket(name string, getenv func(string) string) (Bucket, error) {
	scheme, rest, is := strings.Cut(name, "://")
	switch {
	case is && scheme == "s3":
		return openS3(rest, getenv)
	case is && scheme == "file":
		name = rest
	case is:
		return nil, gpuprof.Errorf(gpuprof.ErrUsage, "opening the store %s: stores are folders and s3://bucket/prefix", name).WithFix("give one of them; a bucket elsewhere can be mounted as a folder")
	}
	if name == "" {
		return nil, gpuprof.Errorf(gpuprof.ErrUsage, "opening the store: none was named").WithFix("give --store FOLDER or --store s3://bucket/prefix, or set GPUPROF_STORE")
	}
	return newFolder(name), nil
}

// folder is a Bucket of files.
type folder struct {
	dir   string
	flush func(*os.File) error // to the disk
}

func newFolder(dir string) *folder { return &folder{dir: dir, flush: (*os.File).Sync} }

// String implements Bucket.
func (f *folder) String() string { return f.dir }

func (f *folder) file(name string) string { return filepath.Join(f.dir, filepath.FromSlash(name)) }

func (f *folder) cannot(doing string, err error) error {
	const choose = "give another folder with --store"
	return gpuprof.Unwritable(doing+" the store "+f.dir, err, choose, "give a folder that is readable and writable with --store")
}

// List implements Bucket.
func (f *folder) List(ctx context.Context, below string) ([]string, error) {
	var out []string
	err := filepath.WalkDir(f.file(below), func(file string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil // nothing was added yet, or it was removed meanwhile
		case err != nil:
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		case d.IsDir() && strings.HasPrefix(d.Name(), ".") && file != f.file(below):
			return fs.SkipDir
		case d.IsDir() || strings.HasSuffix(d.Name(), atomicfile.Temporary):
			return nil
		}
		rel, err := filepath.Rel(f.dir, file)
		if err != nil {
			return err
		}
		out = append(out, filepath.ToSlash(rel))
		return nil
	})
	if err != nil {
		return nil, f.cannot("listing", err)
	}
	return out, nil
}

// Get implements Bucket.
func (f *folder) Get(_ context.Context, name string) ([]byte, error) {
	file, err := os.Open(f.file(name))
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

// Put implements Bucket.
func (f *folder) Put(_ context.Context, name string, content []byte) error {
	file := f.file(name)
	err := os.MkdirAll(filepath.Dir(file), 0o755)
	if err == nil {
		err = atomicfile.Options{Mode: 0o644, Flush: f.flush}.Write(file, content)
	}
	if err != nil {
		return f.cannot("writing to", err)
	}
	return nil
}

// Remove implements Bucket.
func (f *folder) Remove(_ context.Context, name string) error {
	if err := os.Remove(f.file(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return f.cannot("removing "+name+" of", err)
	}
	return nil
}
