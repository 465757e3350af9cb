package cuda

import (
	"errors"
	"runtime"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/dynlib"
)

// driverName returns the file name of the driver's library.
func driverName() string {
	if runtime.GOOS == "windows" {
		return "nvcuda.dll"
	}
	return "libcuda.so.1"
}

// notLoaded returns the error for a driver library that dynlib could not load.
func notLoaded(err error) *gpuprof.Error {
	switch {
	case dynlib.Unable != "" && runtime.GOOS == "linux":
		return openError("%s", dynlib.Unable).WithFix("install the build that is not static, or use --device host")
	case dynlib.Unable != "":
		return openError("%s", dynlib.Unable).WithFix("use --device host")
	case !errors.Is(err, dynlib.ErrAbsent):
		return openError("%w", err).WithFix("reinstall the NVIDIA driver")
	}
	e := openError("the NVIDIA driver's library %w", err)
	if runtime.GOOS == "windows" {
		return e.WithFix("install the NVIDIA driver")
	}
	return e.WithFix("install the NVIDIA driver (under WSL, on Windows), or start the container with --gpus all")
}
