//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd || windows)

package baseline

import (
	"errors"
	"os"
)

// systemLock always fails: the caller then locks by a file.
func systemLock(string) (*os.File, error) { return nil, errors.ErrUnsupported }
