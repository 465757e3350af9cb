package advise

import (
	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads"
)

// unseenCopies reports that the workload makes and copies to the host more results than the user reads. The claim is
// the unread share of the stages that make and copy them.
func (s *runContext) unseenCopies() []gpuprof.Finding {
	var out []gpuprof.Finding
	for _, f := range s.findFixes(workloads.CopyLess) {
		if f.Keeps == nil {
			continue
		}
		goes := 1 - min(1, max(0, f.Keeps(s.run.Knobs)))
		of, stage := weights{}, ""
		for _, t := range f.Targets {
			of[t.Stage] = goes
			if stage == "" || s.exposed(t.Stage) > s.exposed(stage) {
				stage = t.Stage
			}
		}
		out = append(out, s.offer(advice{stage: stage, knob: f.knob, to: f.To, of: of, want: s.typical(of), evidence: map[string]any{
			"share_not_needed": goes, "bytes_d2h": s.run.Counters["bytes_d2h"], "copies_d2h": s.run.Counters["copies_d2h"],
		}})...)
	}
	return out
}
