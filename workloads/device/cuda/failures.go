package cuda

import (
	"fmt"
	"os"

	"github.com/gpuprof/gpuprof"
)

// The oldest supported driver, as cuDriverGetVersion numbers it.
const (
	minVersion  = 11000
	minPackages = "450" // the driver branch that brought CUDA 11.0
)

// opens is the prefix of errors about opening a device.
const opens = "opening a CUDA device: "

func openError(format string, args ...any) *gpuprof.Error {
	return gpuprof.Errorf(gpuprof.ErrDevice, opens+format, args...)
}

// versionText formats 12040 as "12.4".
func versionText(v int32) string { return fmt.Sprintf("%d.%d", v/1000, v%1000/10) }

func tooOld(v int32) error {
	return openError("the driver supports CUDA %s and gpuprof needs %s or newer", versionText(v), versionText(minVersion)).WithFix("update the NVIDIA driver to %s or newer", minPackages)
}

// initFailure describes a failure of cuInit, or of the first call that needs a device, with cause and fix.
func initFailure(d *driver, doing string, r Result) error {
	a := openingAdvice(d, r).orElse(r.lookUpAdvice()).orElse(advice{"", "check that nvidia-smi works for this user"})
	return a.newError(gpuprof.ErrDevice, opens+doing+": "+d.describeResult(r))
}

// openingAdvice returns the advice for results that have another or more specific meaning while a device is opened.
func openingAdvice(d *driver, r Result) advice {
	switch r {
	case errNoDevice, errInvalidDevice:
		if v, set := os.LookupEnv("CUDA_VISIBLE_DEVICES"); set {
			return advice{fmt.Sprintf("CUDA_VISIBLE_DEVICES=%q hides every GPU", v), "unset it or name a device that nvidia-smi -L lists"}
		}
		return advice{"the driver is installed but sees no GPU", "check nvidia-smi -L, and in a container start it with --gpus all"}
	case errNotInitialized, errDeinitialized:
		return advice{"the driver did not start", "check that nvidia-smi works and that the nvidia kernel module is loaded"}
	case errStubLibrary:
		return advice{d.path + " is the stub that the CUDA toolkit carries for linking", "remove its folder from LD_LIBRARY_PATH"}
	case errOutOfMemory:
		return advice{"the GPU has no memory left for a context", "list the programs on the GPU with nvidia-smi"}
	case errUnknown:
		return advice{"usually /dev/nvidia-uvm is missing or not readable",
			"run nvidia-modprobe -u -c 0, and after a suspend reload the nvidia_uvm kernel module"}
	}
	return advice{}
}
