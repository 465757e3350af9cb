//go:build unix

package child

import (
	"os"
	"syscall"
)

// resume has a stopped process go on.
const resume = syscall.SIGCONT

// supported is why programs cannot be run here as this package promises.
func supported() error { return nil }

// kill sends a signal to a process, or to a group where the number is negative.
func kill(pid int, s syscall.Signal) error { return syscall.Kill(pid, s) }

// lock takes a file's lock, which ends with this process, or fails at once.
func lock(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) }
