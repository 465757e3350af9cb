//go:build unix

package child

import (
	"os"
	"syscall"
)

const resume = syscall.SIGCONT

// supported returns nil: this package can run programs on Unix.
func supported() error { return nil }

func kill(pid int, s syscall.Signal) error { return syscall.Kill(pid, s) }

func lock(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) }
