package advise

import (
	"cmp"
	"math"
	"slices"
	"strconv"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads"
)

const (
	// stillRising is the least ratio of throughputs per doubling of the batch.
	stillRising = 1.03
	// roomFor is the least ratio of the device's memory to the largest batch's memory.
	roomFor = 4
)

// findSmallBatch reports that in a sweep of the batch the throughput still rises at the largest batch, and that
// memory is left for more. A step takes a + b x batch: doubling the batch halves the part of a in the time per
// sample.
func (s *runContext) findSmallBatch() []gpuprof.Finding {
	f, found := s.firstFix(workloads.GrowBatch)
	if s.step == 0 || !found {
		return nil
	}
	var smaller []*gpuprof.Run
	for _, r := range s.all {
		if r != nil && r != s.run && differsOnlyIn(s.run, r) == f.knob && measuredWell(r) {
			smaller = append(smaller, r)
		}
	}
	batch := func(r *gpuprof.Run) float64 { return float64(r.Knobs.Int(f.knob)) }
	if len(smaller) == 0 {
		return nil
	}
	before := slices.MaxFunc(smaller, func(a, b *gpuprof.Run) int { return cmp.Compare(batch(a), batch(b)) })
	here, there := batch(s.run), batch(before)
	if there < 1 || there >= here {
		return nil // a larger batch was measured
	}
	if all := s.figure(f.Limit); all > 0 && 2*here > all {
		return nil // the input has no larger batch
	}
	rate, was := s.run.Throughput.Series, before.Throughput.Series
	perDoubling := math.Pow(rate.Median/was.Median, 1/math.Log2(here/there))
	memory := float64(s.run.Device.Memory)
	if perDoubling < stillRising || !(rate.CI95[0] > was.CI95[1]) || memory < roomFor*float64(s.run.PeakMemory) {
		return nil
	}
	// Times come from throughputs over whole blocks, since single steps may alternate.
	t2, t1 := s.workOf(s.run)/rate.Median, s.workOf(before)/was.Median
	fixed := t2 - (t2-t1)/(here-there)*here
	return s.offer(advice{stage: stStep, knob: f.knob, to: strconv.Itoa(int(2 * here)), of: s.stageWeights(), want: fixed / 2, evidence: map[string]any{
		"throughput": rate.Median, "throughput_before": was.Median, "batch_before": there, "per_doubling": perDoubling,
		"fixed_s": fixed, "peak_memory_bytes": s.run.PeakMemory, "memory_bytes": s.run.Device.Memory,
	}})
}
