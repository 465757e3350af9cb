package advise

import (
	"strings"

	"github.com/gpuprof/gpuprof"
)

// farFactor is how many times its roofline bound a stage must take.
const farFactor = 2

// farFromFloor: a stage takes many times what its least arithmetic and bytes
// would, and the run's own figures say why: it writes every intermediate result
// to memory, or does without the library that is there. A stage that is far
// from its bound for no reason that a knob changes is no finding.
func (s *scene) farFromFloor() []gpuprof.Finding {
	var out []gpuprof.Finding
	switch {
	case s.run.Workload == "e3nn" && s.has("impl", "unfused"):
		out = s.unfusedProduct()
	case s.run.Workload == "gruflow" && s.has("impl", "plain"):
		out = s.plainCell()
	}
	if s.cuda() && s.has("library", "off") && s.run.Device.DeviceInfo["cublas"] != "" {
		out = append(out, s.ownProducts()...)
	}
	return out
}

// unfusedProduct: gather, multiply, contract and scatter, each through memory.
func (s *scene) unfusedProduct() []gpuprof.Finding {
	of, bound, moved, launches := weights{}, 0.0, 0.0, 0.0
	for _, name := range []string{stTensorProduct, stScatter} {
		if st := s.run.Stage(name); st != nil {
			if !positive(st.FloorS) {
				return nil // without a bound there is nothing to claim down to
			}
			of[name] = 1
			bound += st.FloorS
			moved += st.Counters["bytes_read"] + st.Counters["bytes_written"]
			launches += st.Counters["launches"]
		}
	}
	took := s.typical(of)
	if took < farFactor*bound {
		return nil
	}
	// A fused product still does the arithmetic. What it takes for that, this
	// run does not say; the bound is the least.
	return s.offer(advice{stage: stTensorProduct, knob: "impl", to: "csr", of: of, want: took - bound, evidence: map[string]any{
		"exposed_s": took, "floor_s": bound, "bytes_moved": moved, "launches": launches,
	}, pytorch: "use a fused equivariant tensor product (cuEquivariance or OpenEquivariance) in place of e3nn's"})
}

// fusedShare is what a fused cell moves of a plain one's 27 words a unit: it
// reads three gates' two sums and the state, and writes the state.
const fusedShare = 8. / 27

// plainCell: a recurrent cell of one kernel an operation. A fused cell does the
// same in one pass, which takes at least the time of its bytes.
func (s *scene) plainCell() []gpuprof.Finding {
	st := s.run.Stage(stGRU)
	if st == nil || st.Device == nil || !positive(st.Device.Median) {
		return nil
	}
	pointwise, all, bytes, launches := 0.0, 0.0, 0.0, 0.0
	for _, k := range s.kernels(stGRU) {
		all += k.Device.Median
		switch strings.TrimPrefix(k.Name, "gru_") {
		case "add", "mul", "sub", "sigmoid", "tanh":
			pointwise += k.Device.Median
			bytes += k.Counters["bytes_read"] + k.Counters["bytes_written"]
			launches += k.Counters["launches"]
		}
	}
	took := s.exposed(stGRU)
	if all <= 0 || took < farFactor*st.FloorS {
		return nil
	}
	of := weights{stGRU: pointwise / max(all, st.Device.Median)}
	want := s.typical(of)
	if c := s.run.Ceilings.CopyBytesPerS; positive(c) {
		want -= fusedShare * bytes / c
	}
	return s.offer(advice{stage: stGRU, knob: "impl", to: "fused", of: of, want: want, evidence: map[string]any{
		"exposed_s": took, "floor_s": st.FloorS, "pointwise_s": s.typical(of), "pointwise_bytes": bytes, "pointwise_launches": launches,
	}, pytorch: "use torch.nn.GRU (cuDNN) or torch.compile(cell) in place of a cell written out in operations"})
}

// productRate is the library's peak rate in the run's precision; 0 when unknown.
func (s *scene) productRate() float64 {
	c := s.run.Ceilings
	switch s.run.Knobs["precision"] {
	case "tf32":
		return c.TF32FlopsPerS
	case "bf16":
		return c.BF16FlopsPerS
	case "fp16":
		return c.FP16FlopsPerS
	}
	return c.FlopsPerS
}

// ownProducts: matrix products by gpuprof's own kernel where cuBLAS is.
func (s *scene) ownProducts() []gpuprof.Finding {
	rate := s.productRate()
	if !positive(rate) {
		return nil
	}
	of, took, least, stage, most := weights{}, 0.0, 0.0, "", 0.0
	for i := range s.run.Stages {
		st := &s.run.Stages[i]
		if st.Parent != stStep || st.Device == nil || !positive(st.Device.Median) {
			continue
		}
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
	return s.offer(advice{stage: stage, knob: "library", to: "auto", of: of, want: s.typical(of) - least, evidence: map[string]any{
		"products_s": took, "at_measured_rate_s": least, "flops_per_s": rate,
	}})
}
