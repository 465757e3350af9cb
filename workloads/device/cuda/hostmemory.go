package cuda

import (
	"os"

	"github.com/gpuprof/gpuprof/internal/cgroup"
)

// availableHostMemory returns the number of bytes that the system can provide without swapping and that the control
// groups allow. Pinning more makes a machine unusable. Without a figure from either there is no limit.
func availableHostMemory() int64 { return cgroup.MemoryAvailable(os.DirFS("/")) }
