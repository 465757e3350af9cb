package advise

import "github.com/gpuprof/gpuprof"

// leastHad is the least share of the CPUs that must have been available to a run for claims about the host. With fewer
// CPUs, the gain of another thread depends on other programs.
const leastHad = 0.9

// availableCPUs returns how many CPUs were available to the run: those that it used and those that were idle, at most
// its quota. known is false if this was not recorded.
func (s *runContext) availableCPUs() (n float64, known bool) {
	used, seconds := lastOf(s.run.Telemetry["process_cpu_time"])
	idle, over := lastOf(s.run.Telemetry["cpu_idle"])
	if seconds <= 0 || over <= 0 {
		return 0, false
	}
	n = used/seconds + idle/over
	return min(n, s.cpus()), true
}

// lastOf returns the last value of a track that counts from zero, and its time in seconds.
func lastOf(t gpuprof.Track) (value, seconds float64) {
	k := min(len(t.TimeS), len(t.Value))
	if k == 0 || !positive(float64(t.Value[k-1])) && t.Value[k-1] != 0 {
		return 0, 0
	}
	return float64(t.Value[k-1]), t.TimeS[k-1]
}

// cpuShort reports whether other programs or a quota took CPUs from the run, which makes a host thread's gain
// unknown.
func (s *runContext) cpuShort() bool {
	n, known := s.availableCPUs()
	return known && n < leastHad*s.cpus()
}

// HadCPUs reports whether the run had enough CPUs for claims about the host; true if this was not recorded.
func HadCPUs(r *gpuprof.Run) bool { return !(&runContext{run: r}).cpuShort() }

// hostShort reports cpuShort on the host device, whose kernels need CPUs, too.
func (s *runContext) hostShort() bool { return !s.cuda() && s.cpuShort() }
