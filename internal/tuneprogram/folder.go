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

// Folder is a copy of the working folder in which the program runs. Every run starts from the same files: no run
// continues from a checkpoint that an earlier run wrote.
type Folder struct {
	from, Dir string
	entries   map[string]stamp // by slash-separated path
	link      []string
	limit     int64
	bytes     int64
}

// stamp holds the file properties by which Folder detects a change.
type stamp struct {
	size int64
	at   time.Time
	mode fs.FileMode
}

func stampOf(info fs.FileInfo) stamp { return stamp{info.Size(), info.ModTime(), info.Mode()} }

// environmentFile marks a Python virtual environment. The copy links to it, because programs only read it.
const environmentFile = "pyvenv.cfg"

// CopyFolder copies at most limit bytes from folder from to the new folder to. The entries named in link (relative to
// from), virtual environments and .git become symbolic links to the original. Copies share disk blocks where the file
// system can (copy_file_range). Hard links are not used: writing to one would change the original.
func CopyFolder(from, to string, limit int64, link []string) (*Folder, error) {
	f := &Folder{from: from, Dir: to, entries: map[string]stamp{}, limit: limit}
	for _, name := range link {
		if err := checkLink(from, name); err != nil {
			return nil, err
		}
		f.link = append(f.link, filepath.ToSlash(filepath.Clean(name)))
	}
	if err := os.MkdirAll(to, 0o700); err != nil {
		return nil, fmt.Errorf("making a copy of the working folder: %w", err)
	}
	// The temporary folder may lie in the working folder. Leave it out, or the copy would contain itself.
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

// checkLink refuses a name of --link that the working folder does not have: nothing would be linked.
func checkLink(from, name string) error {
	refuse := func(why string) *gpuprof.Error {
		return gpuprof.Errorf(gpuprof.ErrUsage, "linking %s with --link: %s", name, why)
	}
	if !filepath.IsLocal(name) || filepath.Clean(name) == "." {
		return refuse("it is not inside " + from).WithFix("give a path from there: nothing else is copied")
	}
	if _, err := os.Lstat(filepath.Join(from, name)); err == nil {
		return nil
	}
	entries, err := outside.Dir(from).ReadDir(".")
	if err != nil {
		return fmt.Errorf("reading %s: %w", from, err)
	}
	var names []string
	for _, d := range entries {
		names = append(names, d.Name())
	}
	return refuse("it is not there"+gpuprof.DidYouMean(name, names)).WithFix("%s has %s", from, strings.Join(names, ", "))
}

func (f *Folder) addEntry(name string, d fs.DirEntry) error {
	to := filepath.Join(f.Dir, filepath.FromSlash(name))
	info, err := d.Info()
	if errors.Is(err, fs.ErrNotExist) { // deleted since the walk read its folder
		return nil
	}
	if err != nil {
		return err
	}
	f.entries[name] = stampOf(info)
	switch {
	case f.isLinked(name, d):
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
	case !info.Mode().IsRegular(): // sockets, pipes and devices have nothing to copy
		delete(f.entries, name)
		return nil
	}
	if f.bytes += info.Size(); f.bytes > f.limit {
		return gpuprof.Errorf(gpuprof.ErrUsage, "it holds more than %s", gpuprof.FormatBytes(float64(f.limit))).
			WithFix("name large data with --link, raise --copy-limit, or run in the folder itself with --in-place")
	}
	return f.copyFile(name)
}

// isLinked reports whether an entry becomes a symbolic link to the original.
func (f *Folder) isLinked(name string, d fs.DirEntry) bool {
	if name == ".git" || slices.Contains(f.link, name) {
		return true
	}
	return d.IsDir() && outside.CheckRegular(filepath.Join(f.from, filepath.FromSlash(name), environmentFile)) == nil
}

// copyLink makes a symbolic link with the same target as the original link.
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
	defer from.Close()
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

// Restore undoes the changes of a run in the copy: it removes new files and copies changed and removed ones again. If
// a file changed in the original folder, Restore returns an error, because earlier runs ran another program.
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
	slices.Sort(changed) // a folder comes before its content
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
	f.bytes = 0 // only the first copy is limited
	if err := f.addEntry(name, fs.FileInfoToDirEntry(info)); err != nil && !errors.Is(err, fs.SkipDir) {
		return err
	}
	return nil
}
