//go:build unix && !linux

package child

import "syscall"

// lives reports whether there is such a process.
func lives(pid int) bool { return syscall.Kill(pid, 0) == nil }
