package owner

import (
	"bytes"
	"strconv"
	"syscall"
)

// StartOf returns the start of a process, in clock ticks since the machine's start; 0 if the process has ended.
func StartOf(pid int) uint64 {
	f := Stat(pid)
	if len(f) < 20 {
		return 0
	}
	t, _ := strconv.ParseUint(string(f[19]), 10, 64)
	return t
}

// isZombie reports whether a process has ended, but its parent has not reaped it.
func isZombie(pid int) bool {
	f := Stat(pid)
	return len(f) > 0 && (f[0][0] == 'Z' || f[0][0] == 'X')
}

// statBytes is larger than a stat file with its 52 fields.
const statBytes = 2048

// Stat returns the fields of /proc/PID/stat from the third, the state; the second is a name of any characters. A search
// for a program's processes reads this file of every process, so Stat makes only three system calls.
func Stat(pid int) [][]byte {
	fd, err := syscall.Open("/proc/"+strconv.Itoa(pid)+"/stat", syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	var text [statBytes]byte
	n, err := syscall.Read(fd, text[:])
	_ = syscall.Close(fd)
	if err != nil {
		return nil
	}
	return bytes.Fields(text[bytes.LastIndexByte(text[:n], ')')+1 : n])
}
