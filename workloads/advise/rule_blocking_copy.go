package advise

import (
	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads"
)

// blockingCopies: the caller waits for its copies.
func (s *scene) blockingCopies() []gpuprof.Finding {
	if s.run.Counters["copies_h2d"] <= 0 {
		return nil
	}
	return s.stalled(workloads.CopyUnwaited)
}
