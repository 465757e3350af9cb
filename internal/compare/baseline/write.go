package baseline

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/atomicfile"
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
	if err := os.MkdirAll(filepath.Dir(b.Path), 0o755); err != nil {
		return wrapError("writing", b.Path, err)
	}
	unchanged := func(tmp *os.File) error {
		err := tmp.Sync()
		s.runBetween()
		now, statErr := os.Stat(b.Path)
		same := c.was == nil && statErr != nil || c.was != nil && statErr == nil && os.SameFile(c.was, now) && c.was.ModTime().Equal(now.ModTime()) && c.was.Size() == now.Size()
		if err == nil && !same {
			err = errChanged
		}
		s.runBetween()
		return err
	}
	switch err := (atomicfile.Options{Mode: 0o644, Flush: unchanged}).Write(b.Path, text); {
	case errors.Is(err, errChanged):
		return gpuprof.Errorf(gpuprof.ErrInput, "writing baseline %s: %w", b.Path, err).WithFix("add the runs again")
	case err != nil:
		return wrapError("writing", b.Path, err)
	}
	return nil
}

var errChanged = errors.New("another program changed it meanwhile")

func (s *Store) runBetween() {
	if s.between != nil {
		s.between()
	}
}
