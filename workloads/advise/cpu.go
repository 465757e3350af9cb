package advise

import "github.com/gpuprof/gpuprof"

// leastHad is the share of the CPUs that a run must have been able to have before a
// claim rests on them: with less, what another thread gains depends on who else is
// there.
const leastHad = 0.9

// had is how many CPUs there were for this run while it was measured: those that it
// used and those that idled, no more than its quota. known is false where that was
// not recorded.
func (s *scene) had() (n float64, known bool) {
	used, seconds := lastOf(s.run.Telemetry["process_cpu_time"])
	idle, over := lastOf(s.run.Telemetry["cpu_idle"])
	if seconds <= 0 || over <= 0 {
		return 0, false
	}
	n = used/seconds + idle/over
	return min(n, s.cpus()), true
}

// lastOf is what a track that counts from zero came to, and after how many seconds.
func lastOf(t gpuprof.Track) (value, seconds float64) {
	k := min(len(t.TimeS), len(t.Value))
	if k == 0 || !positive(float64(t.Value[k-1])) && t.Value[k-1] != 0 {
		return 0, 0
	}
	return float64(t.Value[k-1]), t.TimeS[k-1]
}

// cpuShort says that other programs, or a quota, had CPUs that a claim about the
// host would rest on. What a thread would gain is then not known, and nothing is
// claimed.
func (s *scene) cpuShort() bool {
	n, known := s.had()
	return known && n < leastHad*s.cpus()
}

// HadCPUs says whether there were CPUs enough for the claims that rest on them, as
// far as that was recorded.
func HadCPUs(r *gpuprof.Run) bool { return !(&scene{run: r}).cpuShort() }

// hostShort is cpuShort where the kernels, too, are the CPUs'.
func (s *scene) hostShort() bool { return !s.cuda() && s.cpuShort() }
