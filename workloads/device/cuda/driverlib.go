package cuda

import (
	"errors"
	"runtime"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/dynlib"
)

// driverName is the driver's library as the loader knows it.
func driverName() string {
	if runtime.GOOS == "windows" {
		return "nvcuda.dll"
	}
	return "libcuda.so.1"
}

// notLoaded is the sentence about a driver's library that dynlib did not load.
func notLoaded(err error) *gpuprof.Error {
	switch {
	case dynlib.Unable != "" && runtime.GOOS == "linux":
		return failed("%s", dynlib.Unable).WithFix("install the build that is not static, or use --device host")
	case dynlib.Unable != "":
		return failed("%s", dynlib.Unable).WithFix("use --device host")
	case !errors.Is(err, dynlib.ErrAbsent):
		return failed("%w", err).WithFix("reinstall the NVIDIA driver")
	}
	e := failed("the NVIDIA driver's library %w", err)
	if runtime.GOOS == "windows" {
		return e.WithFix("install the NVIDIA driver")
	}
	return e.WithFix("install the NVIDIA driver (under WSL, on Windows), or start the container with --gpus all")
}
