package devicebench

import "golang.org/x/sys/unix"

// pin moves the calling thread, which is locked to its goroutine, to the allowed ones of those CPUs, and returns the
// function that moves it back. If the system refuses that, or allows none of them, the thread stays.
func pin(cpus []int) (back func()) {
	var old, near unix.CPUSet
	if unix.SchedGetaffinity(0, &old) != nil {
		return func() {}
	}
	for _, c := range cpus {
		if old.IsSet(c) {
			near.Set(c)
		}
	}
	if near.Count() == 0 || unix.SchedSetaffinity(0, &near) != nil {
		return func() {}
	}
	return func() {
		_ = unix.SchedSetaffinity(0, &old) // it was allowed there before
	}
}
