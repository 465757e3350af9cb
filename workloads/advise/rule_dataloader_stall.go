package advise

import (
	"math"
	"strconv"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads"
)

// mostWorkers is the largest value of the knob workers.
const mostWorkers = 256

// findStarvation reports that the device waits for a batch. The remedy depends on the workers: add workers if there
// are none, keep workers that end with each epoch, add more if all are busy.
func (s *runContext) findStarvation() []gpuprof.Finding {
	stStarved := s.stage(gpuprof.RoleInput)
	wait := s.exposed(stStarved)
	if wait <= 0 || s.cpuShort() { // further workers need CPUs
		return nil
	}
	sample, collate := s.batchTime()
	workers, make1 := s.figure(gpuprof.InputWorkers), sample+collate
	a := advice{stage: stStarved, of: weights{stStarved: 1}, want: wait, evidence: map[string]any{
		"starved_exposed_s": wait, "make_batch_s": make1, gpuprof.InputWorkers: workers, "cpus": s.cpus(),
	}}
	if s.overlapShare() < 1 { // bounds by the kernels' share of the CPUs were 0.8 times the gain
		a.unknown = "on the host device workers and kernels share the CPUs; run the command to measure the gain of the knob"
	}
	if q, ok := s.run.Input[gpuprof.InputQueueDepth]; ok {
		a.evidence[gpuprof.InputQueueDepth] = q
	}
	add, canAdd := s.firstFix(workloads.AddWorkers)
	keep, canKeep := s.firstFix(workloads.KeepWorkers)
	switch most := min(s.cpus(), mostWorkers); {
	case canAdd && add.To != "":
		// auto is the number of CPUs minus one, from 1 to 4.
		n := math.Max(1, math.Min(4, most-1))
		a.knob, a.to = add.knob, add.To
		a.of[stStarved] = s.overlapShare()
		a.want = min(s.typical(a.of), s.step-make1/n)
	case canKeep && epochWait(s) > 0:
		a.knob, a.to = keep.knob, keep.To
		knob, n := s.repeatPeriod(stStarved)
		a.evidence[knob] = n
	case canAdd && workers >= 1 && workers < most:
		n := math.Min(2*workers, most)
		a.knob, a.to = add.knob, strconv.Itoa(int(n))
		a.want = min(wait, s.step*(1-workers/n))
	default:
		return nil
	}
	return s.offer(a)
}

// epochWait returns the seconds per step that the device waits because workers start in a few steps. These steps wait
// far longer than the median step, so the result is the wait averaged over a cycle, minus twice the median wait.
func epochWait(s *runContext) float64 {
	stStarved := s.stage(gpuprof.RoleInput)
	st := s.run.Stage(stStarved)
	if st == nil || st.Exposed == nil {
		return 0
	}
	return max(0, s.exposed(stStarved)-2*st.Exposed.Median)
}
