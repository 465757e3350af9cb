package traffic

import (
	"time"

	"golang.org/x/sys/unix"
)

// nap sleeps in the kernel. The runtime's own timers wait in steps of a millisecond where the program is idle, and the
// kernel's default slack adds 50 us to every sleep of a thread. The slack is set each time because the thread may be
// another one.
func nap(d time.Duration) {
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0) // where it fails, naps are longer
	ts := unix.NsecToTimespec(int64(d))
	_ = unix.Nanosleep(&ts, nil)
}
