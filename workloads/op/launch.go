package op

import "github.com/gpuprof/gpuprof/workloads/device"

// isTiled reports whether a launch consists of blocks of threads, as on a GPU, instead of ranges of items for
// goroutines. A kernel whose items differ between the two has a comment at its definition.
func (k *binder) isTiled() bool { return k.dev != nil && k.dev.Info().Kind != "host" }

// librarian is a device that loads its vendor's libraries on request; only then do its Facts name them.
type librarian interface {
	// Libraries loads the libraries and returns their versions by name, such as "cublas".
	Libraries() map[string]string
}

// loadLibraries loads the device's libraries and returns its Info with their versions.
func loadLibraries(dev device.Device) device.Info {
	if dev == nil {
		return device.Info{}
	}
	if l, ok := dev.(librarian); ok {
		l.Libraries()
	}
	return dev.Info()
}

// teamsOf is op_teams of op.cuh: it returns how many rows, each of width values, one block of threads processes at a
// time. Each row gets a team of at least 32 threads, with at most four values per thread where the block is large
// enough.
func teamsOf(threads, width int) int {
	size := warpLanes
	for size < threads && size*4 < width {
		size *= 2
	}
	return threads / size
}

// withShared returns a copy of the kernel with that many bytes of shared memory per block.
func withShared(kernel *device.Kernel, bytes int) *device.Kernel {
	k := *kernel
	k.SharedBytes = bytes
	return &k
}

// shapeTeams returns a copy of the kernel whose blocks process as many rows as they have teams (see teamsOf).
func shapeTeams(kernel *device.Kernel, width int) *device.Kernel {
	k := *kernel
	k.PerBlock = teamsOf(k.Threads, width)
	return &k
}
