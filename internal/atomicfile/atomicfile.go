// Package atomicfile writes files atomically: readers see a complete file or none, also with concurrent writers.
package atomicfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/gpuprof/gpuprof/internal/owner"
)

// Temporary is the extension of files being written, whose names begin with a dot.
const Temporary = ".tmp"

// Options describes how to write a file. The zero value: for this user only, not flushed to disk.
type Options struct {
	Mode  fs.FileMode          // 0 is 0600
	Flush func(*os.File) error // flushes to the disk, for example (*os.File).Sync; nil for caches
	// Unswept skips the removal of killed writers' files, which lists the folder at every write.
	Unswept bool
}

// Write writes content to a temporary file in the folder of path, which must exist, and renames the file. Errors
// are the system's; after an error no temporary file remains.
func (o Options) Write(path string, content []byte) error {
	if !o.Unswept {
		owner.Sweep(filepath.Dir(path))
	}
	tmp, err := owner.CreateTemp(filepath.Dir(path), Temporary)
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(tmp.Name()) }() // fails after the rename, on purpose
	_, err = tmp.Write(content)
	if o.Mode != 0 {
		err = errors.Join(err, tmp.Chmod(o.Mode))
	}
	if err == nil && o.Flush != nil {
		err = o.Flush(tmp)
	}
	if err := errors.Join(err, tmp.Close()); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), path)
}
