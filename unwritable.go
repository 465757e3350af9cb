package gpuprof

import (
	"errors"
	"io/fs"
	"os"
	"runtime"
	"syscall"
)

// Unwritable returns an ErrUsage for a failure to write: "doing: cause", with a fix for the cause. other is the fix
// "choose another place", for a full disk and the like; otherwise is the fix for other causes. The path in err is left
// out, since it may be a temporary file's.
func Unwritable(doing string, err error, other, otherwise string) error {
	cause := err
	var p *fs.PathError
	var l *os.LinkError
	switch {
	case errors.As(err, &p):
		cause = p.Err
	case errors.As(err, &l): // the error of a rename
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

// isFull reports whether the disk is full, on Windows by two more error numbers (winerror.h).
func isFull(err error) bool {
	const handleDiskFull, diskFull = syscall.Errno(39), syscall.Errno(112)
	return errors.Is(err, syscall.ENOSPC) ||
		runtime.GOOS == "windows" && (errors.Is(err, handleDiskFull) || errors.Is(err, diskFull))
}
