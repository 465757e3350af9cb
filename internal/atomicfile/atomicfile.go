// Package atomicfile writes files that a reader sees completely or not at all, also with concurrent writers.
package atomicfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/gpuprof/gpuprof/internal/owner"
)

// Temporary ends the names of files being written, which begin with a dot.
const Temporary = ".tmp"

// Options describes how to write a file. The zero value is a file for its owner only, without a flush: a power
// failure may lose it.
type Options struct {
	Mode  fs.FileMode          // 0 is 0600
	Flush func(*os.File) error // to the disk, for example (*os.File).Sync; nil for caches
	// Unswept leaves the remains of killed writers to the folder's readers. Otherwise every writer lists the folder,
	// which is slow with many writers and files.
	Unswept bool
}

// Write writes content under a temporary name in the folder of path, which must exist, and renames it. Errors come
// from the system; after one, no temporary file remains.
func (o Options) Write(path string, content []byte) error {
	if !o.Unswept {
		owner.Sweep(filepath.Dir(path))
	}
	tmp, err := owner.CreateTemp(filepath.Dir(path), Temporary)
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(tmp.Name()) }() // after the rename it no longer exists
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
