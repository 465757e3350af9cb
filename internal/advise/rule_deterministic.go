package advise

import (
	"strings"

	"github.com/gpuprof/gpuprof"
)

// deterministic: sums in a fixed order on a GPU. Without a run that has them
// off, what they can cost is bounded by what is there for the order's sake. On
// the host device, where atomic adds of several CPUs take a cache line from each
// other, a fixed order is the faster one; there only a sweep can say otherwise.
func (s *scene) deterministic() []gpuprof.Finding {
	if !s.cuda() || !s.has("deterministic", "on") {
		return nil
	}
	stage, weight, bound := "", 1.0, 0.0
	switch {
	case s.run.Workload == "e3nn" && s.has("impl", "unfused"):
		stage = stScatter
		if st := s.run.Stage(stage); st != nil {
			if bound = st.FloorS; !positive(bound) {
				return nil // without a bound there is nothing to claim down to
			}
		}
	case s.run.Workload == "gruflow":
		// The values are read and summed either way; the order costs the kernel
		// that adds up the parts.
		stage, weight = stMetrics, s.kernelShare(stMetrics, "_final")
	}
	if s.run.Stage(stage) == nil {
		return nil
	}
	of := weights{stage: weight}
	return s.offer(advice{stage: stage, knob: "deterministic", to: "off", of: of, want: s.typical(of) - bound, evidence: map[string]any{
		"stage_exposed_s": s.exposed(stage), "ordering_exposed_s": s.typical(of), "floor_s": bound,
	}})
}

// kernelShare is the part of a stage's kernel time that kernels with this end
// of their name take.
func (s *scene) kernelShare(stage, suffix string) float64 {
	part, all := 0.0, 0.0
	for _, k := range s.kernels(stage) {
		all += k.Device.Median
		if strings.HasSuffix(k.Name, suffix) {
			part += k.Device.Median
		}
	}
	if all <= 0 {
		return 0
	}
	return part / all
}
