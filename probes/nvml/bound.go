package nvml

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strconv"
	"sync"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/dynlib"
)

const libraryName = "libnvidia-ml.so.1"

// openSystem loads and starts the library at path, or the installed library if path is "".
func openSystem(path string) (system, error) {
	if why := checkSupported(); why != nil {
		return nil, why
	}
	paths := []string{path}
	if path == "" {
		paths = dynlib.Places(libraryName)
	}
	t, err := load(paths)
	switch {
	case errors.Is(err, dynlib.ErrAbsent):
		return nil, gpuprof.Errorf(gpuprof.ErrDevice,
			"the driver's management library %s was not found", paths[0]).WithFix("install the NVIDIA driver (under WSL, on Windows), or start the container with --gpus all and NVIDIA_DRIVER_CAPABILITIES=compute,utility")
	case err != nil:
		return nil, gpuprof.Errorf(gpuprof.ErrDevice, "loading the driver's management library: %w", err).WithFix("reinstall the NVIDIA driver")
	}
	return startNVML(t)
}

// checkSupported returns why this build cannot use NVML, or nil. The layouts of NVML's structs here hold for 64-bit
// Linux only.
func checkSupported() error {
	switch {
	case runtime.GOOS != "linux":
		return gpuprof.Errorf(gpuprof.ErrDevice, "this build of gpuprof reads NVML on Linux only").WithFix("use it there, or go without")
	case dynlib.Unable != "":
		return gpuprof.Errorf(gpuprof.ErrDevice, "%s", dynlib.Unable).WithFix("install the build that is not static to read the GPU's clocks, power and throttling")
	case strconv.IntSize != 64:
		return gpuprof.Errorf(gpuprof.ErrDevice, "this build of gpuprof reads NVML on 64-bit systems only").WithFix("use a 64-bit build, or go without")
	}
	return nil
}

// startNVML starts NVML. If that fails, no other function may be called.
func startNVML(t *table) (system, error) {
	if r := t.Init(); r != success {
		return nil, initFailure(r)
	}
	return &bound{t}, nil
}

// initFailure describes a failed start, with the usual cause and the fix. It calls no function of the library, which is
// not started.
func initFailure(r result) error {
	says := func(cause, fix string) error {
		return gpuprof.Errorf(gpuprof.ErrDevice, "starting NVML: %s", cause).WithFix("%s", fix)
	}
	switch r {
	case errorLibraryNotFound:
		return says("the driver's management library was not found", "install the NVIDIA driver, or start the container with --gpus all")
	case errorDriverNotLoaded:
		return says("the NVIDIA kernel module is not loaded", "load it with nvidia-modprobe, or start the container with --gpus all")
	case errorNoPermission:
		return says("this user has no permission", "check the permissions of /dev/nvidiactl and that the container or cgroup allows it")
	case errorVersionMismatch:
		return says("the library and the loaded kernel module have different versions", "reboot, or reload the nvidia kernel modules")
	case errorGPUIsLost:
		return says("a GPU has fallen off the bus", "look for Xid messages in dmesg and reset or replace it")
	case errorInsufficientPower:
		return says("a GPU has no power from its external connector", "check the cables")
	case errorIRQIssue:
		return says("the kernel has an interrupt problem with a GPU", "see dmesg")
	case errorOperatingSystem:
		return says("the operating system or the container blocks it", "check that /dev/nvidiactl exists and can be read and written")
	case errorMemory:
		return says("out of memory", "free some")
	}
	return says(fmt.Sprintf("NVML error %d", int32(r)), "check that nvidia-smi works for this user")
}

func resultError(r result) error {
	switch r {
	case success:
		return nil
	case errorNotSupported, errorFunctionNotFound, errorArgumentMismatch, errorDeprecated:
		return errUnsupported
	case errorNoPermission:
		return errForbidden
	case errorGPUIsLost:
		return errLost
	case errorResetRequired:
		return errReset
	}
	return failure(r)
}

// failure is a result without an error variable. The text is from nvml.h, since the library's would need another call.
type failure result

func (f failure) Error() string {
	text := fmt.Sprintf("NVML error %d", int32(f))
	words := map[result]string{
		errorInsufficientPower: "the GPU's external power cables are not attached properly", errorTimeout: "the GPU did not answer in time",
		errorIRQIssue: "the kernel has an interrupt problem with the GPU", errorUnknown: "unknown error of the driver",
	}[result(f)]
	if words == "" {
		return text
	}
	return words + " (" + text + ")"
}

// showsFault reports whether the result indicates a fault of the GPU if no other query succeeds.
func (f failure) showsFault() bool {
	switch result(f) {
	case errorInsufficientPower, errorTimeout, errorIRQIssue, errorUnknown:
		return true
	}
	return false
}

// bound is a started NVML. Every call checks for a function that the library lacks, which is nil.
type bound struct{ t *table }

func readText(n int, f func(s *byte, n uint32) result) (string, error) {
	buf := make([]byte, n)
	err := resultError(f(&buf[0], uint32(n)))
	s, _, _ := bytes.Cut(buf, []byte{0})
	return string(s), err
}

func (b *bound) driverVersion() (string, error) {
	if b.t.DriverVersion == nil {
		return "", errUnsupported
	}
	return readText(versionBytes, b.t.DriverVersion)
}

func (b *bound) cudaVersion() (string, error) {
	if b.t.CUDAVersion == nil {
		return "", errUnsupported
	}
	var v int32
	r := b.t.CUDAVersion(&v)
	return fmt.Sprintf("%d.%d", v/1000, v%1000/10), resultError(r)
}

func (b *bound) deviceCount() (int, error) {
	if b.t.Count == nil {
		return 0, errUnsupported
	}
	var n uint32
	r := b.t.Count(&n)
	return int(n), resultError(r)
}

func (b *bound) openGPU(index int) (gpu, error) {
	if b.t.ByIndex == nil {
		return nil, errUnsupported
	}
	h := &handle{t: b.t}
	if err := resultError(b.t.ByIndex(uint32(index), &h.d)); err != nil {
		return nil, err
	}
	return h, nil
}

func (b *bound) shutdown() error { return resultError(b.t.Shutdown()) }

// handle is a GPU or a MIG instance of a started NVML.
type handle struct {
	t *table
	d ref

	mu     sync.Mutex // of values: several Devices may share the GPU
	values []fieldValue
}

func (h *handle) name() (string, error) { return h.readText(h.t.Name) }
func (h *handle) uuid() (string, error) { return h.readText(h.t.UUID) }

func (h *handle) readText(get func(d ref, s *byte, n uint32) result) (string, error) {
	if get == nil {
		return "", errUnsupported
	}
	return readText(nameBytes, func(s *byte, n uint32) result { return get(h.d, s, n) })
}

func (h *handle) pci() (string, error) {
	if h.t.PCI == nil {
		return "", errUnsupported
	}
	// Older versions write the same numbers to the same offsets.
	info := new(pciInfo)
	if err := resultError(h.t.PCI(h.d, info)); err != nil {
		return "", err
	}
	if info.domain == 0 && info.bus == 0 && info.device == 0 {
		return "", errUnsupported // the host bridge's address: the GPU has no PCI address (Jetson)
	}
	return fmt.Sprintf("%08x:%02x:%02x.0", info.domain, info.bus, info.device), nil
}

func (h *handle) readNumber(q quantity) (float64, error) {
	r := &readers[q]
	for _, way := range r.ways {
		v, ret := way(h.t, h.d)
		if err := resultError(ret); !errors.Is(err, errUnsupported) {
			return v * r.unit, err
		}
	}
	return 0, errUnsupported
}

// readFields queries all fields in one call.
func (h *handle) readFields(f []field) {
	refuse := func(err error) {
		for i := range f {
			f[i].err = err
		}
	}
	if len(f) == 0 || h.t.Fields == nil {
		refuse(errUnsupported)
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if cap(h.values) < len(f) {
		h.values = make([]fieldValue, len(f))
	}
	v := h.values[:len(f)]
	for i := range v {
		// A driver may set only the fields that it supports. Fields that it does not set must not look successful.
		v[i] = fieldValue{id: f[i].id, result: uint32(errorNotSupported)}
	}
	if err := resultError(h.t.Fields(h.d, int32(len(v)), &v[0])); err != nil {
		refuse(err)
		return
	}
	for i := range v {
		if f[i].err = resultError(result(v[i].result)); f[i].err != nil {
			continue
		}
		if f[i].value, f[i].ok = decodeField(&v[i]); !f[i].ok {
			f[i].err = errUnsupported
		}
	}
}

// decodeField decodes the union of a field value by its type.
func decodeField(v *fieldValue) (float64, bool) {
	bits := binary.NativeEndian.Uint64(v.value[:])
	switch v.valueType {
	case typeDouble:
		return math.Float64frombits(bits), true
	case typeUint:
		return float64(binary.NativeEndian.Uint32(v.value[:])), true
	case typeUlong, typeUllong: // long has 64 bits on all Linux systems with a driver
		return float64(bits), true
	case typeLlong:
		return float64(int64(bits)), true
	case typeInt:
		return float64(int32(binary.NativeEndian.Uint32(v.value[:]))), true
	case typeUshort:
		return float64(binary.NativeEndian.Uint16(v.value[:])), true
	}
	return 0, false
}

// mostProcesses limits the length of the list of processes, in case the library never accepts a length.
const mostProcesses = 1 << 16

// growList calls get with longer lists until the result fits.
func growList[T any](d ref, get func(d ref, n *uint32, list *T) result) ([]T, result) {
	for size := uint32(8); ; size *= 2 {
		out, n := make([]T, size), new(uint32)
		*n = size
		r := get(d, n, &out[0])
		switch {
		case r == success:
			return out[:min(*n, size)], r
		case r != errorInsufficientSize || size >= mostProcesses:
			return nil, r
		}
	}
}

// listOf lists processes by the newest version of a function that the library has.
func (h *handle) listOf(get func(ref, *uint32, *processInfo) result, v1 func(ref, *uint32, *processInfoV1) result) ([]processInfo, result) {
	switch {
	case get != nil:
		return growList(h.d, get)
	case v1 != nil:
		old, r := growList(h.d, v1)
		var out []processInfo
		for _, p := range old {
			out = append(out, processInfo{pid: p.pid, usedMemory: p.usedMemory})
		}
		return out, r
	}
	return nil, errorFunctionNotFound
}

// listProcesses returns the compute, MPS and graphics processes, each once.
func (h *handle) listProcesses() ([]Process, error) {
	var out []Process
	last := errUnsupported
	for _, from := range []struct {
		kind string
		get  func(ref, *uint32, *processInfo) result
		v1   func(ref, *uint32, *processInfoV1) result
	}{
		{"compute", h.t.Compute, h.t.ComputeV1},
		{"mps", h.t.MPS, h.t.MPSV1},
		{"graphics", h.t.Graphics, h.t.GraphicsV1},
	} {
		if from.get == nil && from.v1 == nil {
			continue
		}
		found, r := h.listOf(from.get, from.v1)
		if err := resultError(r); err != nil {
			if from.kind == "compute" {
				return nil, err // the compute list is required to find other programs
			}
			continue
		}
		last = nil
		for _, p := range found {
			if !slices.ContainsFunc(out, func(q Process) bool { return q.PID == int(p.pid) }) {
				out = append(out, Process{PID: int(p.pid), Kind: from.kind, Memory: memoryOf(p.usedMemory)})
			}
		}
	}
	return out, last
}

// memoryOf returns a process's memory, bytes; all ones is NVML's value for unknown.
func memoryOf(v uint64) gpuprof.Number {
	if v == math.MaxUint64 {
		return unknown
	}
	return gpuprof.Number(v)
}

func (h *handle) listInstances() ([]gpu, error) {
	if h.t.MIGCount == nil || h.t.MIGByIndex == nil {
		return nil, errUnsupported
	}
	var n uint32
	if err := resultError(h.t.MIGCount(h.d, &n)); err != nil {
		return nil, err
	}
	var out []gpu
	for i := range n {
		// Indices have gaps; one without an instance gives "not found".
		part := &handle{t: h.t}
		err := resultError(h.t.MIGByIndex(h.d, i, &part.d))
		switch {
		case err == nil:
			out = append(out, part)
		case errors.Is(err, errLost) || errors.Is(err, errReset):
			return nil, err
		}
	}
	return out, nil
}

func (h *handle) instanceIDs() (gi, ci int, err error) {
	if h.t.GPUInstance == nil || h.t.ComputeInstance == nil {
		return 0, 0, errUnsupported
	}
	var g, c uint32
	if err := resultError(h.t.GPUInstance(h.d, &g)); err != nil {
		return 0, 0, err
	}
	r := h.t.ComputeInstance(h.d, &c)
	return int(g), int(c), resultError(r)
}

func (h *handle) nearCPUs(cpus int) ([]uint, error) {
	if cpus < 1 || h.t.CPUAffinity == nil {
		return nil, errUnsupported
	}
	// The mask is longer than the number of CPUs, because offline CPUs leave gaps.
	set := make([]uint, (cpus-1)/8+1)
	return set, resultError(h.t.CPUAffinity(h.d, uint32(len(set)), &set[0]))
}
