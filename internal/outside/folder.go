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

// Irregular is the error about a found file that is not regular. Reading it might never end, or affect a device.
type Irregular struct{ Kind string } // "a named pipe"

// Error states the kind of file.
func (e *Irregular) Error() string { return "it is " + e.Kind + " and no regular file" }

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

// CheckRegular returns OpenRegular's error for a path, without opening the file.
func CheckRegular(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return trimPath(err)
	}
	return checkMode(info.Mode())
}

// OpenRegular is os.OpenFile for a found file. The error is ErrFolder or an *Irregular if the file, or the target of a
// link, is not regular. It never blocks: it opens no irregular file, and does not wait for a pipe that replaced the
// file after the check.
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

// Folder is an untrusted folder as a file system. Its files must be regular, and are read up to the size limit of a
// document. It follows no links to folders. The number of entries of all its listings is limited. It implements
// fs.ReadDirFS, fs.ReadFileFS and fs.StatFS, for fs.WalkDir and fs.Glob.
type Folder struct {
	dir  string
	room *Entries
}

// Entries is the memory budget of the names in listings.
type Entries struct{ left atomic.Int64 }

// NewEntries returns a memory budget of DocumentMemory.
func NewEntries() *Entries {
	e := &Entries{}
	e.left.Store(DocumentMemory() / entryMemory)
	return e
}

// Take consumes the budget of n names; it returns a TooLarge if there is too little.
func (e *Entries) Take(n int) error {
	if e.left.Add(-int64(n)) < 0 {
		return &TooLarge{What: fmt.Sprintf("it holds more than %d files and folders", DocumentMemory()/entryMemory), Memory: DocumentMemory(), folder: true}
	}
	return nil
}

// entryMemory is the memory of an entry, bytes: name, path and a reader's data about it.
const entryMemory = 512

// Dir returns the folder at a path, which need not exist.
func Dir(path string) Folder { return Folder{dir: path, room: NewEntries()} }

// Path returns the path of a file or folder in f.
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

// ReadFile implements fs.ReadFileFS; it returns the decompressed text.
func (f Folder) ReadFile(name string) ([]byte, error) { return ReadFound(f.Path(name)) }

const listed = 1 << 10

// ReadDir implements fs.ReadDirFS; it returns a TooLarge if the listing exceeds the budget.
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

// Glob returns the sorted paths of entries that match a pattern; none if the folder is unreadable.
func (f Folder) Glob(pattern string) []string {
	names, _ := fs.Glob(f, pattern) // an error can only concern the pattern
	for i, n := range names {
		names[i] = f.Path(n)
	}
	return names
}

// WriteFile is os.WriteFile that refuses an existing irregular file.
func WriteFile(path string, content []byte, perm fs.FileMode) error {
	file, err := OpenRegular(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, perm)
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	return errors.Join(err, file.Close())
}
