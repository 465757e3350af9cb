package cuda

import (
	"os"

	"github.com/gpuprof/gpuprof/internal/cgroup"
)

// availableHostMemory is what the system could still give without swapping and the
// control groups allow. Pinning more than that takes a machine down. Where nothing
// can be read there is no bound.
func availableHostMemory() int64 { return cgroup.MemoryAvailable(os.DirFS("/")) }
