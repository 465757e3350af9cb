package rules

import (
	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/trace/analyze"
)

// changeFor returns the advice of a rule for the program's framework. own is the advice for PyTorch. The result is
// NoChange if the framework has no advice for the rule.
func changeFor(p analyze.Program, kind analyze.Kind, rule, own string) string {
	if rule == gpuprof.RuleNotSteady || p == analyze.PyTorch {
		return own
	}
	if line := onePassWords[rule]; line != "" && kind == analyze.OnePass && (p == analyze.CUDA || p == analyze.HIP) {
		return line
	}
	for _, table := range adviceTables(p) {
		if line := table[rule]; line != "" {
			return line
		}
	}
	return analyze.NoChange
}

// adviceTable maps rule ids to advice.
type adviceTable map[string]string

// adviceTables returns the tables of advice for a kind of program, in the order in which to search them.
func adviceTables(p analyze.Program) []adviceTable {
	switch p {
	case analyze.LibTorch:
		return []adviceTable{libTorchWords}
	case analyze.JAX:
		return []adviceTable{jaxWords, xlaWords}
	case analyze.TensorFlow:
		return []adviceTable{tensorFlowWords, xlaWords}
	case analyze.TensorRT:
		return []adviceTable{tensorRTWords, cudaWords.selectRules(gpuprof.RuleBlockingCopy, gpuprof.RuleExplicitSync, gpuprof.RuleHiddenSync, gpuprof.RulePageableH2D,
			gpuprof.RuleUnifiedMemory, gpuprof.RuleExposedCopy, gpuprof.RuleAllocatorChurn, gpuprof.RuleStreamWait, gpuprof.RuleTraceQuality, gpuprof.RuleDataloaderStall)}
	case analyze.ONNXRuntime:
		return []adviceTable{onnxWords}
	case analyze.OpenACC:
		return []adviceTable{openACCWords}
	case analyze.OpenMP:
		return []adviceTable{openMPWords}
	case analyze.Julia:
		return []adviceTable{juliaWords}
	case analyze.CuPyNumba:
		return []adviceTable{cupyWords}
	case analyze.Triton:
		return []adviceTable{tritonWords}
	case analyze.HIP:
		return []adviceTable{hipWords}
	case analyze.Python:
		return []adviceTable{pythonWords}
	case analyze.CUDA:
		return []adviceTable{cudaWords}
	}
	return nil
}

func (w adviceTable) selectRules(rules ...string) adviceTable {
	out := adviceTable{}
	for _, r := range rules {
		out[r] = w[r]
	}
	return out
}
