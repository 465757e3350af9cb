package advise

import (
	"maps"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads"
)

// shortKernel is about the CPU time of one launch in a PyTorch program, in seconds: shorter kernels end before the
// next launch.
const shortKernel = 20e-6

// findLaunchBound reports kernels so short that the device waits for launches. A graph needs only one launch.
func (s *runContext) findLaunchBound() []gpuprof.Finding {
	launches, each := s.run.Counters["launches"], s.meanKernel()
	f, there := s.firstFix(workloads.CaptureGraph)
	if !there || s.hostShort() || launches < 2 || each > shortKernel {
		return nil
	}
	of := weights{stLaunch: 1, stGap: 1}
	want := s.typical(of)
	evidence := map[string]any{"launches": launches, "kernel_mean_s": each, "launch_exposed_s": s.exposed(stLaunch), "gap_exposed_s": s.exposed(stGap)}
	// A caller that waits for a free slot is ahead of the device. Idle time between kernels is then the device's own,
	// and a graph would have it, too.
	if s.cuda() && s.hostTime(s.stage(gpuprof.RoleSlot)) < leastShare*s.step {
		between := s.bubbleWeights()
		evidence["between_kernels_s"] = s.typical(between)
		maps.Copy(of, between)
		want = s.typical(of)
	}
	// One launch remains: the graph's.
	if one := s.run.Calibration["null_launch_host"]; positive(one) {
		want -= one
	}
	return s.offer(advice{stage: stLaunch, knob: f.knob, to: f.To, of: of, want: want, evidence: evidence, unknown: s.handOver()})
}

// bubbleWeights returns for each stage the share of its device time in which the device waited for the next launch.
func (s *runContext) bubbleWeights() weights {
	of := weights{}
	for st := range s.stepStages() {
		if share := s.bubbleShare(st); share > 0 {
			of[st.Name] = share
		}
	}
	return of
}

// bubbleShare returns the share of a stage's device time in which none of its kernels ran: the device waited for the
// next launch.
func (s *runContext) bubbleShare(st *gpuprof.StageResult) float64 {
	if st.Device == nil || st.Counters["launches"] < 2 || !positive(st.Device.Median) {
		return 0
	}
	kernels := s.kernelsOf(st.Name)
	if len(kernels) == 0 {
		return 0
	}
	busy := 0.0
	for _, k := range kernels {
		busy += k.Device.Median
	}
	return max(0, 1-busy/st.Device.Median)
}
