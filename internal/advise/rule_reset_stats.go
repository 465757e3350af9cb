package advise

import "github.com/gpuprof/gpuprof"

// resetStats: the caller waits for the device before it resets a counter that
// is the host's own.
func (s *scene) resetStats() []gpuprof.Finding { return s.stalled(gpuprof.LeavePeak) }
