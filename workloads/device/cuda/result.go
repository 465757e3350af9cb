package cuda

import (
	"fmt"
	"unsafe"
)

// Result is the driver's CUresult.
type Result int32

// Results that gpuprof handles specially; names and texts come from the driver.
const (
	success                Result = 0
	errInvalidValue        Result = 1
	errOutOfMemory         Result = 2
	errNotInitialized      Result = 3
	errDeinitialized       Result = 4
	errStubLibrary         Result = 34
	errInsufficientDriver  Result = 35 // of the runtime; seen from compatibility layers
	errDeviceUnavailable   Result = 46
	errNoDevice            Result = 100
	errInvalidDevice       Result = 101
	errInvalidImage        Result = 200
	errInvalidContext      Result = 201
	errNoBinaryForGPU      Result = 209
	errECCUncorrectable    Result = 214
	errInvalidPTX          Result = 218
	errNVLinkUncorrectable Result = 220
	errNoCompiler          Result = 221
	errUnsupportedPTX      Result = 222
	errCompilerDisabled    Result = 223
	errContained           Result = 226
	errOperatingSystem     Result = 304
	errInvalidHandle       Result = 400
	errNotFound            Result = 500
	errNotReady            Result = 600
	errIllegalAddress      Result = 700
	errNoPeers             Result = 217
	errPeersEnabled        Result = 704
	errTooManyPeers        Result = 711
	errOutOfResources      Result = 701
	errLaunchTimeout       Result = 702
	errContextDestroyed    Result = 709
	errAssert              Result = 710
	errHardwareStack       Result = 714
	errTensorMemoryLeak    Result = 721
	errCooperativeTooLarge Result = 720
	errNotPermitted        Result = 800
	errNotSupported        Result = 801
	errSystemNotReady      Result = 802
	errDriverMismatch      Result = 803
	errCompatNotSupported  Result = 804
	errMPSConnection       Result = 805
	errMPSClientTerminated Result = 810
	errCaptureUnsupported  Result = 900
	errCaptureWrongThread  Result = 908
	errExternalDevice      Result = 911
	errUnknown             Result = 999
	lastKernelFault        Result = 719 // 714 to 719 are faults of a kernel
	errLibrary             Result = -1  // gpuprof's own: a vendor library failed, see Device.libFault
)

// isSticky reports whether r destroys the context. After such a result cuda.h requires the process to end; gpuprof ends
// only the use of the context. A GPU that disappeared and a driver that shut down count too.
func (r Result) isSticky() bool {
	switch r {
	case errNoDevice, errNotInitialized, errECCUncorrectable, errNVLinkUncorrectable, errContained, errIllegalAddress, errLaunchTimeout,
		errContextDestroyed, errAssert, errTensorMemoryLeak, errExternalDevice, errUnknown, errDeinitialized, errDeviceUnavailable:
		return true
	}
	return r >= errHardwareStack && r <= lastKernelFault || r >= errMPSConnection && r <= errMPSClientTerminated
}

// notCapturable reports whether this driver cannot capture the work into a graph.
func (r Result) notCapturable() bool {
	return r == errNotSupported || r == errLibrary || r >= errCaptureUnsupported && r <= errCaptureWrongThread
}

// describeResult formats a result with the driver's name and text, such as "CUDA error 700
// (CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access was encountered)".
func (d *driver) describeResult(r Result) string {
	name, text := d.lookUp(d.ErrorName, r), d.lookUp(d.ErrorText, r)
	switch {
	case name == "" && text == "":
		return fmt.Sprintf("CUDA error %d", r)
	case text == "" || text == name:
		return fmt.Sprintf("CUDA error %d (%s)", r, name)
	}
	return fmt.Sprintf("CUDA error %d (%s: %s)", r, name, text)
}

func (d *driver) lookUp(get func(Result, *unsafe.Pointer) Result, r Result) string {
	var p unsafe.Pointer
	if get == nil || get(r, &p) != success {
		return ""
	}
	return cString(p)
}

// cString copies a C string of at most 512 bytes.
func cString(p unsafe.Pointer) string {
	if p == nil {
		return ""
	}
	var s []byte
	for i := range 512 {
		c := *(*byte)(unsafe.Add(p, i))
		if c == 0 {
			break
		}
		s = append(s, c)
	}
	return string(s)
}
