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

// Irregular is the error of a file that was found and is no regular file. Reading it might
// never end, or might do something to a device.
type Irregular struct{ Kind string } // "a named pipe"

// Error names the kind of file.
func (e *Irregular) Error() string { return "it is " + e.Kind + " and no regular file" }

// irregular is the error of a mode, nil for that of a regular file.
func irregular(mode fs.FileMode) error {
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

// CheckRegular is the error of OpenRegular for what a path leads to, without opening it.
func CheckRegular(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return cause(err)
	}
	return irregular(info.Mode())
}

// OpenRegular is os.OpenFile of a file that was found: ErrFolder or an *Irregular where that,
// or what a link leads to, is no regular file. It never waits: what is no regular file is not
// opened, and where one is exchanged for a pipe in between, the pipe is not waited for.
func OpenRegular(path string, flag int, perm fs.FileMode) (*os.File, error) {
	info, err := os.Stat(path)
	switch {
	case err == nil:
		err = irregular(info.Mode())
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
		err = irregular(info.Mode())
	}
	if err != nil {
		_ = file.Close() // nothing was read or written
		return nil, err
	}
	return file, nil
}

// Folder is a folder of others as a file system. Its files are regular ones, no file is read
// further than a document may be long, links to folders are not followed below it, and all
// listings together have as many entries as memory has room for. It implements fs.ReadDirFS,
// fs.ReadFileFS and fs.StatFS, for fs.WalkDir and fs.Glob.
type Folder struct {
	dir  string
	room *Entries
}

// Entries is the memory that is left for the names of a listing.
type Entries struct{ left atomic.Int64 }

// NewEntries is the room of one listing.
func NewEntries() *Entries {
	e := &Entries{}
	e.left.Store(DocumentMemory() / entryMemory)
	return e
}

// Take uses some of it for n names; a TooLarge when there is not so much.
func (e *Entries) Take(n int) error {
	if e.left.Add(-int64(n)) < 0 {
		return &TooLarge{What: fmt.Sprintf("it holds more than %d files and folders", DocumentMemory()/entryMemory), Memory: DocumentMemory(), folder: true}
	}
	return nil
}

// entryMemory is the memory that an entry of a listing may take, bytes: its name, its path
// and what a reader keeps of it.
const entryMemory = 512

// Dir is the folder at a path, which need not be there.
func Dir(path string) Folder { return Folder{dir: path, room: NewEntries()} }

// Path is the path of a file or folder in it.
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

// ReadFile implements fs.ReadFileFS: the file's text, unfolded where it is compressed.
func (f Folder) ReadFile(name string) ([]byte, error) { return ReadFound(f.Path(name)) }

// listed is how many entries are read at a time.
const listed = 1 << 10

// ReadDir implements fs.ReadDirFS; a TooLarge where a listing has more entries than memory has
// room for.
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

// Glob is the paths of what in the folder has a name of this form, sorted; none where the
// folder cannot be read.
func (f Folder) Glob(pattern string) []string {
	names, _ := fs.Glob(f, pattern) // the errors are those of a pattern
	for i, n := range names {
		names[i] = f.Path(n)
	}
	return names
}

// WriteFile is os.WriteFile, but not into what is there and is no regular file.
func WriteFile(path string, content []byte, perm fs.FileMode) error {
	file, err := OpenRegular(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, perm)
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	return errors.Join(err, file.Close())
}
