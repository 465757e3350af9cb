//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package baseline

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// systemLock waits for a lock of the folder itself, so that no lock file enters version control.
func systemLock(dir string) (*os.File, error) {
	for {
		f, err := os.Open(dir)
		if err != nil {
			return nil, err
		}
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX)
		same := false
		if err == nil {
			same, err = isSameFolder(f, dir)
		}
		if same {
			return f, nil
		}
		_ = f.Close()
		if err != nil && !errors.Is(err, unix.EINTR) {
			return nil, err
		}
	}
}

// isSameFolder reports whether path still leads to the open folder: a folder that was created anew has another lock.
func isSameFolder(f *os.File, path string) (bool, error) {
	held, err := f.Stat()
	if err != nil {
		return false, err
	}
	now, err := os.Stat(path)
	return err == nil && os.SameFile(held, now), err
}
