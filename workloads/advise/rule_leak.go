package advise

import (
	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads"
)

// findLeak reports memory, not time: records of earlier windows held for a backward pass that never runs.
func (s *runContext) findLeak() []gpuprof.Finding {
	f, there := s.firstFix(workloads.Detach)
	all, one := s.figure(gpuprof.InputRecorded), s.figure(gpuprof.InputRecordedWindow)
	if !there || s.tried[f.knob][f.To] || !positive(one) || !(all-one >= leastLoss*all) {
		return nil
	}
	return []gpuprof.Finding{s.finding(advice{knob: f.knob, to: f.To, evidence: map[string]any{
		gpuprof.InputRecorded: all, gpuprof.InputRecordedWindow: one, gpuprof.EvidenceSavedBytes: all - one,
		"nothing_claimed": "the setting saves memory; run the command to measure the step with it",
	}}, 0)}
}
