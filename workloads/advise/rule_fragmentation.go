package advise

import (
	"strings"

	"github.com/gpuprof/gpuprof"
)

// leastLoss is the least share of the reserved peak for a finding: for the part that is never in use, and for the
// saving by another setting. Memory snapshots use the same share.
const leastLoss = 0.05

// findFragmentation reports that the allocator reserves more than its blocks ever use, and that a replay of the same
// requests with another setting reserves less. It claims memory, not time.
func (s *runContext) findFragmentation() []gpuprof.Finding {
	reserved, inUse := s.figure("memory_reserved_peak"), s.figure("memory_in_use_peak")
	present, least := s.figure(gpuprof.InputReplayedPeak), s.figure(gpuprof.InputBestPeak)
	setting, _ := s.run.Input[gpuprof.InputBestSetting].(string)
	knob, value, ok := strings.Cut(setting, "=")
	if _, there := s.run.Knobs[knob]; !ok || !there || s.tried[knob][value] || !positive(reserved) || !positive(least) {
		return nil
	}
	if reserved-inUse < leastLoss*reserved || present-least < leastLoss*present {
		return nil
	}
	return []gpuprof.Finding{s.finding(advice{knob: knob, to: value, evidence: map[string]any{
		"reserved_peak_bytes": reserved, "in_use_peak_bytes": inUse, "idle_mean_bytes": s.figure("memory_idle_mean"),
		"replayed_peak_bytes": present, "replayed_peak_with_it_bytes": least, gpuprof.EvidenceSavedBytes: present - least,
		"nothing_claimed": "the setting saves memory; run the command to measure the step with it",
	}}, 0)}
}
