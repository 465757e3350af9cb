package advise

import (
	"math"
	"strconv"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads"
)

// lower is a precision lower than float32 with which a GPU may compute products faster.
type lower struct {
	name string
	// speedup is the ratio of the peak rates measured on this device; 0 if one of them is unknown.
	speedup float64
	// rounding is the unit roundoff of an input: 2^-11 (tf32, fp16), 2^-8 (bf16).
	rounding float64
	// accepted is the relative error that a stage's check allows at this precision.
	accepted float64
}

// worthwhile is the least ratio of peak rates for a suggestion: on some consumer cards TF32 gains nothing.
const worthwhile = 1.25

// lowerPrecision returns the most accurate precision that tensor cores compute faster than float32, by the rates
// measured on the device. Without rates it is the first that the device has, with an unknown speed-up.
func lowerPrecision(arch string, c gpuprof.Ceilings) (lower, bool) {
	sm, err := strconv.Atoi(strings.TrimRight(strings.TrimPrefix(arch, "sm_"), "af"))
	if err != nil || sm < 70 {
		return lower{}, false
	}
	half := lower{"fp16", c.FP16FlopsPerS, math.Ldexp(1, -11), 5e-3} // before sm_80 there is neither bf16 nor tf32
	if sm < 80 {
		return half.relativeTo(c.FlopsPerS)
	}
	tf32 := lower{"tf32", c.TF32FlopsPerS, math.Ldexp(1, -11), 2e-3}
	if l, ok := tf32.relativeTo(c.FlopsPerS); ok {
		return l, true
	}
	return lower{"bf16", c.BF16FlopsPerS, math.Ldexp(1, -8), 2e-2}.relativeTo(c.FlopsPerS)
}

// relativeTo divides the rate in l.speedup by float32's rate, and reports whether to suggest the precision: yes,
// unless it was measured to be no faster.
func (l lower) relativeTo(fp32 float64) (lower, bool) {
	if !positive(l.speedup) || !positive(fp32) {
		l.speedup = 0
		return l, true
	}
	l.speedup /= fp32
	return l, l.speedup >= worthwhile
}

// findLowerPrecision reports a library's matrix products in float32 on a GPU with tensor cores. The gain is limited
// by the speed-up of the arithmetic and by the moved bytes, which stay the same. Our own kernels only round their
// inputs, so they gain nothing.
func (s *runContext) findLowerPrecision() []gpuprof.Finding {
	to, ok := lowerPrecision(s.run.Device.Arch, s.run.Ceilings)
	f, there := s.firstFix(workloads.LowerPrecision)
	if !s.cuda() || !ok || !there || s.rule != ruleOfPrecision(to.name) {
		return nil
	}
	of, gain, products, stage, most := weights{}, 0.0, 0.0, "", 0.0
	for st := range s.timedStages() {
		saved, took := 0.0, 0.0
		for _, k := range s.kernelsOf(st.Name) {
			if s.isLibraryProduct(k.Name) {
				took += k.Device.Median
				saved += s.savedBy(k, to)
			}
		}
		if took > 0 {
			// Device time that other work hides does not count as time of the step.
			share := min(1, s.exposed(st.Name)/st.Device.Median)
			of[st.Name] = min(1, took/st.Device.Median)
			gain += saved * share
			products += took * share
			if saved > most {
				stage, most = st.Name, saved
			}
		}
	}
	evidence, unknown := map[string]any{"products_exposed_s": products, "input_rounding": to.rounding, "error_accepted": to.accepted}, ""
	if to.speedup > 0 {
		evidence["speedup_bound"] = to.speedup
	} else {
		unknown = "this run has no measured peak rate of " + to.name + " products"
	}
	for _, c := range s.run.Checks {
		if c.Stage == stage {
			evidence["error_now"], evidence["tolerance_now"] = float64(c.RelativeError), c.Tolerance
		}
	}
	return s.offer(advice{stage: stage, knob: f.knob, to: to.name, of: of, want: gain, evidence: evidence, unknown: unknown})
}

func ruleOfPrecision(to string) string {
	if to == "tf32" {
		return gpuprof.RuleNoTF32
	}
	return gpuprof.RuleNoAMP
}

func (s *runContext) isLibraryProduct(kernel string) bool {
	facts := s.run.Device.DeviceInfo
	return strings.Contains(kernel, "cudnn") && facts["cudnn"] != "" || strings.Contains(kernel, "gemm") && facts["cublas"] != ""
}

// savedBy returns the most seconds that a product can save: its time never falls below the time for its bytes. With
// an unknown speed-up only the bytes limit it, and the finding claims no time.
func (s *runContext) savedBy(k *gpuprof.StageResult, to lower) float64 {
	t, least := k.Device.Median, 0.0
	if to.speedup > 0 {
		least = t / to.speedup
	}
	if c := s.run.Ceilings.CopyBytesPerS; positive(c) {
		least = max(least, min(t, (k.Counters["bytes_read"]+k.Counters["bytes_written"])/c))
	}
	return t - least
}
