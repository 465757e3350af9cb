package rules

import (
	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/trace/analyze"
)

// noChange is said where a rule has no sentence for a kind of program.
const noChange = "no change is known for this kind of program"

// changeFor is what to change for a finding in the words of what the program is made with; own
// is the rule's line, for PyTorch.
func changeFor(p analyze.Program, rule, own string) string {
	if rule == gpuprof.RuleNotSteady || p == analyze.PyTorch {
		return own
	}
	for _, table := range wordsOf(p) {
		if line := table[rule]; line != "" {
			return line
		}
	}
	return noChange
}

// words are lines by rule.
type words map[string]string

// wordsOf are the tables of a kind of program, its own before those that it shares.
func wordsOf(p analyze.Program) []words {
	switch p {
	case analyze.JAX:
		return []words{jaxWords, xlaWords}
	case analyze.TensorFlow:
		return []words{tensorFlowWords, xlaWords}
	case analyze.TensorRT:
		return []words{tensorRTWords, cudaWords.only(gpuprof.RuleBlockingCopy, gpuprof.RuleExplicitSync, gpuprof.RuleHiddenSync, gpuprof.RulePageableH2D,
			gpuprof.RuleUnifiedMemory, gpuprof.RuleExposedCopy, gpuprof.RuleAllocatorChurn, gpuprof.RuleStreamWait, gpuprof.RuleTraceQuality, gpuprof.RuleDataloaderStall)}
	case analyze.ONNXRuntime:
		return []words{onnxWords}
	case analyze.OpenACC:
		return []words{openACCWords}
	case analyze.OpenMP:
		return []words{openMPWords}
	case analyze.Julia:
		return []words{juliaWords}
	case analyze.CuPyNumba:
		return []words{cupyWords}
	case analyze.Triton:
		return []words{tritonWords}
	case analyze.HIP:
		return []words{hipWords}
	case analyze.Python:
		return []words{pythonWords}
	case analyze.CUDA:
		return []words{cudaWords}
	}
	return nil
}

// only are the lines of some rules.
func (w words) only(rules ...string) words {
	out := words{}
	for _, r := range rules {
		out[r] = w[r]
	}
	return out
}
