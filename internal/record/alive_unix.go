//go:build unix

package record

import (
	"errors"
	"syscall"
)

// isAlive reports whether a process exists; a zombie counts as alive.
func isAlive(pid int) bool {
	return pid > 0 && !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH)
}
