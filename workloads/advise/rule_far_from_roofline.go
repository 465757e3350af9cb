package advise

import (
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads"
)

// farFactor is the ratio of a stage's time to its roofline bound above which the stage is far from its roofline.
const farFactor = 2

// findFarFromRoofline reports a stage that takes much longer than its minimal arithmetic and traffic. The reason must
// be in the run's own figures: the stage writes every intermediate result to memory, or does not use an available
// library. If no knob removes the reason, there is no finding.
func (s *runContext) findFarFromRoofline() []gpuprof.Finding {
	var out []gpuprof.Finding
	for _, f := range s.findFixes(workloads.Fuse) {
		switch {
		case len(f.Targets) == 0:
		case len(f.Targets[0].Kernels) > 0:
			out = append(out, s.pointwiseKernels(f, f.Targets[0])...)
		default:
			out = append(out, s.throughMemory(f)...)
		}
	}
	if f, there := s.firstFix(workloads.UseLibrary); there && s.cuda() && s.run.Device.DeviceInfo["cublas"] != "" {
		out = append(out, s.replaceableProducts(f)...)
	}
	return out
}

// throughMemory reports stages that write every intermediate result to memory.
func (s *runContext) throughMemory(f fix) []gpuprof.Finding {
	of, bound, moved, launches := weights{}, 0.0, 0.0, 0.0
	for _, t := range f.Targets {
		if st := s.run.Stage(t.Stage); st != nil {
			if !positive(st.BoundS) {
				return nil // without a bound no claim is possible
			}
			of[t.Stage] = 1
			bound += st.BoundS
			moved += st.Counters["bytes_read"] + st.Counters["bytes_written"]
			launches += st.Counters["launches"]
		}
	}
	took := s.typical(of)
	if took < farFactor*bound {
		return nil
	}
	// This run did not measure the fused kernel, which does the same arithmetic: the claim goes down to the bound.
	return s.offer(advice{stage: f.Targets[0].Stage, knob: f.knob, to: f.To, of: of, want: took - bound, evidence: map[string]any{
		"exposed_s": took, "bound_s": bound, "bytes_moved": moved, "launches": launches,
	}, pytorch: f.PyTorch})
}

// pointwiseKernels reports a stage with one kernel per operation. A fused kernel does the same work in one pass,
// which takes at least the time for the bytes that it still moves.
func (s *runContext) pointwiseKernels(f fix, t workloads.Target) []gpuprof.Finding {
	st := s.run.Stage(t.Stage)
	if st == nil || st.Device == nil || !positive(st.Device.Median) {
		return nil
	}
	pointwise, all, bytes, launches := 0.0, 0.0, 0.0, 0.0
	for _, k := range s.kernelsOf(t.Stage) {
		all += k.Device.Median
		if t.Has(k.Name) {
			pointwise += k.Device.Median
			bytes += k.Counters["bytes_read"] + k.Counters["bytes_written"]
			launches += k.Counters["launches"]
		}
	}
	took := s.exposed(t.Stage)
	if all <= 0 || took < farFactor*st.BoundS {
		return nil
	}
	of := weights{t.Stage: pointwise / max(all, st.Device.Median)}
	want := s.typical(of)
	if c := s.run.Ceilings.CopyBytesPerS; positive(c) {
		want -= t.Keeps * bytes / c
	}
	return s.offer(advice{stage: t.Stage, knob: f.knob, to: f.To, of: of, want: want, evidence: map[string]any{
		"exposed_s": took, "bound_s": st.BoundS, "pointwise_s": s.typical(of), "pointwise_bytes": bytes, "pointwise_launches": launches,
	}, pytorch: f.PyTorch})
}

// productRate returns the library's peak rate in the run's precision, in FLOP/s; 0 when unknown.
func (s *runContext) productRate() float64 {
	c := s.run.Ceilings
	switch s.inputPrecision() {
	case "tf32":
		return c.TF32FlopsPerS
	case "bf16":
		return c.BF16FlopsPerS
	case "fp16":
		return c.FP16FlopsPerS
	}
	return c.FlopsPerS
}

// inputPrecision returns the precision of the products' inputs, or "" if no knob sets it.
func (s *runContext) inputPrecision() string {
	for _, k := range s.knobs {
		for _, a := range k.Answers {
			if a.Remedy == workloads.LowerPrecision {
				return s.run.Knobs[k.Name]
			}
		}
	}
	return ""
}

// replaceableProducts reports matrix products by gpuprof's own kernel on a device that has cuBLAS.
func (s *runContext) replaceableProducts(f fix) []gpuprof.Finding {
	rate := s.productRate()
	if !positive(rate) {
		return nil
	}
	of, took, least, stage, most := weights{}, 0.0, 0.0, "", 0.0
	for st := range s.timedStages() {
		t, bound := 0.0, 0.0
		for _, k := range s.kernelsOf(st.Name) {
			if strings.Contains(k.Name, "gemm") {
				t += k.Device.Median
				bound += k.Counters["flops"] / rate
			}
		}
		if t > 0 {
			of[st.Name] = min(1, t/st.Device.Median)
			took, least = took+t, least+bound
			if t > most {
				stage, most = st.Name, t
			}
		}
	}
	return s.offer(advice{stage: stage, knob: f.knob, to: f.To, of: of, want: s.typical(of) - least, evidence: map[string]any{
		"products_s": took, "at_measured_rate_s": least, "flops_per_s": rate,
	}})
}
