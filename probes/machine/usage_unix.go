//go:build unix

package machine

import "syscall"

// usage is what the system has counted of this process.
type usage struct{ syscall.Rusage }

// read counts anew.
func (u *usage) read() bool { return syscall.Getrusage(syscall.RUSAGE_SELF, &u.Rusage) == nil }

// addUsage adds what getrusage counts; sample calls it once a reading.
func (t *Telemetry) addUsage() {
	u := &t.usage
	t.add("process_cpu_time", "s", true, func() (float64, bool) {
		return seconds(u.Utime) + seconds(u.Stime), true
	})
	t.add("page_faults", "1", true, func() (float64, bool) { return float64(u.Minflt), true })
	t.add("major_page_faults", "1", true, func() (float64, bool) { return float64(u.Majflt), true })
	t.add("context_switches", "1", true, func() (float64, bool) { return float64(u.Nvcsw), true })
	t.add("preemptions", "1", true, func() (float64, bool) { return float64(u.Nivcsw), true })
}

func seconds(v syscall.Timeval) float64 { return float64(v.Sec) + 1e-6*float64(v.Usec) }
