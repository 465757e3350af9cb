//go:build unix

package record

import (
	"errors"
	"syscall"
)

// alive says that a process is there, a zombie among them.
func alive(pid int) bool {
	return pid > 0 && !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH)
}
