package advise

import (
	"math"
	"strconv"
	"strings"

	"github.com/gpuprof/gpuprof"
)

// lower is a precision a GPU computes products faster in.
type lower struct {
	name string
	// speedup is the ratio of the dense peak rates of the vendor's data sheets
	// (A100: 156/19.5, H100 SXM: 495/67, V100: 125/15.7, GeForce of sm_86 and
	// sm_89: bf16 twice fp32, tf32 no faster than it).
	speedup float64
	// rounding is the unit roundoff of an input: 2^-11 (tf32, fp16), 2^-8 (bf16).
	rounding float64
	// accepted is the relative error that the check of a stage allows at it.
	accepted float64
}

func lowerPrecision(arch string) (lower, bool) {
	sm, err := strconv.Atoi(strings.TrimRight(strings.TrimPrefix(arch, "sm_"), "af"))
	switch {
	case err != nil || sm < 70:
		return lower{}, false
	case sm < 80:
		return lower{"fp16", 8, math.Ldexp(1, -11), 5e-3}, true
	case sm == 86 || sm == 89:
		return lower{"bf16", 2, math.Ldexp(1, -8), 2e-2}, true
	case sm < 90:
		return lower{"tf32", 8, math.Ldexp(1, -11), 2e-3}, true
	}
	return lower{"tf32", 7.4, math.Ldexp(1, -11), 2e-3}, true
}

// precision: matrix products in float32 by a library, on a GPU that has tensor
// cores. What they gain is bounded by the arithmetic's speed-up, and by their
// bytes, which stay as they are. Our own kernels only round: they gain nothing.
func (s *scene) precision() []gpuprof.Finding {
	to, ok := lowerPrecision(s.run.Device.Arch)
	f, there := s.fix(gpuprof.LowerPrecision)
	if !s.cuda() || !ok || !there || s.rule != ruleOfPrecision(to.name) {
		return nil
	}
	of, gain, products, stage, most := weights{}, 0.0, 0.0, "", 0.0
	for st := range s.timed() {
		saved, took := 0.0, 0.0
		for _, k := range s.kernels(st.Name) {
			if s.byLibrary(k.Name) {
				took += k.Device.Median
				saved += s.savedBy(k, to)
			}
		}
		if took > 0 {
			// Device time that something else hides is none of the step's.
			share := min(1, s.exposed(st.Name)/st.Device.Median)
			of[st.Name] = min(1, took/st.Device.Median)
			gain += saved * share
			products += took * share
			if saved > most {
				stage, most = st.Name, saved
			}
		}
	}
	evidence := map[string]any{
		"products_exposed_s": products, "speedup_bound": to.speedup, "input_rounding": to.rounding, "error_accepted": to.accepted,
	}
	for _, c := range s.run.Checks {
		if c.Stage == stage {
			evidence["error_now"], evidence["tolerance_now"] = float64(c.RelativeError), c.Tolerance
		}
	}
	return s.offer(advice{stage: stage, knob: f.knob, to: to.name, of: of, want: gain, evidence: evidence})
}

// ruleOfPrecision is the rule that suggests a precision for products of float32.
func ruleOfPrecision(to string) string {
	if to == "tf32" {
		return gpuprof.RuleNoTF32
	}
	return gpuprof.RuleNoAMP
}

// byLibrary says that a kernel is a library's matrix product.
func (s *scene) byLibrary(kernel string) bool {
	facts := s.run.Device.DeviceInfo
	return strings.Contains(kernel, "cudnn") && facts["cudnn"] != "" || strings.Contains(kernel, "gemm") && facts["cublas"] != ""
}

// savedBy is what a product gains at most: never below the time of its bytes.
func (s *scene) savedBy(k *gpuprof.StageResult, to lower) float64 {
	t := k.Device.Median
	least := t / to.speedup
	if c := s.run.Ceilings.CopyBytesPerS; positive(c) {
		least = max(least, min(t, (k.Counters["bytes_read"]+k.Counters["bytes_written"])/c))
	}
	return t - least
}
