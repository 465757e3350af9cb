package owner

import (
	"bytes"
	"os"
	"strconv"
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

// isZombie reports whether a process has ended without being reaped by its parent.
func isZombie(pid int) bool {
	f := Stat(pid)
	return len(f) > 0 && (f[0][0] == 'Z' || f[0][0] == 'X')
}

// Stat returns the fields of /proc/PID/stat from the third, the state; the second, a name, may hold any character.
func Stat(pid int) [][]byte {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return nil
	}
	return bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
}
