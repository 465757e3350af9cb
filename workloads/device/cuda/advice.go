package cuda

import "github.com/gpuprof/gpuprof"

// advice names the usual cause of a status and the fix. Both are empty if no general fix is known; cause alone is
// empty if the status's name already states it.
type advice struct{ cause, fix string }

// newError returns an error of the given kind: "text: cause; fix".
func (a advice) newError(kind error, text string) *gpuprof.Error {
	if a.cause != "" {
		text += ": " + a.cause
	}
	return gpuprof.Errorf(kind, "%s", text).WithFix("%s", a.fix)
}

func (a advice) orElse(b advice) advice {
	if a == (advice{}) {
		return b
	}
	return a
}

// Texts that the advice for several statuses shares; they name knobs of the reference workloads.
const (
	askLess   = "reduce batch, edges or flows"
	readXid   = "look for Xid messages in dmesg"
	sanitize  = "run under compute-sanitizer to find the fault"
	newDriver = "update the NVIDIA driver"
)

var (
	hardwareFault = advice{"the GPU reports a hardware fault", readXid + ", reset the GPU or take it out of service"}
	kernelFault   = advice{"", sanitize}
	badImage      = advice{"the driver does not accept the kernel's code", newDriver + "; if that does not help, report it"}
	noMPS         = advice{"the MPS server does not answer", "restart nvidia-cuda-mps-control, or unset CUDA_MPS_PIPE_DIRECTORY"}
	noCapture     = advice{"a graph cannot hold this work", "set graph=off"}
)

// resultAdvice maps a driver's result to the advice for it in any call, except while a device is opened: see
// openingAdvice.
var resultAdvice = map[Result]advice{
	errOutOfMemory:         {"", askLess},
	errInsufficientDriver:  {"the driver is older than the library", newDriver + " to " + minPackages + " or newer"},
	errDeviceUnavailable:   {"another process holds the GPU in exclusive mode", "wait for it, or set the compute mode with nvidia-smi -c DEFAULT"},
	errInvalidImage:        badImage,
	errNoBinaryForGPU:      {"the driver cannot compile the kernel for this GPU", newDriver},
	errECCUncorrectable:    hardwareFault,
	errInvalidPTX:          badImage,
	errNVLinkUncorrectable: hardwareFault,
	errNoCompiler: {"the driver's PTX compiler is missing",
		"install the driver's libnvidia-ptxjitcompiler, and start a container with NVIDIA_DRIVER_CAPABILITIES=compute,utility"},
	errUnsupportedPTX:      {"the driver is older than the kernel's PTX", newDriver},
	errCompilerDisabled:    {"compiling PTX is switched off", "unset CUDA_DISABLE_PTX_JIT"},
	errContained:           hardwareFault,
	errOperatingSystem:     {"a call of the operating system failed", "check that /dev/nvidia0, /dev/nvidiactl and /dev/nvidia-uvm exist and are readable and writable"},
	errIllegalAddress:      kernelFault,
	errOutOfResources:      {"the kernel needs more registers or shared memory per block than this GPU has", "use fewer threads per block, or set another impl"},
	errLaunchTimeout:       {"a GPU that drives a display ends kernels that run for seconds", "use a GPU without a display, or " + askLess},
	errAssert:              kernelFault,
	errCooperativeTooLarge: {"the kernel's blocks do not fit on the GPU at once", "set another impl"},
	errTensorMemoryLeak:    kernelFault,
	errNotPermitted:        {"access is not permitted", "check the permissions of /dev/nvidia* and that the container or cgroup allows them"},
	errNotSupported:        {"this GPU, or its driver, cannot do it", newDriver + ", or reset the knob that requests it to its default"},
	errSystemNotReady:      {"the GPUs wait for their fabric manager", "start nvidia-fabricmanager (systemctl start nvidia-fabricmanager), of the driver's own version"},
	errDriverMismatch:      {"the driver library and the loaded kernel module have different versions", "reboot, or reload the nvidia kernel modules"},
	errCompatNotSupported:  {"a forward compatibility package is installed that this GPU does not support", "remove cuda-compat from the library path"},
	errUnknown:             {"", readXid},
}

func (r Result) lookUpAdvice() advice {
	switch {
	case r >= errHardwareStack && r <= lastKernelFault:
		return kernelFault
	case r >= errMPSConnection && r <= errMPSClientTerminated:
		return noMPS
	case r >= errCaptureUnsupported && r <= errCaptureWrongThread:
		return noCapture
	}
	return resultAdvice[r]
}

// Statuses of cublas_api.h that gpuprof handles specially.
const (
	blasNotInitialized  = 1
	blasAllocFailed     = 3
	blasArchMismatch    = 8
	blasExecutionFailed = 13
	blasInternalError   = 14
	blasNotSupported    = 15
)

// ownKernels is the fix for failures of recurrent layers and convolutions.
const ownKernels = "set impl=auto with library=off for gpuprof's own kernels"

const ownProduct = "set precision=fp32 with library=off for gpuprof's own product"

var blasAdvice = map[int32]advice{
	blasNotInitialized:  {"usually the GPU's memory is full, or cuBLAS and the driver do not fit", "list the programs on the GPU with nvidia-smi"},
	blasAllocFailed:     {"", askLess},
	blasArchMismatch:    {"this GPU does not support the product", ownProduct},
	blasExecutionFailed: {"a kernel of cuBLAS did not run", readXid + ", or " + ownProduct},
	blasInternalError:   {"something failed inside cuBLAS", "install another version of it, or " + ownProduct},
	blasNotSupported:    {"this cuBLAS has no such product for this GPU", ownProduct},
}

// Statuses of cudnn_graph.h that gpuprof handles specially, in the numbering of version 9: the thousands are the kind,
// such as NOT_SUPPORTED, the last three digits the reason.
const (
	dnnNotInitialized  = 1001
	dnnPartVersion     = 1002 // SUBLIBRARY_VERSION_MISMATCH
	dnnPartLoading     = 1008 // SUBLIBRARY_LOADING_FAILED
	dnnNotSupported    = 3000
	dnnOldDriver       = 3005
	dnnOldRuntime      = 3006
	dnnArchMismatch    = 3007
	dnnNoRuntime       = 3008 // RUNTIME_PREREQUISITE_MISSING
	dnnNoPart          = 3009 // SUBLIBRARY_UNAVAILABLE
	dnnInternalError   = 4000
	dnnHostMemory      = 4003
	dnnDeviceMemory    = 4004
	dnnExecutionFailed = 5000
	dnnKind            = 1000
)

// dnnOf8 maps statuses of cuDNN 8 to statuses of cuDNN 9.
var dnnOf8 = map[int32]int32{
	1: dnnNotInitialized, 2: dnnDeviceMemory, 4: dnnInternalError, 6: dnnArchMismatch,
	8: dnnExecutionFailed, 9: dnnNotSupported, 11: dnnNoRuntime, 14: dnnPartVersion,
}

var (
	mixedDNN   = advice{"a part of cuDNN is missing or of another version", "remove its other copies from LD_LIBRARY_PATH, or name the folder of a whole one in " + libraryPathVariable}
	misfitDNN  = advice{"cuDNN and the driver do not fit", newDriver + ", or " + ownKernels}
	dnnAdvices = map[int32]advice{
		dnnNotInitialized:  {"usually the GPU's memory is full, or cuDNN and the driver do not fit", "list the programs on the GPU with nvidia-smi"},
		dnnPartVersion:     mixedDNN,
		dnnPartLoading:     mixedDNN,
		dnnNotSupported:    {"this cuDNN has no such layer for this GPU", "set another precision, or " + ownKernels},
		dnnOldDriver:       misfitDNN,
		dnnOldRuntime:      misfitDNN,
		dnnArchMismatch:    {"this GPU does not support the layer", "set another precision, or " + ownKernels},
		dnnNoRuntime:       {"a library that cuDNN calls is missing, libcuda or CUDA's libnvrtc", "install it, or " + ownKernels},
		dnnNoPart:          mixedDNN,
		dnnInternalError:   {"something failed inside cuDNN", "install another version of it, or " + ownKernels},
		dnnHostMemory:      {"", askLess},
		dnnDeviceMemory:    {"", askLess},
		dnnExecutionFailed: {"a kernel of cuDNN did not run", readXid + ", or " + ownKernels},
	}
)

func dnnNumber(status int32) int32 {
	if of9, old := dnnOf8[status]; old {
		return of9
	}
	return status
}

// dnnAdvice returns the advice for the reason of a cuDNN status, or else for its kind.
func dnnAdvice(status int32) advice {
	n := dnnNumber(status)
	return dnnAdvices[n].orElse(dnnAdvices[n/dnnKind*dnnKind])
}
