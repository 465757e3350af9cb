package advise

import (
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads"
)

// farFactor is how many times its roofline bound a stage must take.
const farFactor = 2

// farFromRoofline: a stage takes many times what its least arithmetic and bytes
// would, and the run's own figures say why: it writes every intermediate result
// to memory, or does without the library that is there. A stage that is far
// from its bound for no reason that a knob changes is no finding.
func (s *scene) farFromRoofline() []gpuprof.Finding {
	var out []gpuprof.Finding
	for _, f := range s.fixes(workloads.Fuse) {
		switch {
		case len(f.Targets) == 0:
		case len(f.Targets[0].Kernels) > 0:
			out = append(out, s.pointwise(f, f.Targets[0])...)
		default:
			out = append(out, s.throughMemory(f)...)
		}
	}
	if f, there := s.fix(workloads.UseLibrary); there && s.cuda() && s.run.Device.DeviceInfo["cublas"] != "" {
		out = append(out, s.ownProducts(f)...)
	}
	return out
}

// throughMemory: stages that hand every intermediate result over in memory.
func (s *scene) throughMemory(f fix) []gpuprof.Finding {
	of, bound, moved, launches := weights{}, 0.0, 0.0, 0.0
	for _, t := range f.Targets {
		if st := s.run.Stage(t.Stage); st != nil {
			if !positive(st.BoundS) {
				return nil // without a bound there is nothing to claim down to
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
	// A fused kernel still does the arithmetic. What it takes for that, this
	// run does not say; the bound is the least.
	return s.offer(advice{stage: f.Targets[0].Stage, knob: f.knob, to: f.To, of: of, want: took - bound, evidence: map[string]any{
		"exposed_s": took, "bound_s": bound, "bytes_moved": moved, "launches": launches,
	}, pytorch: f.PyTorch})
}

// pointwise: a stage with one kernel an operation. A fused kernel does the same in
// one pass, which takes at least the time of the bytes that it keeps.
func (s *scene) pointwise(f fix, t workloads.Target) []gpuprof.Finding {
	st := s.run.Stage(t.Stage)
	if st == nil || st.Device == nil || !positive(st.Device.Median) {
		return nil
	}
	pointwise, all, bytes, launches := 0.0, 0.0, 0.0, 0.0
	for _, k := range s.kernels(t.Stage) {
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

// productRate is the library's peak rate in the run's precision; 0 when unknown.
func (s *scene) productRate() float64 {
	c := s.run.Ceilings
	switch s.rounding() {
	case "tf32":
		return c.TF32FlopsPerS
	case "bf16":
		return c.BF16FlopsPerS
	case "fp16":
		return c.FP16FlopsPerS
	}
	return c.FlopsPerS
}

// rounding is what the products round their inputs to, "" where no knob says it.
func (s *scene) rounding() string {
	for _, k := range s.knobs {
		for _, a := range k.Answers {
			if a.Remedy == workloads.LowerPrecision {
				return s.run.Knobs[k.Name]
			}
		}
	}
	return ""
}

// ownProducts: matrix products by gpuprof's own kernel where cuBLAS is.
func (s *scene) ownProducts(f fix) []gpuprof.Finding {
	rate := s.productRate()
	if !positive(rate) {
		return nil
	}
	of, took, least, stage, most := weights{}, 0.0, 0.0, "", 0.0
	for st := range s.timed() {
		t, bound := 0.0, 0.0
		for _, k := range s.kernels(st.Name) {
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
