package baseline

import (
	"os"
	"path/filepath"

	"golang.org/x/sys/windows"
)

// systemLock waits for the lock of a permanent file in the folder: Windows cannot lock folders, and a file created
// anew each time would be another lock each time.
func systemLock(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, ".lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK, 0, 1, 0, new(windows.Overlapped)); err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}
