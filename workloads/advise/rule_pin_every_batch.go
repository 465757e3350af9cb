package advise

import (
	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads"
)

// findPinEveryBatch reports host memory that every batch pins again, which costs more than pinned copies save.
func (s *runContext) findPinEveryBatch() []gpuprof.Finding {
	f, there := s.firstFix(workloads.PinOnce)
	if !there || s.hostShort() {
		return nil
	}
	stStage := s.stage(gpuprof.RoleStaging)
	of := weights{stStage: 1}
	// The copy into the staging memory remains: its bytes are read and written once.
	want, bytes := s.typical(of), s.run.Counters["bytes_h2d"]
	if c := s.run.Ceilings.CopyBytesPerS; positive(c) {
		want -= 2 * bytes / c
	}
	want = min(want-s.displacedGain(want), s.step-s.loadingPeriod())
	return s.offer(advice{stage: stStage, knob: f.knob, to: f.To, of: of, want: want, evidence: map[string]any{
		"stage_exposed_s": s.exposed(stStage), "bytes_h2d": bytes, "allocations": s.run.Counters["allocations"],
	}})
}
