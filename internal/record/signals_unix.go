//go:build unix

package record

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

func passedOn() []os.Signal {
	return []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2}
}

// askToEnd is the signal that asks a program to end.
const askToEnd = syscall.SIGTERM

// foreground reports whether this process has a terminal and is in its foreground group.
func foreground() (front, terminal bool) {
	tty, err := os.OpenFile("/dev/tty", os.O_RDONLY|unix.O_NOCTTY, 0)
	if err != nil {
		return false, false
	}
	defer tty.Close()
	group, err := unix.IoctlGetInt(int(tty.Fd()), unix.TIOCGPGRP)
	if err != nil {
		return false, false
	}
	return group == unix.Getpgrp(), true
}
