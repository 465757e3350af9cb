package baseline

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/owner"
)

// write replaces a file whole or not at all: into a temporary file beside it,
// flushed, renamed. The caller holds the lock; a file that changed all the same
// (an editor, a checkout) is left alone, because what is in it now would be lost.
func (s *Store) write(c *change) error {
	b := c.file
	text, err := b.encode()
	if err != nil {
		return err
	}
	s.pause()
	dir := filepath.Dir(b.Path)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return cannot("writing", b.Path, err)
	}
	owner.Sweep(dir)
	tmp, err := owner.CreateTemp(dir, ".tmp")
	if err != nil {
		return cannot("writing", b.Path, err)
	}
	defer func() { _ = os.Remove(tmp.Name()) }() // gone already after the rename
	_, err = tmp.Write(text)
	err = errors.Join(err, tmp.Chmod(0o644), tmp.Sync(), tmp.Close())
	if err != nil {
		return cannot("writing", b.Path, err)
	}
	s.pause()
	now, statErr := os.Stat(b.Path)
	same := c.was == nil && statErr != nil || c.was != nil && statErr == nil && os.SameFile(c.was, now) && c.was.ModTime().Equal(now.ModTime()) && c.was.Size() == now.Size()
	if !same {
		return gpuprof.Errorf(gpuprof.ErrInput, "writing baseline %s: another program changed it meanwhile", b.Path).WithFix("add the runs again")
	}
	s.pause()
	if err := os.Rename(tmp.Name(), b.Path); err != nil {
		return cannot("writing", b.Path, err)
	}
	return nil
}

func (s *Store) pause() {
	if s.between != nil {
		s.between()
	}
}
