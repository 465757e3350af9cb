//go:build cgo && linux

package nvml

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/NVIDIA/go-nvml/pkg/dl"
	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gpuprof/gpuprof"
)

// Built says whether this binary can ask NVML at all.
const Built = true

// libraryPaths is where the library is looked for: by name first, which follows
// LD_LIBRARY_PATH and ld.so.cache, then where WSL, containers and NixOS put it
// without telling the loader.
func libraryPaths() []string {
	return []string{
		"libnvidia-ml.so.1",
		"/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1",
		"/usr/lib/aarch64-linux-gnu/libnvidia-ml.so.1",
		"/usr/lib64/libnvidia-ml.so.1",
		"/usr/lib/wsl/lib/libnvidia-ml.so.1",
		"/usr/local/nvidia/lib64/libnvidia-ml.so.1",
		"/run/opengl-driver/lib/libnvidia-ml.so.1",
	}
}

// openSystem loads the library at path, or the installed one, and starts it.
func openSystem(path string) (system, error) {
	paths := []string{path}
	if path == "" {
		paths = libraryPaths()
	}
	for _, p := range paths {
		err := load(p)
		if err == nil {
			return start(nvml.New(nvml.WithLibraryPath(p)))
		}
		if !missing(p, err) {
			return nil, gpuprof.Errorf(gpuprof.ErrDevice, "telemetry: loading %s: %w", p, err).WithFix("reinstall the NVIDIA driver")
		}
	}
	return nil, gpuprof.Errorf(gpuprof.ErrDevice,
		"telemetry: the driver's management library %s was not found", paths[0]).WithFix("install the NVIDIA driver, or start the container with --gpus all and NVIDIA_DRIVER_CAPABILITIES=compute,utility")
}

// load opens a library and sees that it can be started and stopped. The handle
// is kept for the life of the process: should a call ever slip past the gate,
// its function is still there.
func load(path string) error {
	lib := dl.New(path, dl.RTLD_LAZY|dl.RTLD_GLOBAL)
	if err := lib.Open(); err != nil {
		return err
	}
	has := func(name string) bool { return lib.Lookup(name) == nil }
	for _, names := range [][]string{{"nvmlInit_v2", "nvmlInit"}, {"nvmlShutdown"}} {
		if !slices.ContainsFunc(names, has) {
			_ = lib.Close() // it is refused either way
			return fmt.Errorf("it has no function %s", names[0])
		}
	}
	return nil
}

// missing tells, by the loader's words, a library that is not there from one
// that does not load: the latter's words name another file first.
func missing(path string, err error) bool {
	text := err.Error()
	return strings.HasPrefix(text, path+":") && strings.Contains(text, "No such file")
}

// start starts NVML. Nothing is called after a start that failed.
func start(lib nvml.Interface) (system, error) {
	if ret := lib.Init(); ret != nvml.SUCCESS {
		return nil, initFailure(ret)
	}
	return &bound{lib: lib}, nil
}

// initFailure says what usually causes a failed start, and what helps. It does
// not ask the library for its own words.
func initFailure(ret nvml.Return) error {
	says := func(cause, fix string) error {
		return gpuprof.Errorf(gpuprof.ErrDevice, "telemetry: starting NVML: %s", cause).WithFix("%s", fix)
	}
	switch ret {
	case nvml.ERROR_LIBRARY_NOT_FOUND:
		return says("the driver's management library was not found", "install the NVIDIA driver, or start the container with --gpus all")
	case nvml.ERROR_DRIVER_NOT_LOADED:
		return says("the NVIDIA kernel module is not loaded", "load it with nvidia-modprobe, or start the container with --gpus all")
	case nvml.ERROR_NO_PERMISSION:
		return says("this user has no permission", "check the permissions of /dev/nvidiactl and that the container or cgroup allows it")
	case nvml.ERROR_LIB_RM_VERSION_MISMATCH:
		return says("the library and the loaded kernel module have different versions", "reboot, or reload the nvidia kernel modules")
	case nvml.ERROR_GPU_IS_LOST:
		return says("a GPU has fallen off the bus", "look for Xid messages in dmesg and reset or replace it")
	case nvml.ERROR_INSUFFICIENT_POWER:
		return says("a GPU has no power from its external connector", "check the cables")
	case nvml.ERROR_IRQ_ISSUE:
		return says("the kernel has an interrupt problem with a GPU", "see dmesg")
	case nvml.ERROR_OPERATING_SYSTEM:
		return says("the operating system or the container blocks it", "check that /dev/nvidiactl exists and can be read and written")
	case nvml.ERROR_MEMORY:
		return says("out of memory", "free some")
	}
	return says(fmt.Sprintf("NVML error %d", int32(ret)), "check that nvidia-smi works for this user")
}

// bound is a started NVML whose functions are looked up before their first call.
type bound struct {
	lib nvml.Interface

	mu    sync.Mutex
	known map[string]bool
}

// has reports whether the library has one of the named functions. go-nvml takes
// the newest version it finds, so any of them will do.
func (b *bound) has(symbols ...string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range symbols {
		there, asked := b.known[s]
		if !asked {
			if b.known == nil {
				b.known = make(map[string]bool)
			}
			there = b.lib.Extensions().LookupSymbol(s) == nil
			b.known[s] = there
		}
		if there {
			return true
		}
	}
	return false
}

// answer turns a result into an error.
func answer(ret nvml.Return) error {
	switch ret {
	case nvml.SUCCESS:
		return nil
	case nvml.ERROR_NOT_SUPPORTED, nvml.ERROR_FUNCTION_NOT_FOUND, nvml.ERROR_ARGUMENT_VERSION_MISMATCH, nvml.ERROR_DEPRECATED:
		return errUnsupported
	case nvml.ERROR_NO_PERMISSION:
		return errForbidden
	case nvml.ERROR_GPU_IS_LOST:
		return errLost
	}
	return failure(ret)
}

// failure is any other result, by number: to word it would take another call.
type failure nvml.Return

func (f failure) Error() string { return fmt.Sprintf("NVML error %d", int32(f)) }

func (b *bound) driver() (string, error) {
	if !b.has("nvmlSystemGetDriverVersion") {
		return "", errUnsupported
	}
	v, ret := b.lib.SystemGetDriverVersion()
	return v, answer(ret)
}

func (b *bound) cuda() (string, error) {
	if !b.has("nvmlSystemGetCudaDriverVersion") {
		return "", errUnsupported
	}
	v, ret := b.lib.SystemGetCudaDriverVersion()
	return fmt.Sprintf("%d.%d", v/1000, v%1000/10), answer(ret)
}

func (b *bound) count() (int, error) {
	if !b.has("nvmlDeviceGetCount_v2", "nvmlDeviceGetCount") {
		return 0, errUnsupported
	}
	n, ret := b.lib.DeviceGetCount()
	return n, answer(ret)
}

func (b *bound) gpu(index int) (gpu, error) {
	if !b.has("nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetHandleByIndex") {
		return nil, errUnsupported
	}
	d, ret := b.lib.DeviceGetHandleByIndex(index)
	if err := answer(ret); err != nil {
		return nil, err
	}
	return &handle{b: b, d: d}, nil
}

func (b *bound) shutdown() error { return answer(b.lib.Shutdown()) }

// handle is a GPU or a MIG instance of a started NVML.
type handle struct {
	b *bound
	d nvml.Device

	mu     sync.Mutex // of values: several Devices may be one GPU
	values []nvml.FieldValue
}

func (h *handle) name() (string, error) {
	if !h.b.has("nvmlDeviceGetName") {
		return "", errUnsupported
	}
	s, ret := h.d.GetName()
	return s, answer(ret)
}

func (h *handle) uuid() (string, error) {
	if !h.b.has("nvmlDeviceGetUUID") {
		return "", errUnsupported
	}
	s, ret := h.d.GetUUID()
	return s, answer(ret)
}

func (h *handle) pci() (string, error) {
	if !h.b.has("nvmlDeviceGetPciInfo_v3", "nvmlDeviceGetPciInfo_v2", "nvmlDeviceGetPciInfo") {
		return "", errUnsupported
	}
	info, ret := h.d.GetPciInfo()
	if err := answer(ret); err != nil {
		return "", err
	}
	return fmt.Sprintf("%08x:%02x:%02x.0", info.Domain, info.Bus, info.Device), nil
}

// number asks for one quantity through the table.
func (h *handle) number(q quantity) (float64, error) {
	r := &readers[q]
	for i := range r.ways {
		w := &r.ways[i]
		if !h.b.has(w.symbols...) {
			continue
		}
		v, ret := w.read(h.d)
		if err := answer(ret); !errors.Is(err, errUnsupported) || i == len(r.ways)-1 {
			return v * r.unit, err
		}
	}
	return 0, errUnsupported
}

// fields asks for all of f in one call.
func (h *handle) fields(f []field) {
	if len(f) == 0 || !h.b.has("nvmlDeviceGetFieldValues") {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if cap(h.values) < len(f) {
		h.values = make([]nvml.FieldValue, len(f))
	}
	v := h.values[:len(f)]
	for i := range v {
		// A driver that fills only what it knows must not leave a success behind.
		v[i] = nvml.FieldValue{FieldId: f[i].id, NvmlReturn: uint32(nvml.ERROR_NOT_SUPPORTED)}
	}
	if h.d.GetFieldValues(v) != nvml.SUCCESS {
		return
	}
	for i := range v {
		if nvml.Return(v[i].NvmlReturn) == nvml.SUCCESS {
			f[i].value, f[i].ok = decode(v[i])
		}
	}
}

// decode reads a field's union by its type.
func decode(v nvml.FieldValue) (float64, bool) {
	bits := binary.NativeEndian.Uint64(v.Value[:])
	switch nvml.ValueType(v.ValueType) {
	case nvml.VALUE_TYPE_DOUBLE:
		return math.Float64frombits(bits), true
	case nvml.VALUE_TYPE_UNSIGNED_INT:
		return float64(binary.NativeEndian.Uint32(v.Value[:])), true
	case nvml.VALUE_TYPE_UNSIGNED_LONG, nvml.VALUE_TYPE_UNSIGNED_LONG_LONG: // long is 64 bits wide on every Linux with a driver
		return float64(bits), true
	case nvml.VALUE_TYPE_SIGNED_LONG_LONG:
		return float64(int64(bits)), true
	case nvml.VALUE_TYPE_SIGNED_INT:
		return float64(int32(binary.NativeEndian.Uint32(v.Value[:]))), true
	case nvml.VALUE_TYPE_UNSIGNED_SHORT:
		return float64(binary.NativeEndian.Uint16(v.Value[:])), true
	}
	return 0, false
}

// processes lists compute, MPS and graphics processes, each once.
func (h *handle) processes() ([]Process, error) {
	var out []Process
	last := errUnsupported
	for _, list := range []struct {
		kind    string
		symbols string
		get     func() ([]nvml.ProcessInfo, nvml.Return)
	}{
		{"compute", "nvmlDeviceGetComputeRunningProcesses", h.d.GetComputeRunningProcesses},
		{"mps", "nvmlDeviceGetMPSComputeRunningProcesses", h.d.GetMPSComputeRunningProcesses},
		{"graphics", "nvmlDeviceGetGraphicsRunningProcesses", h.d.GetGraphicsRunningProcesses},
	} {
		if !h.b.has(list.symbols+"_v3", list.symbols+"_v2", list.symbols) {
			continue
		}
		found, ret := list.get()
		if err := answer(ret); err != nil {
			if list.kind == "compute" {
				return nil, err // without this list there is no saying who else is there
			}
			continue
		}
		last = nil
		for _, p := range found {
			if !slices.ContainsFunc(out, func(q Process) bool { return q.PID == int(p.Pid) }) {
				out = append(out, Process{PID: int(p.Pid), Kind: list.kind, Memory: memoryOf(p.UsedGpuMemory)})
			}
		}
	}
	return out, last
}

// memoryOf is a process's memory; all ones are NVML's "not available".
func memoryOf(v uint64) gpuprof.Number {
	if v == math.MaxUint64 {
		return unknown
	}
	return gpuprof.Number(v)
}

func (h *handle) instances() ([]gpu, error) {
	if !h.b.has("nvmlDeviceGetMaxMigDeviceCount") || !h.b.has("nvmlDeviceGetMigDeviceHandleByIndex") {
		return nil, errUnsupported
	}
	n, ret := h.d.GetMaxMigDeviceCount()
	if err := answer(ret); err != nil {
		return nil, err
	}
	var out []gpu
	for i := range n {
		// Places without an instance say "not found"; the list has gaps.
		if d, ret := h.d.GetMigDeviceHandleByIndex(i); ret == nvml.SUCCESS {
			out = append(out, &handle{b: h.b, d: d})
		}
	}
	return out, nil
}

func (h *handle) place() (gi, ci int, err error) {
	if !h.b.has("nvmlDeviceGetGpuInstanceId") || !h.b.has("nvmlDeviceGetComputeInstanceId") {
		return 0, 0, errUnsupported
	}
	gi, ret := h.d.GetGpuInstanceId()
	if err := answer(ret); err != nil {
		return 0, 0, err
	}
	ci, ret = h.d.GetComputeInstanceId()
	return gi, ci, answer(ret)
}

func (h *handle) nearCPUs(cpus int) ([]uint, error) {
	if cpus < 1 || !h.b.has("nvmlDeviceGetCpuAffinity") {
		return nil, errUnsupported
	}
	set, ret := h.d.GetCpuAffinity(cpus)
	return set, answer(ret)
}
