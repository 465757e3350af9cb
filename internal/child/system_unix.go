//go:build unix

package child

import (
	"os"
	"syscall"
)

// resume continues a stopped process.
const resume = syscall.SIGCONT

// supported returns the reason why this package cannot run programs on this system.
func supported() error { return nil }

// kill sends a signal to a process, or to a group if the number is negative.
func kill(pid int, s syscall.Signal) error { return syscall.Kill(pid, s) }

// lock locks a file until this process ends, or fails at once.
func lock(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) }
