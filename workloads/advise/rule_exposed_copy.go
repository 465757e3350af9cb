package advise

import (
	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads"
)

// findExposedCopies reports copies to the device that could be hidden, and copies to the host that could be left out.
func (s *runContext) findExposedCopies() []gpuprof.Finding {
	return append(s.exposedTransfers(), s.unseenCopies()...)
}

// exposedTransfers reports copies to the device that run in sequence with the kernels. On a separate stream they
// could overlap the kernels, up to the kernels' time.
func (s *runContext) exposedTransfers() []gpuprof.Finding {
	f, there := s.firstFix(workloads.CopyBeside)
	if s.hostShort() || !there || s.run.Counters["copies_h2d"] <= 0 {
		return nil
	}
	stH2D, stD2H := s.stage(gpuprof.RoleTransfer), s.stage(gpuprof.RoleResult)
	of := weights{stH2D: s.overlapShare()}
	kernels := 0.0
	for st := range s.stepStages() {
		if st.Device != nil && st.Name != stH2D {
			kernels += s.exposed(st.Name)
		}
	}
	return s.offer(advice{stage: stH2D, knob: f.knob, to: f.To, of: of, want: min(s.typical(of), kernels), evidence: map[string]any{
		"h2d_exposed_s": s.exposed(stH2D), "d2h_exposed_s": s.exposed(stD2H), "other_device_s": kernels,
		"bytes_h2d": s.run.Counters["bytes_h2d"], "copies_h2d": s.run.Counters["copies_h2d"],
	}})
}
