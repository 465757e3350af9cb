package baseline

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/gpuprof/gpuprof"
)

// write replaces a file whole or not at all: into a temporary file beside it,
// flushed, renamed. A file that changed since it was read is left alone,
// because what another process added would be lost.
func (s *Store) write(c *change) error {
	b := c.file
	text, err := b.encode()
	if err != nil {
		return err
	}
	dir := filepath.Dir(b.Path)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return cannot("writing", b.Path, err)
	}
	tmp, err := os.CreateTemp(dir, "."+filepath.Base(b.Path)+".*.tmp")
	if err != nil {
		return cannot("writing", b.Path, err)
	}
	defer func() { _ = os.Remove(tmp.Name()) }() // gone already after the rename
	_, err = tmp.Write(text)
	err = errors.Join(err, tmp.Chmod(0o644), tmp.Sync(), tmp.Close())
	if err != nil {
		return cannot("writing", b.Path, err)
	}
	now, statErr := os.Stat(b.Path)
	same := c.was == nil && statErr != nil || c.was != nil && statErr == nil && os.SameFile(c.was, now) && c.was.ModTime().Equal(now.ModTime()) && c.was.Size() == now.Size()
	if !same {
		return gpuprof.Errorf(gpuprof.ErrInput, "writing baseline %s: another process changed it meanwhile; add the runs again", b.Path)
	}
	if err := os.Rename(tmp.Name(), b.Path); err != nil {
		return cannot("writing", b.Path, err)
	}
	return nil
}
