//go:build unix

package record

import (
	"os"
	"runtime"
	"syscall"
	"time"
)

// rusageThread is RUSAGE_THREAD of Linux, which package syscall lacks.
const rusageThread = 1

// threadTime returns the CPU time of the calling thread; 0 on systems that do not count it by thread.
func threadTime() time.Duration {
	var u syscall.Rusage
	if runtime.GOOS != "linux" || syscall.Getrusage(rusageThread, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// selfPeak returns this process's peak resident memory, bytes; 0 if unknown.
func selfPeak() int64 {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return rssBytes(&u)
}

// peakOf returns the peak resident memory of an ended process, bytes; 0 if unknown.
func peakOf(state *os.ProcessState) int64 {
	if u, ok := state.SysUsage().(*syscall.Rusage); ok {
		return rssBytes(u)
	}
	return 0
}

func rssBytes(u *syscall.Rusage) int64 {
	most := int64(u.Maxrss)       //nolint:unconvert // 32 bits wide on 32-bit systems
	if runtime.GOOS == "darwin" { // in bytes on macOS, in KiB elsewhere
		return most
	}
	return most << 10
}
