package op

import (
	"github.com/gpuprof/gpuprof/workloads/device"
)

// tiled reports whether launches are cut in blocks of threads rather than in
// ranges for goroutines. A kernel whose natural item differs says so at its
// literal.
func (k *binder) tiled() bool { return k.dev != nil && k.dev.Info().Kind != "host" }

// librarian is a device that looks for its vendor's libraries when it is asked
// to; until then its facts say nothing of them.
type librarian interface {
	// Libraries gives their versions by name ("cublas"), and loads them.
	Libraries() map[string]string
}

// withLibraries is what a device says about itself once it has looked for them.
func withLibraries(dev device.Device) device.Info {
	if dev == nil {
		return device.Info{}
	}
	if l, ok := dev.(librarian); ok {
		l.Libraries()
	}
	return dev.Info()
}

// teamsOf is op_teams in op.cuh: how many rows of width values a block of
// threads takes, a quarter of a row's values a thread.
func teamsOf(threads, width int) int {
	size := warpLanes
	for size < threads && size*4 < width {
		size *= 2
	}
	return threads / size
}

// inTeams is the kernel with as many rows a block as it makes teams.
func inTeams(kernel *device.Kernel, width int) *device.Kernel {
	k := *kernel
	k.PerBlock = teamsOf(k.Threads, width)
	return &k
}
