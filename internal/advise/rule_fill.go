package advise

import "github.com/gpuprof/gpuprof"

// fill: a deterministic mode writes every block of memory before it is used.
func (s *scene) fill() []gpuprof.Finding {
	f, there := s.fix(gpuprof.SkipFill)
	if !there || len(f.Targets) == 0 {
		return nil
	}
	of, fills, stage, most := weights{}, 0.0, "", 0.0
	for st := range s.timed() {
		filling, all := 0.0, 0.0
		for _, k := range s.kernels(st.Name) {
			all += k.Device.Median
			if f.Targets[0].Has(k.Name) {
				filling += k.Device.Median
				fills += k.Counters["launches"]
			}
		}
		if filling > 0 {
			of[st.Name] = filling / max(all, st.Device.Median)
			if x := of[st.Name] * s.exposed(st.Name); x > most {
				stage, most = st.Name, x
			}
		}
	}
	return s.offer(advice{stage: stage, knob: f.knob, to: f.To, of: of, want: s.typical(of), evidence: map[string]any{
		"fill_launches": fills, "fill_exposed_s": s.typical(of),
	}})
}
