package tuneprogram

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/outside"
)

// Folder is a copy of the working folder, in which the program runs. Each run finds it as the first did, so that
// no checkpoint of one run is the start of the next.
type Folder struct {
	from, Dir string
	entries   map[string]stamp // by slash-separated path
	link      []string
	limit     int64
	bytes     int64
}

// stamp holds the properties that change when a file changes.
type stamp struct {
	size int64
	at   time.Time
	mode fs.FileMode
}

func stampOf(info fs.FileInfo) stamp { return stamp{info.Size(), info.ModTime(), info.Mode()} }

// environmentFile marks a virtual environment of Python, which is linked: programs read it only.
const environmentFile = "pyvenv.cfg"

// CopyFolder copies from to a new folder at to: at most limit bytes. Files and folders of link, relative to from,
// become links to the original, as do virtual environments and .git. The system shares the blocks of files where the
// file system can (copy_file_range). No hard links are made: a program that writes to one would change the original.
func CopyFolder(from, to string, limit int64, link []string) (*Folder, error) {
	f := &Folder{from: from, Dir: to, entries: map[string]stamp{}, limit: limit}
	for _, name := range link {
		f.link = append(f.link, filepath.ToSlash(filepath.Clean(name)))
	}
	if err := os.MkdirAll(to, 0o700); err != nil {
		return nil, fmt.Errorf("making a copy of the working folder: %w", err)
	}
	// The temporary folder may lie in the working folder: the copy is not copied into itself.
	itself, err := filepath.Rel(from, filepath.Dir(to))
	if err != nil {
		itself = ""
	}
	err = fs.WalkDir(outside.Dir(from), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || name == "." {
			return err
		}
		if d.IsDir() && name == filepath.ToSlash(itself) {
			return fs.SkipDir
		}
		return f.addEntry(name, d)
	})
	if err != nil {
		return nil, fmt.Errorf("copying the working folder %s: %w", from, err)
	}
	return f, nil
}

// addEntry copies one entry of the original.
func (f *Folder) addEntry(name string, d fs.DirEntry) error {
	to := filepath.Join(f.Dir, filepath.FromSlash(name))
	info, err := d.Info()
	if errors.Is(err, fs.ErrNotExist) { // it went meanwhile
		return nil
	}
	if err != nil {
		return err
	}
	f.entries[name] = stampOf(info)
	switch {
	case f.hardLink(name, d):
		if err := os.Symlink(filepath.Join(f.from, filepath.FromSlash(name)), to); err != nil {
			return err
		}
		if d.IsDir() {
			return fs.SkipDir
		}
		return nil
	case d.IsDir():
		return os.Mkdir(to, info.Mode().Perm()|0o700)
	case d.Type()&fs.ModeSymlink != 0:
		return f.copyLink(name, to)
	case !info.Mode().IsRegular(): // sockets, pipes and devices are no files to copy
		delete(f.entries, name)
		return nil
	}
	if f.bytes += info.Size(); f.bytes > f.limit {
		return gpuprof.Errorf(gpuprof.ErrUsage, "it holds more than %s", gpuprof.FormatBytes(float64(f.limit))).
			WithFix("name large data with --link, raise --copy-limit, or run in the folder itself with --in-place")
	}
	return f.copyFile(name)
}

func (f *Folder) hardLink(name string, d fs.DirEntry) bool {
	if name == ".git" || slices.Contains(f.link, name) {
		return true
	}
	return d.IsDir() && outside.CheckRegular(filepath.Join(f.from, filepath.FromSlash(name), environmentFile)) == nil
}

// copyLink makes a link that leads where the original does.
func (f *Folder) copyLink(name, to string) error {
	from := filepath.Join(f.from, filepath.FromSlash(name))
	target, err := os.Readlink(from)
	if err != nil {
		return err
	}
	if !filepath.IsAbs(target) {
		full := filepath.Join(filepath.Dir(from), target)
		if !strings.HasPrefix(full, f.from+string(filepath.Separator)) {
			target = full
		}
	}
	return os.Symlink(target, to)
}

func (f *Folder) copyFile(name string) error {
	from, err := outside.OpenRegular(filepath.Join(f.from, filepath.FromSlash(name)), os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer from.Close() // only read
	info, err := from.Stat()
	if err != nil {
		return err
	}
	path := filepath.Join(f.Dir, filepath.FromSlash(name))
	to, err := outside.OpenRegular(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, info.Mode().Perm()|0o600)
	if err != nil {
		return err
	}
	_, copied := io.Copy(to, from)
	if err := errors.Join(copied, to.Close()); err != nil {
		return err
	}
	f.entries[name] = stampOf(info)
	return os.Chtimes(path, info.ModTime(), info.ModTime())
}

// Restore undoes what a run did in the copy: new files go, changed and removed ones are copied again. A file of the
// original that was changed since is an error: the runs before it had another program.
func (f *Folder) Restore() error {
	found := map[string]bool{}
	var changed []string
	err := fs.WalkDir(outside.Dir(f.Dir), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || name == "." {
			return err
		}
		was, ours := f.entries[name]
		info, err := d.Info()
		if err != nil {
			return err
		}
		if !ours {
			if err := os.RemoveAll(filepath.Join(f.Dir, filepath.FromSlash(name))); err != nil {
				return err
			}
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		found[name] = true
		if d.Type().IsRegular() && (info.Size() != was.size || !info.ModTime().Equal(was.at)) {
			changed = append(changed, name)
		}
		return nil
	})
	for name := range f.entries {
		if !found[name] {
			changed = append(changed, name)
		}
	}
	slices.Sort(changed) // folders before what is in them
	for _, name := range changed {
		if err == nil {
			err = f.copyAgain(name)
		}
	}
	if err != nil {
		return fmt.Errorf("restoring the copy of the working folder: %w", err)
	}
	return nil
}

// copyAgain brings back one entry that a run changed or removed.
func (f *Folder) copyAgain(name string) error {
	info, err := os.Lstat(filepath.Join(f.from, filepath.FromSlash(name)))
	if err != nil || info.Mode().IsRegular() && stampOf(info) != f.entries[name] {
		return gpuprof.Errorf(gpuprof.ErrInput, "%s was changed in %s since tune began", name, f.from).
			WithFix("start again, and leave the folder alone meanwhile")
	}
	path := filepath.Join(f.Dir, filepath.FromSlash(name))
	if err := os.RemoveAll(path); err != nil {
		return err
	}
	f.bytes = 0 // the limit was kept when it was copied first
	if err := f.addEntry(name, fs.FileInfoToDirEntry(info)); err != nil && !errors.Is(err, fs.SkipDir) {
		return err
	}
	return nil
}
