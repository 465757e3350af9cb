package owner

import (
	"bytes"
	"os"
	"strconv"
)

// StartOf is when a process began, clock ticks after the machine did; 0 where it is gone.
func StartOf(pid int) uint64 {
	f := Stat(pid)
	if len(f) < 20 {
		return 0
	}
	t, _ := strconv.ParseUint(string(f[19]), 10, 64)
	return t
}

// ended reports whether a process has ended and waits for its parent to take note.
func ended(pid int) bool {
	f := Stat(pid)
	return len(f) > 0 && (f[0][0] == 'Z' || f[0][0] == 'X')
}

// Stat is /proc/PID/stat from its third field on, the state; the second, a name, may hold
// anything.
func Stat(pid int) [][]byte {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return nil
	}
	return bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
}
