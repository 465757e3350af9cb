package advise

import "github.com/gpuprof/gpuprof"

// syncs: the caller waits for the device every step or every few, and the device
// has nothing to do until the caller has launched again.
func (s *scene) syncs() []gpuprof.Finding { return s.stalled(gpuprof.SkipSync) }
