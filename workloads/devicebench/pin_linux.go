package devicebench

import "golang.org/x/sys/unix"

// pin moves the calling thread, which is locked to its goroutine, to the given CPUs as far as allowed, and returns the
// function that moves it back. If the system refuses, the thread stays.
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
		_ = unix.SchedSetaffinity(0, &old) // was allowed before
	}
}
