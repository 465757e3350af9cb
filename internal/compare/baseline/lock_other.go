//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd || windows)

package baseline

import (
	"errors"
	"os"
)

// systemLock refuses, and a file is the lock.
func systemLock(string) (*os.File, error) { return nil, errors.ErrUnsupported }
