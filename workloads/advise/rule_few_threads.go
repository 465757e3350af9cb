package advise

import (
	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads"
)

// findFewThreads reports that the host device's kernels use fewer threads than the run had CPUs.
func (s *runContext) findFewThreads() []gpuprof.Finding {
	f, there := s.firstFix(workloads.UseThreads)
	n, cpus := float64(s.run.Knobs.Int(f.knob)), s.cpus()
	if !there || s.cuda() || s.cpuShort() || n < 1 || n >= cpus || s.meanKernel() < longKernel {
		return nil
	}
	of, stage, most := weights{}, "", 0.0
	for st := range s.stepStages() {
		// A copy uses one thread.
		if st.Device != nil && st.Counters["launches"] > 0 {
			of[st.Name] = 1 - n/cpus
			if x := s.exposed(st.Name); x > most {
				stage, most = st.Name, x
			}
		}
	}
	evidence := map[string]any{f.knob: n, "cpus": cpus, "kernels_exposed_s": s.typical(of) / (1 - n/cpus)}
	if had, known := s.availableCPUs(); known {
		evidence["cpus_to_be_had"] = had
	}
	return s.offer(advice{stage: stage, knob: f.knob, to: f.To, of: of, want: s.typical(of), evidence: evidence})
}
