//go:build !cgo || !linux

package nvml

import (
	"runtime"

	"github.com/gpuprof/gpuprof"
)

// Built says whether this binary can ask NVML at all.
const Built = false

func openSystem(string) (system, error) {
	if runtime.GOOS != "linux" {
		return nil, gpuprof.Errorf(gpuprof.ErrDevice, "telemetry: this build of gpuprof reads NVML on Linux only").WithFix("use it there, or go without")
	}
	return nil, gpuprof.Errorf(gpuprof.ErrDevice, "telemetry: built without cgo").WithFix("build gpuprof with CGO_ENABLED=1 and a C compiler to read the GPU's clocks, power and throttling")
}
