package cuda

import (
	"fmt"
	"os"

	"github.com/gpuprof/gpuprof"
)

// The oldest driver that has what is used here, as cuDriverGetVersion says it.
const (
	minVersion  = 11000
	minPackages = "450" // the driver branch that brought CUDA 11.0
)

// failed is an ErrDevice about opening a device.
func failed(format string, args ...any) error {
	return gpuprof.Errorf(gpuprof.ErrDevice, "opening a CUDA device: "+format, args...)
}

// versionText is 12040 as "12.4".
func versionText(v int32) string { return fmt.Sprintf("%d.%d", v/1000, v%1000/10) }

func tooOld(v int32) error {
	return failed("the driver supports CUDA %s and gpuprof needs %s or newer; update the NVIDIA driver to %s or newer",
		versionText(v), versionText(minVersion), minPackages)
}

// initFailure says what usually causes a result of cuInit, or of the first call
// that needs a device, and what helps.
func initFailure(d *driver, doing string, r Result) error {
	says := func(format string, args ...any) error {
		return failed("%s: %s: %s", doing, d.describe(r), fmt.Sprintf(format, args...))
	}
	switch r {
	case errNoDevice, errInvalidDevice:
		if v, set := os.LookupEnv("CUDA_VISIBLE_DEVICES"); set {
			return says("CUDA_VISIBLE_DEVICES=%q hides every GPU; unset it or name a device that nvidia-smi -L lists", v)
		}
		return says("the driver is installed but sees no GPU; check nvidia-smi -L, and in a container start it with --gpus all")
	case errNotInitialized, errDeinitialized:
		return says("the driver did not start; check that nvidia-smi works and that the nvidia kernel module is loaded")
	case errStubLibrary:
		return says("%s is the stub that the CUDA toolkit carries for linking; take its folder out of LD_LIBRARY_PATH", d.path)
	case errInsufficientDriver:
		return says("the driver is older than the library; update the NVIDIA driver to %s or newer", minPackages)
	case errDeviceUnavailable:
		return says("another process holds the GPU in exclusive mode; wait for it, or set the compute mode with nvidia-smi -c DEFAULT")
	case errOutOfMemory:
		return says("there is not even memory for a context; nvidia-smi shows who uses the GPU")
	case errNotPermitted:
		return says("access is not permitted; check the permissions of /dev/nvidia* and that the container or cgroup allows them")
	case errOperatingSystem:
		return says("an operating system call failed; check that /dev/nvidia0, /dev/nvidiactl and /dev/nvidia-uvm exist and are readable and writable")
	case errSystemNotReady:
		return says("the GPUs wait for their fabric manager; start nvidia-fabricmanager (systemctl start nvidia-fabricmanager), of the driver's own version")
	case errDriverMismatch:
		return says("the driver library and the loaded kernel module have different versions; reboot, or reload the nvidia kernel modules")
	case errCompatNotSupported:
		return says("a forward compatibility package is installed that this GPU does not support; remove cuda-compat from the library path")
	case errECCUncorrectable, errNVLinkUncorrectable:
		return says("the GPU reports a hardware fault; look for Xid messages in dmesg, reset the GPU or take it out of service")
	case errUnknown:
		return says("usually /dev/nvidia-uvm is missing or not readable; run nvidia-modprobe -u -c 0, and after a suspend reload the nvidia_uvm kernel module")
	}
	if r >= errMPSConnection && r <= errMPSClientTerminated {
		return says("the MPS server does not answer; restart nvidia-cuda-mps-control, or unset CUDA_MPS_PIPE_DIRECTORY")
	}
	return says("check that nvidia-smi works for this user")
}
