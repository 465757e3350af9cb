package advise

import "github.com/gpuprof/gpuprof"

// poolTrim: cached memory goes back to the driver, which waits for the device
// and makes the next step ask for it anew.
func (s *scene) poolTrim() []gpuprof.Finding { return s.stalled(gpuprof.KeepPool) }
