package advise

import (
	"slices"

	"github.com/gpuprof/gpuprof"
)

// noisy are the warnings that make every figure of the run less certain.
var noisy = []string{"not-settled", "busy-machine", "foreign-process", "uneven-steps", "time-budget", "clock-mismatch", "few-samples",
	"warm-up-cut", "overhead-high", "energy-invalid", "ladder-unmeasured"}

// noise: the run itself says that its figures are uncertain. It claims nothing.
func (s *scene) noise() []gpuprof.Finding {
	evidence := map[string]any{}
	for _, w := range s.run.Warnings {
		if slices.Contains(noisy, w.Code) {
			evidence[w.Code] = w.Text
		}
	}
	if len(evidence) == 0 {
		return nil
	}
	return []gpuprof.Finding{s.finding(advice{
		evidence: evidence, command: s.sweep() + " --runs 6",
		pytorch: "measure several processes of the program, each past its warm-up, on a machine that does nothing else",
	}, 0)}
}
