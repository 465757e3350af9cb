package advise

import (
	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads"
)

func fillRule(remedy workloads.Remedy) func(*runContext) []gpuprof.Finding {
	return func(s *runContext) []gpuprof.Finding {
		f, there := s.firstFix(remedy)
		if !there || len(f.Targets) == 0 {
			return nil
		}
		return s.avoidableFills(f, f.Targets[0])
	}
}

// avoidableFills claims the time of a target's fill kernels, but none of the kernels that read the filled memory.
func (s *runContext) avoidableFills(f fix, t workloads.Target) []gpuprof.Finding {
	of, launches, bytes, stage, most := weights{}, 0.0, 0.0, "", 0.0
	for st := range s.timedStages() {
		if t.Stage != "" && t.Stage != st.Name {
			continue
		}
		filling, all := 0.0, 0.0
		for _, k := range s.kernelsOf(st.Name) {
			all += k.Device.Median
			if t.Has(k.Name) {
				filling += k.Device.Median
				launches += k.Counters["launches"]
				bytes += k.Counters["bytes_written"]
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
		"fill_launches": launches, "fill_bytes": bytes, "fill_exposed_s": s.typical(of),
	}})
}
