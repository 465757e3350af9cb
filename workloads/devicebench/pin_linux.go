package devicebench

import "golang.org/x/sys/unix"

// pin moves the calling thread, which is locked to its goroutine, to those of the given CPUs on which it may run. It
// returns the function that moves the thread back. If the system refuses, the thread stays.
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
