package advise

import "github.com/gpuprof/gpuprof"

// itemReads: results are read four bytes at a time, and the caller waits for each.
func (s *scene) itemReads() []gpuprof.Finding { return s.stalled(gpuprof.ReadTogether) }
