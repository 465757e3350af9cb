package advise

import (
	"strings"

	"github.com/gpuprof/gpuprof"
)

// fill: a deterministic mode writes every block of memory before it is used.
func (s *scene) fill() []gpuprof.Finding {
	if !s.has("fill", "on") {
		return nil
	}
	of, fills, stage, most := weights{}, 0.0, "", 0.0
	for i := range s.run.Stages {
		st := &s.run.Stages[i]
		if st.Parent != stStep || st.Device == nil || !positive(st.Device.Median) {
			continue
		}
		filling, all := 0.0, 0.0
		for _, k := range s.kernels(st.Name) {
			all += k.Device.Median
			if strings.HasSuffix(k.Name, "fill") {
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
	return s.offer(advice{stage: stage, knob: "fill", to: "off", of: of, want: s.typical(of), evidence: map[string]any{
		"fill_launches": fills, "fill_exposed_s": s.typical(of),
	}})
}
