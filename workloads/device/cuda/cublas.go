package cuda

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"unsafe"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/dynlib"
	"github.com/gpuprof/gpuprof/workloads/device"
)

// gemmSig is the signature of the matrix products in vendor libraries: a [n, K], b [K, N], out [n, N], K, N, scale;
// out = scale a b, row-major. out is float32; a and b are float32, or 16 bits wide for bf16 and fp16.
const gemmSig = "bbbiif"

// Constants of cublas_api.h and library_types.h.
const (
	real32F, real16F, real16BF = 0, 2, 14    // CUDA_R_...
	compute32F, computeTF32    = 68, 77      // CUBLAS_COMPUTE_32F, _32F_FAST_TF32
	gemmDefault                = ^uintptr(0) // CUBLAS_GEMM_DEFAULT, -1
	defaultMath                = 0           // CUBLAS_DEFAULT_MATH: TF32 only if the compute type requests it
)

// gemmKinds maps values of Kernel.Lib to the type of a and b and the compute type. All sum in float32.
var gemmKinds = map[string]struct{ input, compute int }{
	"gemm_fp32": {real32F, compute32F},
	"gemm_tf32": {real32F, computeTF32},
	"gemm_bf16": {real16BF, compute32F},
	"gemm_fp16": {real16F, compute32F},
}

// blas is cuBLAS on one device; err is set if it cannot be used.
type blas struct {
	dev  *Device
	path string
	err  error

	create       func(h *uintptr) int32
	destroy      func(h uintptr) int32
	setStream    func(h uintptr, s streamHandle) int32
	setMath      func(h uintptr, mode int32) int32
	setWorkspace func(h uintptr, p devicePtr, n uintptr) int32
	version      func(h uintptr, v *int32) int32
	statusName   func(status int32) string // nil before 11.4
	gemmEx       uintptr

	// handles has one handle per stream, each with its own workspace, since products on two streams may run at once.
	handles map[streamHandle]blasHandle
}

// blasHandle is a cuBLAS handle with its workspace and the function that frees the workspace.
type blasHandle struct {
	h    uintptr
	work devicePtr
	free func() error
}

// statusError turns a status into an error: a lost device's own error, ErrMemory if memory ran out, or ErrDevice.
func (b *blas) statusError(doing string, status int32) error {
	if err := b.dev.checkWorking(doing); err != nil {
		return err
	}
	name := ""
	if b.statusName != nil {
		name = " (" + b.statusName(status) + ")"
	}
	kind := gpuprof.ErrDevice
	if status == blasAllocFailed {
		kind = gpuprof.ErrMemory
	}
	return blasAdvice[status].newError(kind, fmt.Sprintf("%s: cuBLAS status %d%s", doing, status, name))
}

// needBlas loads cuBLAS once and keeps the outcome.
func (d *Device) needBlas() error {
	if d.blas != nil {
		return d.blas.err
	}
	b := &blas{dev: d, handles: make(map[streamHandle]blasHandle)}
	d.blas = b
	var names []string
	for major := 13; major >= 11; major-- {
		if major <= d.driverMajor() { // a newer library would not start
			names = append(names, fileName("cublas", major))
		}
	}
	b.err = useVendor("cuBLAS", names, b.startLibrary)
	if d.lost != nil {
		b.err = d.reportLost()
	}
	return b.err
}

// startLibrary resolves the functions and makes a first handle, to prove that they work.
func (b *blas) startLibrary(lib uintptr, path string) error {
	if err := bindSymbols(lib, path, []symbol{
		{"cublasCreate_v2", &b.create, false},
		{"cublasDestroy_v2", &b.destroy, false},
		{"cublasSetStream_v2", &b.setStream, false},
		{"cublasSetMathMode", &b.setMath, false},
		{"cublasSetWorkspace_v2", &b.setWorkspace, false},
		{"cublasGetVersion_v2", &b.version, false},
		{"cublasGetStatusName", &b.statusName, true},
		{"cublasGemmEx", &b.gemmEx, false},
	}); err != nil {
		return err
	}
	h, err := b.handleFor(b.dev.own)
	if err != nil {
		return fmt.Errorf("%s does not start: %w", path, err)
	}
	var v int32
	if b.version(h, &v) == 0 {
		b.dev.addLibrary("cublas", fmt.Sprintf("%d.%d.%d", v/10000, v/100%100, v%100))
	}
	b.path = path
	b.dev.closers = append(b.dev.closers, b.close)
	return nil
}

// workspaceBytes returns the size of a cuBLAS workspace that NVIDIA recommends: 32 MiB since Hopper, 4 MiB before.
func (d *Device) workspaceBytes() uintptr {
	if d.drv.readAttribute(attrMajor, d.is.handle) >= 9 {
		return 32 << 20
	}
	return 4 << 20
}

// handleFor returns the stream's cuBLAS handle, making it at the first use.
func (b *blas) handleFor(s streamHandle) (uintptr, error) {
	if h, ok := b.handles[s]; ok {
		return h.h, nil
	}
	var h uintptr
	if status := b.create(&h); status != 0 {
		return 0, b.statusError("making a handle", status)
	}
	// No workload runs products on the device's own stream, so Memory does not count the workspace of that stream.
	allocate := b.dev.libraryMemory
	if s == b.dev.own {
		allocate = b.dev.allocateScratch
	}
	size := b.dev.workspaceBytes()
	work, free, err := allocate(size, "allocating cuBLAS's workspace")
	if err != nil {
		b.destroy(h)
		return 0, err
	}
	// Set the stream first, because that resets the workspace.
	for _, step := range []func() int32{
		func() int32 { return b.setStream(h, s) },
		func() int32 { return b.setMath(h, defaultMath) },
		func() int32 { return b.setWorkspace(h, work, size) },
	} {
		if status := step(); status != 0 {
			err = b.statusError("preparing a handle", status)
			b.destroy(h)
			return 0, errors.Join(err, free())
		}
	}
	b.handles[s] = blasHandle{h, work, free}
	return h, nil
}

// shareWorkspace makes products on the device's own stream use the workspace of stream s. A graph is captured on the
// own stream but runs on s, so it needs only the workspace of s. shareWorkspace of the own stream undoes this.
func (b *blas) shareWorkspace(s streamHandle) error {
	own, err := b.handleFor(b.dev.own)
	if err != nil {
		return err
	}
	if _, err = b.handleFor(s); err != nil {
		return err
	}
	if status := b.setWorkspace(own, b.handles[s].work, b.dev.workspaceBytes()); status != 0 {
		return b.statusError("setting the workspace of a graph", status)
	}
	return nil
}

// releaseStream destroys the handle of a stream that is being closed. No graph uses its workspace any more, since
// graphs with calls of the library run only on the stream for which they were captured.
func (b *blas) releaseStream(s streamHandle) error {
	if b == nil {
		return nil
	}
	h, ok := b.handles[s]
	if !ok {
		return nil
	}
	delete(b.handles, s)
	status := b.destroy(h.h)
	err := h.free()
	if status != 0 && b.dev.lost == nil {
		err = errors.Join(b.statusError("destroying a handle", status), err)
	}
	return err
}

func (b *blas) close() error {
	var first error
	for s := range b.handles {
		if err := b.releaseStream(s); first == nil {
			first = err
		}
	}
	return first
}

// gemm is the library routine of one kind of product. cuBLAS reads its scale factors during the call.
type gemm struct {
	b              *blas
	name           string
	input, compute int
	bytes          int // per element of a and b
	factors        *[2]float32
	args           *[19]uintptr // of the current call; kept here so that a call allocates nothing
}

func (g *gemm) libraryName() string { return "cublas " + g.b.dev.libraries["cublas"] }
func (g *gemm) prepareCapture(s streamHandle, _ int, _ *device.Args) error {
	return g.b.shareWorkspace(s)
}
func (g *gemm) endCapture() error { return g.b.shareWorkspace(g.b.dev.own) }

func (d *Device) libRoutine(k *device.Kernel) (libRoutine, error) {
	if strings.HasPrefix(k.Lib, convPrefix) {
		return d.newConvolution(k)
	}
	kind, ok := gemmKinds[k.Lib]
	if !ok {
		return nil, gpuprof.Errorf(gpuprof.ErrUsage, "no library routine is called %q", k.Lib).WithFix("use gemm_fp32, gemm_tf32, gemm_bf16 or gemm_fp16")
	}
	if k.Sig != gemmSig {
		return nil, gpuprof.Errorf(gpuprof.ErrUsage, "library routine %s has signature %q, not %q", k.Lib, gemmSig, k.Sig)
	}
	if err := d.needBlas(); err != nil {
		return nil, err
	}
	g := &gemm{b: d.blas, name: k.Lib, input: kind.input, compute: kind.compute, bytes: 4, factors: new([2]float32), args: new([19]uintptr)}
	if kind.input != real32F {
		g.bytes = 2
	}
	return g, nil
}

// enqueue computes n rows. It computes the transpose, out' = b' a', because to cuBLAS, which is column-major, a
// row-major matrix is its transpose.
func (g *gemm) enqueue(s streamHandle, n int, a *device.Args) Result {
	return g.b.dev.callVendor(func() error { return g.multiply(s, n, a) })
}

func (g *gemm) multiply(s streamHandle, n int, a *device.Args) error {
	h, err := g.b.handleFor(s)
	if err != nil {
		return err
	}
	inner, width := a.Int(3), a.Int(4)
	if err := g.checkSizes(n, inner, width, a); err != nil {
		return err
	}
	g.factors[0], g.factors[1] = a.F32(5), 0
	*g.args = [...]uintptr{h, 0, 0, uintptr(width), uintptr(n), uintptr(inner),
		uintptr(unsafe.Pointer(&g.factors[0])), uintptr(a[1].Bits), uintptr(g.input), uintptr(width),
		uintptr(a[0].Bits), uintptr(g.input), uintptr(inner),
		uintptr(unsafe.Pointer(&g.factors[1])), uintptr(a[2].Bits), real32F, uintptr(width), uintptr(g.compute), gemmDefault}
	status := dynlib.Call(g.b.gemmEx, g.args[:])
	runtime.KeepAlive(g.factors)
	if int32(uint32(status)) != 0 {
		return g.b.statusError(g.name, int32(uint32(status)))
	}
	return nil
}

// checkSizes returns an error if a buffer is smaller than its matrix: the library would silently exceed it.
func (g *gemm) checkSizes(n, inner, width int, a *device.Args) error {
	if inner < 1 || width < 1 {
		return gpuprof.Errorf(gpuprof.ErrDevice, "%s of %d x %d by %d x %d", g.name, n, inner, inner, width).WithFix("give sides of 1 or more")
	}
	for i, need := range [3]int{n * inner * g.bytes, inner * width * g.bytes, n * width * 4} {
		if b := a[i].Buf; b != nil && b.Len() < need {
			return gpuprof.Errorf(gpuprof.ErrDevice, "%s of %d x %d by %d x %d: argument %d has %d bytes and needs %d",
				g.name, n, inner, inner, width, i, b.Len(), need).WithFix("allocate it for the product")
		}
	}
	return nil
}
