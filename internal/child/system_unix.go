//go:build unix

package child

import (
	"io/fs"
	"os"
	"syscall"
)

const (
	// resume has a stopped process go on.
	resume = syscall.SIGCONT
	// noSurprise opens neither a link nor a pipe without a writer.
	noSurprise = syscall.O_NOFOLLOW | syscall.O_NONBLOCK
)

// supported is why programs cannot be run here as this package promises.
func supported() error { return nil }

// kill sends a signal to a process, or to a group where the number is negative.
func kill(pid int, s syscall.Signal) error { return syscall.Kill(pid, s) }

// lock takes a file's lock, which ends with this process, or fails at once.
func lock(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) }

// isOwn reports whether a file belongs to this user.
func isOwn(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Getuid()
}
