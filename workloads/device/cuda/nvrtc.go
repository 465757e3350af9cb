package cuda

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/atomicfile"
	"github.com/gpuprof/gpuprof/internal/outside"
	"github.com/gpuprof/gpuprof/workloads/device"
)

// dialect has the headers of gpuprof's CUDA dialect, for NVRTC.
//
//go:embed include/device.cuh include/device_nvrtc.cuh include/device_convert.cuh include/device_math.cuh
var dialect embed.FS

// dialectFolder is the path by which workload sources include the dialect's headers.
const dialectFolder = "../../workloads/device/cuda/include/"

// nvrtc is NVIDIA's run-time compiler for CUDA C++ (nvrtc.h); err is set if it cannot be used.
type nvrtc struct {
	path, version string
	err           error

	create      func(program *uintptr, text, name *byte, n int32, headers, names **byte) int32
	destroy     func(program *uintptr) int32
	compile     func(program uintptr, n int32, options **byte) int32
	versionOf   func(major, minor *int32) int32
	errorString func(status int32) string
	logSize     func(program uintptr, n *uintptr) int32
	log         func(program uintptr, to *byte) int32
	ptxSize     func(program uintptr, n *uintptr) int32
	ptx         func(program uintptr, to *byte) int32
	codeSize    func(program uintptr, n *uintptr) int32 // nil before 11.1
	code        func(program uintptr, to *byte) int32
	archs       func(to *int32) int32 // nil before 11.1
	archCount   func(n *int32) int32
}

// needNVRTC loads the compiler once. It skips compilers newer than the driver, which would refuse their code.
func (d *Device) needNVRTC() (*nvrtc, error) {
	if d.nvrtc != nil {
		return d.nvrtc, d.nvrtc.err
	}
	c := new(nvrtc)
	d.nvrtc = c
	var names []string
	for major := 13; major >= 11; major-- {
		if major <= d.driverMajor() {
			names = append(names, nvrtcFile(major, runtime.GOOS))
		}
	}
	if c.err = useVendor("NVRTC", names, c.startLibrary); c.err == nil {
		d.addLibrary("nvrtc", c.version)
	}
	return c, c.err
}

// nvrtcFile returns the library's file name. The library of CUDA 11.2 serves all later 11.x.
func nvrtcFile(major int, system string) string {
	minor := 0
	if major == 11 {
		minor = 2
	}
	switch {
	case system == "windows":
		return fmt.Sprintf("nvrtc64_%d%d_0.dll", major, minor)
	case minor > 0:
		return fmt.Sprintf("libnvrtc.so.%d.%d", major, minor)
	default:
		return fmt.Sprintf("libnvrtc.so.%d", major)
	}
}

func (c *nvrtc) startLibrary(lib uintptr, path string) error {
	if err := bindSymbols(lib, path, []symbol{
		{"nvrtcCreateProgram", &c.create, false}, {"nvrtcDestroyProgram", &c.destroy, false}, {"nvrtcCompileProgram", &c.compile, false},
		{"nvrtcVersion", &c.versionOf, false}, {"nvrtcGetErrorString", &c.errorString, false},
		{"nvrtcGetProgramLogSize", &c.logSize, false}, {"nvrtcGetProgramLog", &c.log, false},
		{"nvrtcGetPTXSize", &c.ptxSize, false}, {"nvrtcGetPTX", &c.ptx, false},
		{"nvrtcGetCUBINSize", &c.codeSize, true}, {"nvrtcGetCUBIN", &c.code, true},
		{"nvrtcGetSupportedArchs", &c.archs, true}, {"nvrtcGetNumSupportedArchs", &c.archCount, true},
	}); err != nil {
		return err
	}
	var major, minor int32
	if r := c.versionOf(&major, &minor); r != 0 {
		return fmt.Errorf("%s does not say its version: %s", path, c.errorString(r))
	}
	c.path, c.version = path, fmt.Sprintf("%d.%d", major, minor)
	return nil
}

// Compiler implements device.KernelCompiler.
func (d *Device) Compiler() (string, error) {
	c, err := d.needNVRTC()
	if err != nil {
		return "", err
	}
	return "NVRTC " + c.version, nil
}

// Compile implements device.KernelCompiler. It caches results in a folder on disk, by a hash of all inputs. Its time
// counts in LoadTime.
func (d *Device) Compile(src device.CUDASource) (string, error) {
	const doing = "compiling a kernel at run time"
	c, err := d.needNVRTC()
	if err != nil {
		return "", err
	}
	begin := time.Now()
	defer func() { d.loading += time.Since(begin) }()
	headers, err := addDialect(src.Headers)
	if err != nil {
		return "", gpuprof.Errorf(gpuprof.ErrDevice, "%s: %w", doing, err)
	}
	arch, ownCode := c.chooseTarget(d.is.Arch)
	kept := keptFiles{}
	if !d.is.Simulated { // code from a simulated compiler is useless on a GPU
		kept = keptCode(c.version, arch, src.Text, headers)
	}
	ptx, code, found := kept.read()
	if !found {
		if ptx, code, err = c.compileSource(src.Text, headers, arch, ownCode); err != nil {
			return "", gpuprof.Errorf(gpuprof.ErrDevice, "%s: %w", doing, err)
		}
		kept.write(ptx, code)
	}
	if d.compiled == nil {
		d.compiled = map[string][]byte{}
	}
	d.compiled[ptx] = code
	return ptx, nil
}

func addDialect(own map[string]string) (map[string]string, error) {
	all := maps.Clone(own)
	if all == nil {
		all = map[string]string{}
	}
	list, err := dialect.ReadDir("include")
	if err != nil {
		return nil, err
	}
	for _, e := range list {
		text, err := dialect.ReadFile("include/" + e.Name())
		if err != nil {
			return nil, err
		}
		all[e.Name()] = string(text)
	}
	all[dialectFolder+"device.cuh"] = all["device.cuh"]
	return all, nil
}

// chooseTarget returns the compilation target, and whether the compiler makes machine code for it. The target is the
// device's own architecture if the compiler supports it, otherwise PTX of the newest supported one below.
func (c *nvrtc) chooseTarget(arch string) (string, bool) {
	own, err := strconv.Atoi(strings.TrimPrefix(arch, "sm_"))
	if err != nil || c.archs == nil || c.archCount == nil || c.codeSize == nil {
		return "compute_75", false
	}
	var n int32
	if c.archCount(&n) != 0 || n < 1 {
		return "compute_75", false
	}
	list := make([]int32, n)
	if c.archs(&list[0]) != 0 {
		return "compute_75", false
	}
	best := 0
	for _, a := range list {
		if int(a) <= own {
			best = max(best, int(a))
		}
	}
	if best == own {
		return arch, true
	}
	return fmt.Sprintf("compute_%d", max(best, 75)), false
}

// compileSource compiles a source. The error has the first error line of the compiler's log.
func (c *nvrtc) compileSource(text string, headers map[string]string, arch string, ownCode bool) (ptx string, code []byte, err error) {
	var pin runtime.Pinner
	defer pin.Unpin()
	list := func(texts []string) **byte {
		all := make([]*byte, len(texts))
		for i, t := range texts {
			all[i] = nulText(t)
			pin.Pin(all[i])
		}
		return &all[0]
	}
	names := slices.Sorted(maps.Keys(headers))
	texts := make([]string, len(names))
	for i, n := range names {
		texts[i] = headers[n]
	}
	var program uintptr
	if r := c.create(&program, nulText(text), nulText("gpuprof.cu"), int32(len(names)), list(texts), list(names)); r != 0 {
		return "", nil, fmt.Errorf("NVRTC %s: %s", c.version, c.errorString(r))
	}
	defer c.destroy(&program)
	options := []string{"--gpu-architecture=" + arch, "--std=c++17"}
	if r := c.compile(program, int32(len(options)), list(options)); r != 0 {
		log, _ := c.fetchText(program, c.logSize, c.log)
		return "", nil, fmt.Errorf("NVRTC %s for %s: %s: %s", c.version, arch, c.errorString(r), firstComplaint(log))
	}
	if ptx, err = c.fetchText(program, c.ptxSize, c.ptx); err != nil {
		return "", nil, err
	}
	if ownCode {
		machine, err := c.fetchBytes(program, c.codeSize, c.code)
		if err != nil {
			return "", nil, err
		}
		code = machine
	}
	return ptx, code, nil
}

func nulText(s string) *byte { return &append([]byte(s), 0)[0] }

func (c *nvrtc) fetchBytes(program uintptr, size func(uintptr, *uintptr) int32, get func(uintptr, *byte) int32) ([]byte, error) {
	var n uintptr
	if r := size(program, &n); r != 0 {
		return nil, fmt.Errorf("NVRTC %s: %s", c.version, c.errorString(r))
	}
	out := make([]byte, n+1)
	if r := get(program, &out[0]); r != 0 {
		return nil, fmt.Errorf("NVRTC %s: %s", c.version, c.errorString(r))
	}
	return out[:n], nil
}

func (c *nvrtc) fetchText(program uintptr, size func(uintptr, *uintptr) int32, get func(uintptr, *byte) int32) (string, error) {
	b, err := c.fetchBytes(program, size, get)
	text, _, _ := strings.Cut(string(b), "\x00")
	return text, err
}

func firstComplaint(log string) string {
	for line := range strings.Lines(log) {
		if strings.Contains(line, "error") {
			return strings.TrimSpace(line)
		}
	}
	return strings.TrimSpace(log)
}

// keptFiles holds the paths of a cached kernel; they are empty without a cache folder.
type keptFiles struct{ ptx, code string }

func keptCode(version, arch, text string, headers map[string]string) keptFiles {
	dir, err := os.UserCacheDir()
	if err != nil {
		return keptFiles{}
	}
	h := sha256.New()
	for _, part := range []string{version, arch, text} {
		fmt.Fprintf(h, "%d\n%s", len(part), part)
	}
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		fmt.Fprintf(h, "%s\n%d\n%s", name, len(headers[name]), headers[name])
	}
	at := filepath.Join(dir, "gpuprof", "kernels", hex.EncodeToString(h.Sum(nil))[:32])
	return keptFiles{at + ".ptx", at + ".cubin"}
}

// read returns the cached kernel. The PTX is written last, so its presence means that both files are complete.
func (k keptFiles) read() (ptx string, code []byte, found bool) {
	text, err := outside.ReadFound(k.ptx)
	if err != nil {
		return "", nil, false
	}
	code, err = outside.ReadFound(k.code)
	return string(text), code, err == nil
}

// write caches a kernel. If the folder is not writable, the next process compiles again.
func (k keptFiles) write(ptx string, code []byte) {
	if k.ptx == "" || os.MkdirAll(filepath.Dir(k.ptx), 0o700) != nil {
		return
	}
	for _, f := range []struct {
		path    string
		content []byte
	}{{k.code, code}, {k.ptx, []byte(ptx)}} {
		if (atomicfile.Options{}).Write(f.path, f.content) != nil {
			return
		}
	}
}
