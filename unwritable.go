package gpuprof

import (
	"errors"
	"io/fs"
	"os"
	"runtime"
	"syscall"
)

// Unwritable is a failure to write as an ErrUsage, "doing: cause; fix". The fix
// follows from the cause: against a full disk helps room, or other, which names how
// to choose another place; against what has no fix of its own helps otherwise. The
// path inside err is left out: it may be a temporary file's.
func Unwritable(doing string, err error, other, otherwise string) error {
	cause := err
	var p *fs.PathError
	var l *os.LinkError
	switch {
	case errors.As(err, &p):
		cause = p.Err
	case errors.As(err, &l): // of a rename
		cause = l.Err
	}
	switch {
	case isFull(cause):
		return Errorf(ErrUsage, "%s: disk full: %w", doing, cause).WithFix("free space or %s", other)
	case errors.Is(cause, syscall.EDQUOT):
		return Errorf(ErrUsage, "%s: disk quota used up: %w", doing, cause).WithFix("free space or %s", other)
	case errors.Is(cause, syscall.EROFS):
		return Errorf(ErrUsage, "%s: %w", doing, cause).WithFix("%s", other)
	case errors.Is(cause, syscall.EFBIG):
		return Errorf(ErrUsage, "%s: %w for this file system or for ulimit -f", doing, cause).WithFix("raise the limit or %s", other)
	case errors.Is(cause, syscall.EMFILE), errors.Is(cause, syscall.ENFILE):
		return Errorf(ErrUsage, "%s: %w", doing, cause).WithFix("raise the limit of open files (ulimit -n)")
	case errors.Is(cause, syscall.EIO):
		return Errorf(ErrUsage, "%s: %w, so the disk may be failing", doing, cause).WithFix("%s", other)
	}
	return Errorf(ErrUsage, "%s: %w", doing, cause).WithFix("%s", otherwise)
}

// isFull also accepts the two error numbers of Windows for a full disk (winerror.h).
func isFull(err error) bool {
	const handleDiskFull, diskFull = syscall.Errno(39), syscall.Errno(112)
	return errors.Is(err, syscall.ENOSPC) ||
		runtime.GOOS == "windows" && (errors.Is(err, handleDiskFull) || errors.Is(err, diskFull))
}
