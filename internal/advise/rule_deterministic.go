package advise

import "github.com/gpuprof/gpuprof"

// deterministic: sums in a fixed order. Without a run that has them off, what
// they can cost is bounded by the stage that makes them.
func (s *scene) deterministic() []gpuprof.Finding {
	if !s.has("deterministic", "on") {
		return nil
	}
	stage := ""
	switch {
	case s.run.Workload == "e3nn" && s.has("impl", "unfused"):
		stage = stScatter
	case s.run.Workload == "gruflow":
		stage = stMetrics
	}
	st := s.run.Stage(stage)
	if st == nil {
		return nil
	}
	of := weights{stage: 1}
	return s.offer(advice{stage: stage, knob: "deterministic", to: "off", of: of, want: s.typical(of) - st.FloorS, evidence: map[string]any{
		"stage_exposed_s": s.exposed(stage), "floor_s": st.FloorS,
	}})
}
