package advise

import (
	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads"
)

func (s *runContext) findBlockingCopies() []gpuprof.Finding {
	if s.run.Counters["copies_h2d"] <= 0 {
		return nil
	}
	return s.findStall(workloads.CopyUnwaited)
}
