// Package atomicfile writes files that a reader sees whole or not at all, also beside
// other writers.
package atomicfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/gpuprof/gpuprof/internal/owner"
)

// Temporary ends the names of files that are being written; they begin with a dot.
const Temporary = ".tmp"

// Options say how a file is written. The zero value is a file of its owner alone, which
// is not flushed: a machine that loses its power may lose it.
type Options struct {
	Mode  fs.FileMode          // 0 is 0600
	Flush func(*os.File) error // to the disk, (*os.File).Sync; nil for a cache
	// Unswept leaves what killed writers left in the folder to its readers: a folder of many
	// writers and files is else listed by each of them.
	Unswept bool
}

// Write puts content under a temporary name beside path, whose folder must be there,
// and renames it. Errors are those of the system; nothing is left behind then.
func (o Options) Write(path string, content []byte) error {
	if !o.Unswept {
		owner.Sweep(filepath.Dir(path))
	}
	tmp, err := owner.CreateTemp(filepath.Dir(path), Temporary)
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(tmp.Name()) }() // gone already after the rename
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
