package advise

import (
	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads"
)

// findPageableCopies reports copies to or from pageable memory, which a GPU driver stages through its own pinned
// memory. The host device copies both kinds at the same rate.
func (s *runContext) findPageableCopies() []gpuprof.Finding {
	c := s.run.Counters
	in, out := c["bytes_h2d_pageable"], c["bytes_d2h_pageable"]
	f, there := s.firstFix(workloads.PinMemory)
	if !s.cuda() || !there || in+out <= 0 {
		return nil
	}
	stH2D, stD2H := s.stage(gpuprof.RoleTransfer), s.stage(gpuprof.RoleResult)
	of := weights{}
	bytes := 0.0
	if in > 0 {
		of[stH2D] = 1
		bytes += in
	}
	if out > 0 {
		of[stD2H] = 1
		bytes += out
	}
	evidence := map[string]any{"bytes_h2d_pageable": in, "bytes_d2h_pageable": out, "copies_exposed_s": s.typical(of)}
	// The link limits pinned copies, too: the time for their bytes remains.
	want := s.typical(of)
	if rate := s.linkRate(); rate > 0 {
		want -= bytes / rate
		evidence["link_bytes_per_s"] = rate
	}
	stage := stH2D
	if s.exposed(stD2H)*of[stD2H] > s.exposed(stH2D)*of[stH2D] {
		stage = stD2H
	}
	return s.offer(advice{stage: stage, knob: f.knob, to: f.To, of: of, want: want, evidence: evidence})
}

// linkRate returns the rate of the PCIe link in one direction, in bytes per second, from the generation and width seen
// during the run; 0 if unknown. Rates per lane are from the specification: 2.5, 5, 8, 16, 32 and 64 GT/s, with 8b/10b
// coding up to generation 2 and 128b/130b in generations 3 to 5. In generation 6, 236 of the 256 bytes of a flit are
// transaction-layer packets.
func (s *runContext) linkRate() float64 {
	last := func(name string) float64 {
		v := s.run.Telemetry[name].Value
		best := 0.0
		for _, x := range v { // an idle link runs more slowly
			if f := float64(x); positive(f) {
				best = max(best, f)
			}
		}
		return best
	}
	gen, width := int(last("gpu_pcie_gen")), last("gpu_pcie_width")
	lane := map[int]float64{1: 0.25e9, 2: 0.5e9, 3: 0.985e9, 4: 1.969e9, 5: 3.938e9, 6: 7.375e9}[gen]
	return lane * width
}
