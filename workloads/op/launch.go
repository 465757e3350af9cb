package op

import (
	"github.com/gpuprof/gpuprof/workloads/device"
)

// isTiled reports whether launches are cut into blocks of threads and not into ranges for goroutines. A kernel whose
// natural item differs has a comment at its literal.
func (k *binder) isTiled() bool { return k.dev != nil && k.dev.Info().Kind != "host" }

// librarian is a device that loads its vendor's libraries on request; before that its facts do not name them.
type librarian interface {
	// Libraries loads the libraries and returns their versions by name ("cublas").
	Libraries() map[string]string
}

// loadLibraries loads the device's libraries and returns its Info, which then names them.
func loadLibraries(dev device.Device) device.Info {
	if dev == nil {
		return device.Info{}
	}
	if l, ok := dev.(librarian); ok {
		l.Libraries()
	}
	return dev.Info()
}

// teamsOf is op_teams in op.cuh: the number of rows of width values per block of threads, with a quarter of a row's
// values per thread.
func teamsOf(threads, width int) int {
	size := warpLanes
	for size < threads && size*4 < width {
		size *= 2
	}
	return threads / size
}

// shapeTeams returns the kernel with one row per team of its block (see teamsOf).
func shapeTeams(kernel *device.Kernel, width int) *device.Kernel {
	k := *kernel
	k.PerBlock = teamsOf(k.Threads, width)
	return &k
}
