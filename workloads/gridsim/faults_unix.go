//go:build unix

package gridsim

import "golang.org/x/sys/unix"

// minorFaults is how many pages the system has given this process; -1 unknown.
func minorFaults() int64 {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return -1
	}
	return int64(u.Minflt) //nolint:unconvert // 32 bits wide on some systems
}
