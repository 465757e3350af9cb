package traffic

import (
	"time"

	"golang.org/x/sys/unix"
)

// nap sleeps in the kernel, because in an idle program Go's own timers have steps of a millisecond. By default the
// kernel may lengthen each sleep by 50 us (timer slack). Each call reduces the slack, which belongs to the thread,
// because each call may run on another thread.
func nap(d time.Duration) {
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0) // if it fails, naps are longer
	ts := unix.NsecToTimespec(int64(d))
	_ = unix.Nanosleep(&ts, nil)
}
