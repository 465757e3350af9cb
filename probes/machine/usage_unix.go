//go:build unix

package machine

import "syscall"

type usage struct {
	syscall.Rusage
	ok bool // the read succeeded
}

// addUsage adds the quantities of getrusage; reading the first one reads all.
func (t *Telemetry) addUsage() {
	u := &t.usage
	t.add("process_cpu_time", "s", true, func() (float64, bool) {
		u.ok = syscall.Getrusage(syscall.RUSAGE_SELF, &u.Rusage) == nil
		return timevalSeconds(u.Utime) + timevalSeconds(u.Stime), u.ok
	})
	t.add("page_faults", "1", true, func() (float64, bool) { return float64(u.Minflt), u.ok })
	t.add("major_page_faults", "1", true, func() (float64, bool) { return float64(u.Majflt), u.ok })
	t.add("context_switches", "1", true, func() (float64, bool) { return float64(u.Nvcsw), u.ok })
	t.add("preemptions", "1", true, func() (float64, bool) { return float64(u.Nivcsw), u.ok })
}

func timevalSeconds(v syscall.Timeval) float64 { return float64(v.Sec) + 1e-6*float64(v.Usec) }
