package advise

import "github.com/gpuprof/gpuprof"

// threads: kernels of the host device are held to fewer threads than it has CPUs,
// and the CPUs were to be had while it ran.
func (s *scene) threads() []gpuprof.Finding {
	n, cpus := float64(s.run.Knobs.Int("threads")), s.cpus()
	if s.cuda() || s.cpuShort() || n < 1 || n >= cpus || s.meanKernel() < longKernel {
		return nil
	}
	of, stage, most := weights{}, "", 0.0
	for i := range s.run.Stages {
		// A copy is one thread's.
		if st := &s.run.Stages[i]; st.Parent == stStep && st.Device != nil && st.Counters["launches"] > 0 {
			of[st.Name] = 1 - n/cpus
			if x := s.exposed(st.Name); x > most {
				stage, most = st.Name, x
			}
		}
	}
	evidence := map[string]any{"threads": n, "cpus": cpus, "kernels_exposed_s": s.typical(of) / (1 - n/cpus)}
	if had, known := s.had(); known {
		evidence["cpus_to_be_had"] = had
	}
	return s.offer(advice{stage: stage, knob: "threads", to: "all", of: of, want: s.typical(of), evidence: evidence})
}
