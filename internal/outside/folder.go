package outside

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
)

// Irregular is the error of a found file that is no regular file. Reading it might never end, or affect a device.
type Irregular struct{ Kind string } // "a named pipe"

// Error names the kind of file.
func (e *Irregular) Error() string { return "it is " + e.Kind + " and no regular file" }

// checkMode returns the error for a mode, nil for a regular file.
func checkMode(mode fs.FileMode) error {
	kind := "a device"
	switch {
	case mode.IsRegular():
		return nil
	case mode.IsDir():
		return ErrFolder
	case mode&fs.ModeNamedPipe != 0:
		kind = "a named pipe"
	case mode&fs.ModeSocket != 0:
		kind = "a socket"
	}
	return &Irregular{kind}
}

// CheckRegular returns the error of OpenRegular for a path, without opening it.
func CheckRegular(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return trimPath(err)
	}
	return checkMode(info.Mode())
}

// OpenRegular is os.OpenFile for a found file: the error is ErrFolder or an *Irregular if the file, or the target of
// a link, is no regular file. It never blocks: it does not open irregular files, and if a pipe replaces the file
// meanwhile, it does not wait for the pipe.
func OpenRegular(path string, flag int, perm fs.FileMode) (*os.File, error) {
	info, err := os.Stat(path)
	switch {
	case err == nil:
		err = checkMode(info.Mode())
	case errors.Is(err, fs.ErrNotExist) && flag&os.O_CREATE != 0:
		err = nil
	}
	if err != nil {
		return nil, err
	}
	file, err := os.OpenFile(path, flag|syscall.O_NONBLOCK, perm)
	if err != nil {
		return nil, err
	}
	if info, err = file.Stat(); err == nil {
		err = checkMode(info.Mode())
	}
	if err != nil {
		_ = file.Close() // nothing was read or written
		return nil, err
	}
	return file, nil
}

// Folder is an untrusted folder as a file system. Its files must be regular, and no file is read beyond the size
// limit of a document. Links to folders below it are not followed. All listings together are limited to a number of
// entries. It implements fs.ReadDirFS, fs.ReadFileFS and fs.StatFS, for fs.WalkDir and fs.Glob.
type Folder struct {
	dir  string
	room *Entries
}

// Entries is the memory budget for the names of a listing.
type Entries struct{ left atomic.Int64 }

// NewEntries returns the budget of one listing.
func NewEntries() *Entries {
	e := &Entries{}
	e.left.Store(DocumentMemory() / entryMemory)
	return e
}

// Take consumes budget for n names; it returns a TooLarge if the budget is exceeded.
func (e *Entries) Take(n int) error {
	if e.left.Add(-int64(n)) < 0 {
		return &TooLarge{What: fmt.Sprintf("it holds more than %d files and folders", DocumentMemory()/entryMemory), Memory: DocumentMemory(), folder: true}
	}
	return nil
}

// entryMemory is the memory budget of an entry of a listing, bytes: its name, its path and a reader's data about it.
const entryMemory = 512

// Dir returns the folder at a path, which need not exist.
func Dir(path string) Folder { return Folder{dir: path, room: NewEntries()} }

// Path returns the path of a file or folder in it.
func (f Folder) Path(name string) string { return filepath.Join(f.dir, filepath.FromSlash(name)) }

// Open implements fs.FS.
func (f Folder) Open(name string) (fs.File, error) {
	file, err := OpenRegular(f.Path(name), os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	return file, nil
}

// Stat implements fs.StatFS.
func (f Folder) Stat(name string) (fs.FileInfo, error) { return os.Stat(f.Path(name)) }

// ReadFile implements fs.ReadFileFS: it returns the file's text, decompressed if necessary.
func (f Folder) ReadFile(name string) ([]byte, error) { return ReadFound(f.Path(name)) }

// listed is the number of entries per read.
const listed = 1 << 10

// ReadDir implements fs.ReadDirFS; it returns a TooLarge if a listing exceeds the memory budget.
func (f Folder) ReadDir(name string) ([]fs.DirEntry, error) {
	path := f.Path(name)
	if info, err := os.Stat(path); err != nil {
		return nil, err
	} else if !info.IsDir() {
		return nil, &fs.PathError{Op: "readdir", Path: path, Err: syscall.ENOTDIR}
	}
	dir, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	var out []fs.DirEntry
	for {
		some, err := dir.ReadDir(listed)
		out = append(out, some...)
		if err := f.room.Take(len(some)); err != nil {
			return nil, err
		}
		if errors.Is(err, io.EOF) {
			slices.SortFunc(out, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
			return out, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// Glob returns the sorted paths of the folder's entries that match a pattern; none if the folder cannot be read.
func (f Folder) Glob(pattern string) []string {
	names, _ := fs.Glob(f, pattern) // the only errors concern the pattern
	for i, n := range names {
		names[i] = f.Path(n)
	}
	return names
}

// WriteFile is os.WriteFile, but refuses an existing file that is not regular.
func WriteFile(path string, content []byte, perm fs.FileMode) error {
	file, err := OpenRegular(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, perm)
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	return errors.Join(err, file.Close())
}
