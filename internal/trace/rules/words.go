package rules

import (
	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/trace/analyze"
)

// noChange is said where a rule has no sentence for a kind of program.
const noChange = "no change is known for this kind of program"

// changeFor is what to change for a finding in the words of what the program is made with; own
// is the rule's line, for PyTorch.
func changeFor(r *analyze.Recording, rule, own string) string {
	p := r.Program
	if line := engineWords[r.Engine][rule]; line != "" && r.Kind == analyze.Serving {
		return line
	}
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

// engineWords are the flags of engines that serve.
var engineWords = map[string]words{
	"vLLM": {
		gpuprof.RuleLaunchBound: "serve without --enforce-eager, so that steps run as CUDA graphs; more requests per step (--max-num-seqs)",
		gpuprof.RuleHostBound:   "serve without --enforce-eager, so that steps run as CUDA graphs; --async-scheduling; more requests per step (--max-num-seqs)",
	},
	"SGLang": {
		gpuprof.RuleLaunchBound: "serve without --disable-cuda-graph; --cuda-graph-max-bs up to the batches that occur; more requests per step (--max-running-requests)",
		gpuprof.RuleHostBound:   "serve without --disable-cuda-graph and --disable-overlap-schedule; more requests per step (--max-running-requests)",
	},
	"TensorRT-LLM": {
		gpuprof.RuleLaunchBound: "cuda_graph_config in the engine's settings, with the batch sizes that occur; a larger max_batch_size",
		gpuprof.RuleHostBound:   "cuda_graph_config in the engine's settings; disable_overlap_scheduler: false; a larger max_batch_size",
	},
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
			gpuprof.RuleExposedCopy, gpuprof.RuleAllocatorChurn, gpuprof.RuleStreamWait, gpuprof.RuleTraceQuality, gpuprof.RuleDataloaderStall)}
	case analyze.ONNXRuntime:
		return []words{onnxWords}
	case analyze.OpenACC:
		return []words{openACCWords}
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
