package analyze

import (
	"fmt"
	"strings"

	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// failedLaunches is the code of the warning that launches returned an error, failedKernel of the warning that a kernel
// failed while it ran. After a kernel fails, its process runs no more work on the device, so later records describe a
// broken program.
const failedLaunches, failedKernel = "failed-launches", "failed-kernel"

// FailedLaunch replaces the name of a launch that returned an error, because the launch started no kernel.
const FailedLaunch = "launch that failed"

// NameFailed returns the name under which a call that returned an error is stored: FailedLaunch for a launch of a
// kernel, else the name of the call.
func NameFailed(call string) string {
	if strings.Contains(call, "LaunchKernel") {
		return FailedLaunch
	}
	return call
}

// FailedCalls collects the calls of a recording that returned an error.
type FailedCalls struct {
	n      int
	codes  map[model.NameID]int64 // error code by the name of the call; severalErrors if its calls differ
	kernel failedCall             // the first call that returned an error of kernelErrors
}

// failedCall is a call that returned an error: its start time (ns), its error code and its name. code is 0 for no call.
type failedCall struct {
	start, code int64
	name        model.NameID
}

// severalErrors is the error code of a name whose calls returned different errors.
const severalErrors = -1

// IsError reports whether the result code of a CUDA call is an error. The code 600 (cudaErrorNotReady) is none: queries
// return it while work runs.
func IsError(code int64) bool { return code != 0 && code != 600 }

// Add adds a call that started at the time start (ns) and returned the error code. call is the id of the call's name,
// name the id of the name that NameFailed returns for the call.
func (f *FailedCalls) Add(start, code int64, name, call model.NameID) {
	f.n++
	if f.codes == nil {
		f.codes = map[model.NameID]int64{}
	}
	noteError(f.codes, name, code)
	if k := &f.kernel; (k.code == 0 || start < k.start) && kernelErrors()[code] != "" {
		*k = failedCall{start, code, call}
	}
}

func noteError(errors map[model.NameID]int64, name model.NameID, code int64) {
	if had, known := errors[name]; known && had != code {
		code = severalErrors
	}
	errors[name] = code
}

// kernelErrors maps the codes of the errors of a kernel that failed while it ran to their names. Every later call
// returns the error too.
func kernelErrors() map[int64]string {
	return map[int64]string{700: "cudaErrorIllegalAddress", 702: "cudaErrorLaunchTimeout", 710: "cudaErrorAssert", 714: "cudaErrorHardwareStackError",
		715: "cudaErrorIllegalInstruction", 716: "cudaErrorMisalignedAddress", 717: "cudaErrorInvalidAddressSpace", 718: "cudaErrorInvalidPc", 719: "cudaErrorLaunchFailure"}
}

// launchErrors maps codes of errors of a launch to the name of the error and the change that removes its cause.
func launchErrors() map[int64][2]string {
	const build = "compile for this device and driver (nvcc -arch=native), or install a driver as new as the toolkit"
	return map[int64][2]string{98: {"cudaErrorInvalidDeviceFunction", build}, 209: {"cudaErrorNoKernelImageForDevice", build}, 222: {"cudaErrorUnsupportedPtxVersion", build},
		1: {"cudaErrorInvalidValue", "give a grid and a block within the limits of the device"}, 9: {"cudaErrorInvalidConfiguration", "give a grid and a block within the limits of the device"},
		701: {"cudaErrorLaunchOutOfResources", "fewer threads per block, or fewer registers and less shared memory per block (__launch_bounds__)"}}
}

// Warn adds the warnings about failed calls to t, after all events of t are read. resolve maps a name id that was
// passed to Add to the id in t.Names.
func (f *FailedCalls) Warn(t *model.Trace, resolve func(model.NameID) model.NameID) {
	if f.n == 0 {
		return
	}
	t.Warn("failed-calls", Plural(f.n, "CUDA call", "CUDA calls")+" returned an error", "")
	codes := map[model.NameID]int64{}
	for name, code := range f.codes {
		noteError(codes, resolve(name), code)
	}
	failed, later, code := 0, 0, int64(severalErrors)
	for i := range t.Host {
		h := &t.Host[i]
		if h.Kind != model.API || t.Name(h.Name) != FailedLaunch {
			continue
		}
		code = codes[h.Name]
		switch {
		case f.kernel.code == 0 || h.Start < f.kernel.start:
			failed++
		case h.Start > f.kernel.start:
			later++
		}
	}
	if k := f.kernel; k.code != 0 {
		text := fmt.Sprintf("a kernel failed while it ran: %s returned its error (%d %s)", t.Name(resolve(k.name)), k.code, kernelErrors()[k.code])
		if later > 0 {
			text += "; " + describeFailed(later, "later ", "")
		}
		t.Warn(failedKernel, text, "run the program under compute-sanitizer, which names the kernel and the line")
	}
	if failed == 0 {
		return
	}
	cause, fix := "", "check what each launch returns (cudaGetLastError)"
	if known := launchErrors()[code]; known[0] != "" {
		cause, fix = fmt.Sprintf(" (%d %s)", code, known[0]), fix+"; "+known[1]
	} else if code != severalErrors {
		cause = fmt.Sprintf(" (%d)", code)
	}
	t.Warn(failedLaunches, describeFailed(failed, "", cause), fix)
}

// describeFailed states how many launches failed; when is "later " or "", and cause is the error in brackets or "".
func describeFailed(n int, when, cause string) string {
	whose := "their kernels"
	if n == 1 {
		whose = "its kernel"
	}
	return Plural(n, when+"launch of a kernel", when+"launches of kernels") + " returned an error" + cause + ", and " + whose + " did not run"
}
