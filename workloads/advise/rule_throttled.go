package advise

import (
	"maps"
	"slices"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/stats"
)

// heldDown lists the flags of samples taken while the clocks or the CPU quota were reduced.
var heldDown = []string{"throttled", "power-capped"}

// findThrottling reports samples taken while the device was throttled. Their cost is their distance from the other
// samples, if the run has both kinds.
func (s *runContext) findThrottling() []gpuprof.Finding {
	var slow, normal []float64
	codes := map[string]int{}
	at := 0
	var steps []float64
	if s.run.Step != nil {
		steps = slices.Concat(s.run.Step.Runs...)
	}
	for i, o := range s.run.Order {
		if o.Side != gpuprof.SideProbed || at >= len(steps) || i >= len(s.run.Flags) {
			continue
		}
		held := false
		for _, code := range heldDown {
			if slices.Contains(s.run.Flags[i], code) {
				codes[code]++
				held = true
			}
		}
		if held {
			slow = append(slow, steps[at])
		} else {
			normal = append(normal, steps[at])
		}
		at++
	}
	if len(slow) == 0 {
		return nil
	}
	share := float64(len(slow)) / float64(len(slow)+len(normal))
	a := advice{stage: stStep, evidence: map[string]any{"flagged_share": share}, of: weights{}}
	for _, code := range slices.Sorted(maps.Keys(codes)) {
		a.evidence[code+"_samples"] = codes[code]
	}
	a.command = "gpuprof doctor --bench"
	a.pytorch = "nothing to change in the program: cool the device, raise its power limit, or ask for more CPU"
	if !s.cuda() {
		a.command = s.sweepCommand()
		a.pytorch = "torch.set_num_threads(n) with n no larger than the CPU quota"
	}
	if len(slow) >= leastSamples && len(normal) >= leastSamples {
		a.of = s.stageWeights()
		a.evidence["flagged_step_s"], a.evidence["other_step_s"] = stats.Median(slow), stats.Median(normal)
		a.want = share * (stats.Median(slow) - stats.Median(normal))
		if out := s.offer(a); out != nil {
			return out
		}
	}
	return []gpuprof.Finding{s.finding(a, 0)}
}
