package advise

import "github.com/gpuprof/gpuprof"

// shortKernel is about what a launch costs a PyTorch program on the CPU: below
// it kernels finish before the next is launched.
const shortKernel = 20e-6

// launchBound: kernels are so short that the device waits for the next launch.
// A graph replays all of them with one.
func (s *scene) launchBound() []gpuprof.Finding {
	launches, each := s.run.Counters["launches"], s.meanKernel()
	if !s.has("graph", "off") || s.run.Knobs["pool_trim"] != "" && !s.has("pool_trim", "never") || launches < 2 || each > shortKernel {
		return nil
	}
	of := weights{stLaunch: 1, stGap: 1}
	want := s.typical(of)
	evidence := map[string]any{"launches": launches, "kernel_mean_s": each, "launch_exposed_s": s.exposed(stLaunch), "gap_exposed_s": s.exposed(stGap)}
	if s.cuda() {
		between := 0.0
		for i := range s.run.Stages {
			if st := &s.run.Stages[i]; st.Parent == stStep {
				if share := s.bubbles(st); share > 0 {
					of[st.Name] = share
					between += share * s.exposed(st.Name)
				}
			}
		}
		want += between
		evidence["between_kernels_s"] = between
	}
	// One launch remains.
	if one := s.run.Calibration["null_launch_host"]; positive(one) {
		want -= one
	}
	return s.offer(advice{stage: stLaunch, knob: "graph", to: "on", of: of, want: want, evidence: evidence})
}

// bubbles is the share of a stage's device time in which none of its kernels
// ran: the device waited for the next launch.
func (s *scene) bubbles(st *gpuprof.StageResult) float64 {
	if st.Device == nil || st.Counters["launches"] < 2 || !positive(st.Device.Median) {
		return 0
	}
	kernels := s.kernels(st.Name)
	if len(kernels) == 0 {
		return 0
	}
	busy := 0.0
	for _, k := range kernels {
		busy += k.Device.Median
	}
	return max(0, 1-busy/st.Device.Median)
}
