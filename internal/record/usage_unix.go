//go:build unix

package record

import (
	"os"
	"runtime"
	"syscall"
	"time"
)

// rusageThread is Linux' RUSAGE_THREAD, which package syscall lacks.
const rusageThread = 1

// threadTime is the processor time of the calling thread; 0 where the system
// does not count it by thread.
func threadTime() time.Duration {
	var u syscall.Rusage
	if runtime.GOOS != "linux" || syscall.Getrusage(rusageThread, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// ownPeak is the most resident memory that this process has had, bytes; 0 unknown.
func ownPeak() int64 {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return rssBytes(&u)
}

// peakOf is that of a process that has ended.
func peakOf(state *os.ProcessState) int64 {
	if u, ok := state.SysUsage().(*syscall.Rusage); ok {
		return rssBytes(u)
	}
	return 0
}

func rssBytes(u *syscall.Rusage) int64 {
	most := int64(u.Maxrss)       //nolint:unconvert // 32 bits wide on 32-bit systems
	if runtime.GOOS == "darwin" { // there it is bytes, elsewhere KiB
		return most
	}
	return most << 10
}
