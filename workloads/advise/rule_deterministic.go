package advise

import (
	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads"
)

// findDeterministicSums reports sums in a fixed order on a GPU. Without a run of the other order, the claim is at
// most the time of the kernels that only the fixed order needs. On the host device atomic adds of several CPUs
// contend for a cache line, so the fixed order is usually faster; only a sweep can show otherwise.
func (s *runContext) findDeterministicSums() []gpuprof.Finding {
	f, there := s.firstFix(workloads.AllowAnyOrder)
	if !s.cuda() || !there || len(f.Targets) == 0 {
		return nil
	}
	target, weight, bound := f.Targets[0], 1.0, 0.0
	stage := target.Stage
	st := s.run.Stage(stage)
	if st == nil {
		return nil
	}
	if len(target.Kernels) > 0 {
		weight = s.kernelShare(target)
	} else if bound = st.BoundS; !positive(bound) {
		return nil // without a bound no claim is possible
	}
	of := weights{stage: weight}
	return s.offer(advice{stage: stage, knob: f.knob, to: f.To, of: of, want: s.typical(of) - bound, evidence: map[string]any{
		"stage_exposed_s": s.exposed(stage), "ordering_exposed_s": s.typical(of), "bound_s": bound,
	}})
}

// kernelShare returns the share of a target's kernels in the kernel time of its stage.
func (s *runContext) kernelShare(t workloads.Target) float64 {
	part, all := 0.0, 0.0
	for _, k := range s.kernelsOf(t.Stage) {
		all += k.Device.Median
		if t.Has(k.Name) {
			part += k.Device.Median
		}
	}
	if all <= 0 {
		return 0
	}
	return part / all
}
