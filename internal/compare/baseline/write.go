package baseline

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/owner"
)

// write replaces a file atomically through a flushed temporary file in the same folder. The caller holds the lock.
// If another program (an editor, a checkout) changed the file meanwhile, write returns an error instead of
// overwriting it.
func (s *Store) write(c *change) error {
	b := c.file
	text, err := b.encode()
	if err != nil {
		return err
	}
	s.runBetween()
	dir := filepath.Dir(b.Path)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return wrapError("writing", b.Path, err)
	}
	owner.Sweep(dir)
	tmp, err := owner.CreateTemp(dir, ".tmp")
	if err != nil {
		return wrapError("writing", b.Path, err)
	}
	defer func() { _ = os.Remove(tmp.Name()) }() // fails after the rename, on purpose
	_, err = tmp.Write(text)
	err = errors.Join(err, tmp.Chmod(0o644), tmp.Sync(), tmp.Close())
	if err != nil {
		return wrapError("writing", b.Path, err)
	}
	s.runBetween()
	now, statErr := os.Stat(b.Path)
	same := c.was == nil && statErr != nil || c.was != nil && statErr == nil && os.SameFile(c.was, now) && c.was.ModTime().Equal(now.ModTime()) && c.was.Size() == now.Size()
	if !same {
		return gpuprof.Errorf(gpuprof.ErrInput, "writing baseline %s: another program changed it meanwhile", b.Path).WithFix("add the runs again")
	}
	s.runBetween()
	if err := os.Rename(tmp.Name(), b.Path); err != nil {
		return wrapError("writing", b.Path, err)
	}
	return nil
}

func (s *Store) runBetween() {
	if s.between != nil {
		s.between()
	}
}
