//go:build linux

package sim_test

import (
	"fmt"
	"math"
	"os"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"github.com/ebitengine/purego"

	"github.com/gpuprof/gpuprof/internal/testkit/sim"
)

// cu drives the library by bare calls, as a C program would.
type cu struct {
	t   *testing.T
	lib string
	h   uintptr
	fn  map[string]uintptr
}

// start opens the library as configured, initialises it and makes the context
// of device 0 current on this thread.
func start(t *testing.T, config string) *cu {
	t.Helper()
	c := open(t, config)
	c.ok("cuInit", 0)
	c.retain(0)
	return c
}

func open(t *testing.T, config string) *cu {
	t.Helper()
	lib := sim.Library(t)
	sim.Configure(t, lib, config)
	runtime.LockOSThread()
	t.Cleanup(runtime.UnlockOSThread)
	h, err := purego.Dlopen(lib, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		t.Fatal(err)
	}
	return &cu{t: t, lib: lib, h: h, fn: make(map[string]uintptr)}
}

func (c *cu) call(name string, args ...uintptr) int {
	fn, ok := c.fn[name]
	if !ok {
		var err error
		if fn, err = purego.Dlsym(c.h, name); err != nil {
			c.t.Fatal(err)
		}
		c.fn[name] = fn
	}
	r, _, _ := purego.SyscallN(fn, args...)
	return int(int32(uint32(r)))
}

func (c *cu) ok(name string, args ...uintptr) {
	c.t.Helper()
	c.want(0, name, args...)
}

func (c *cu) want(code int, name string, args ...uintptr) {
	c.t.Helper()
	if got := c.call(name, args...); got != code {
		c.t.Fatalf("%s returned %d, want %d\n%s", name, got, code, strings.Join(c.report().Violations, "\n"))
	}
}

func (c *cu) report() sim.Report { return sim.GetReport(c.t, c.lib) }

// clean fails the test for everything the simulator found.
func (c *cu) clean() {
	c.t.Helper()
	r := c.report()
	for _, s := range append(r.Violations, r.Races...) {
		c.t.Error(s)
	}
}

// found fails the test unless one line of the list contains the words.
func (c *cu) found(list []string, words string) {
	c.t.Helper()
	for _, s := range list {
		if strings.Contains(s, words) {
			return
		}
	}
	c.t.Errorf("nothing says %q among %q", words, list)
}

// out is a word the library writes to: memory that C may hold on to for the call.
func out() *uint64 { return new(uint64) }

// addr is the address of a slice's first element, addrOf and at that of a
// value, for the call whose argument it is.
func addr[T any](s []T) uintptr { return addrOf(unsafe.SliceData(s)) }

func at(p *uint64) uintptr { return addrOf(p) }

func addrOf[T any](p *T) uintptr {
	onHeap = unsafe.Pointer(p)
	return uintptr(onHeap)
}

// onHeap keeps what the library writes to off the stack, which may move.
var onHeap unsafe.Pointer

func text(s string) []byte { return append([]byte(s), 0) }

func (c *cu) retain(device int) uintptr {
	c.t.Helper()
	p := out()
	c.ok("cuDevicePrimaryCtxRetain", at(p), uintptr(device))
	c.ok("cuCtxSetCurrent", uintptr(*p))
	return uintptr(*p)
}

func (c *cu) alloc(n int) uintptr {
	c.t.Helper()
	p := out()
	c.ok("cuMemAlloc_v2", at(p), uintptr(n))
	return uintptr(*p)
}

func (c *cu) pinned(n int) uintptr {
	c.t.Helper()
	p := out()
	c.ok("cuMemHostAlloc", at(p), uintptr(n), 0)
	return uintptr(*p)
}

func (c *cu) free(p ...uintptr) {
	c.t.Helper()
	for _, q := range p {
		c.ok("cuMemFree_v2", q)
	}
}

func (c *cu) stream() uintptr {
	c.t.Helper()
	p := out()
	c.ok("cuStreamCreateWithPriority", at(p), 1, 0)
	return uintptr(*p)
}

func (c *cu) event() uintptr {
	c.t.Helper()
	p := out()
	c.ok("cuEventCreate", at(p), 0)
	return uintptr(*p)
}

func (c *cu) sync(s uintptr) {
	c.t.Helper()
	c.ok("cuStreamSynchronize", s)
}

// release gives the context back and expects nothing to be left.
func (c *cu) release() {
	c.t.Helper()
	c.ok("cuDevicePrimaryCtxRelease_v2", 0)
	for _, p := range c.report().Problems() {
		c.t.Error(p)
	}
}

// ptx is a module of one entry with parameters of these widths in bytes.
func ptx(name string, widths ...int) string {
	var params []string
	for i, w := range widths {
		params = append(params, fmt.Sprintf("\t.param .u%d %s_param_%d", 8*w, name, i))
	}
	return fmt.Sprintf(".version 6.3\n.target sm_75\n.address_size 64\n\n.visible .entry %s(\n%s\n)\n{\n\tret;\n}\n", name, strings.Join(params, ",\n"))
}

// load returns the result and log of loading a module.
func (c *cu) load(source string) (module uintptr, code int, log string) {
	buf, image, p := make([]byte, 4096), text(source), out()
	options := [...]int32{5, 6}
	values := [...]uintptr{uintptr(unsafe.Pointer(&buf[0])), uintptr(len(buf))}
	var pin runtime.Pinner
	defer pin.Unpin()
	pin.Pin(&buf[0])
	code = c.call("cuModuleLoadDataEx", at(p), addr(image), 2, addr(options[:]), addr(values[:]))
	log, _, _ = strings.Cut(string(buf), "\x00")
	return uintptr(*p), code, log
}

// kernels are the parameter widths of selftest.cu.
var kernels = map[string][]int{
	"sim_axpy": {8, 8, 4, 4}, "sim_gemm": {8, 8, 8, 4}, "sim_block_sum": {8, 8, 4}, "sim_shuffles": {8},
	"sim_wait": {8, 8}, "sim_spin_inside": {8, 8}, "sim_spin_ns": {8, 4}, "sim_grid": {8, 8, 8},
	"sim_atomics": {8, 8, 8, 8, 8}, "sim_turns": {8, 8}, "sim_widths": {8, 8, 8, 4, 4, 4, 2},
	"sim_math": {8, 8, 4, 4}, "sim_math64": {8, 8, 4, 4}, "sim_convert": {8, 8, 8, 4, 4},
	"sim_trap": {4}, "sim_poke": {8, 8}, "sim_hang": {8}, "sim_divide": {8, 4}, "sim_leave": {8},
}

func (c *cu) function(name string) uintptr {
	c.t.Helper()
	m, code, log := c.load(ptx(name, kernels[name]...))
	if code != 0 {
		c.t.Fatalf("loading %s: %d: %s", name, code, log)
	}
	c.t.Cleanup(func() { c.call("cuModuleUnload", m) })
	p, s := out(), text(name)
	c.ok("cuModuleGetFunction", at(p), m, addr(s))
	return uintptr(*p)
}

type shape struct {
	gx, gy, bx, by, shared int
	cooperative            bool
}

func grid(blocks, threads int) shape { return shape{gx: blocks, gy: 1, bx: threads, by: 1} }

// launch passes each argument as a word, of which the kernel reads its width.
func (c *cu) launch(stream, f uintptr, s shape, args ...uint64) int {
	c.t.Helper()
	values := append(make([]uint64, 0, len(args)+1), args...)
	ptrs := make([]unsafe.Pointer, len(args)+1)
	for i := range values {
		ptrs[i] = unsafe.Pointer(&values[i])
	}
	var pin runtime.Pinner
	defer pin.Unpin()
	if len(values) > 0 {
		pin.Pin(&values[0])
	}
	name, words := "cuLaunchKernel", []uintptr{f, uintptr(s.gx), uintptr(s.gy), 1, uintptr(s.bx), uintptr(s.by), 1,
		uintptr(s.shared), stream, addr(ptrs)}
	if s.cooperative {
		name = "cuLaunchCooperativeKernel"
	} else {
		words = append(words, 0)
	}
	code := c.call(name, words...)
	runtime.KeepAlive(values)
	runtime.KeepAlive(ptrs)
	return code
}

// run launches on a new stream and waits; the result is the wait's.
func (c *cu) run(name string, s shape, args ...uint64) int {
	c.t.Helper()
	f, stream := c.function(name), c.stream()
	defer c.call("cuStreamDestroy_v2", stream)
	if code := c.launch(stream, f, s, args...); code != 0 {
		return code
	}
	return c.call("cuStreamSynchronize", stream)
}

func f32(v float32) uint64 { return uint64(math.Float32bits(v)) }

// put copies host data to new device memory, get back from it.
func put[T any](c *cu, data []T) uintptr {
	c.t.Helper()
	n := len(data) * int(unsafe.Sizeof(data[0]))
	p := c.alloc(n)
	c.ok("cuMemcpyHtoD_v2", p, addr(data), uintptr(n))
	return p
}

func get[T any](c *cu, p uintptr, n int) []T {
	c.t.Helper()
	data := make([]T, n)
	c.ok("cuMemcpyDtoH_v2", addr(data), p, uintptr(n)*unsafe.Sizeof(data[0]))
	return data
}

// view is pinned memory as the program sees it.
func view[T any](p uintptr, n int) []T {
	return unsafe.Slice((*T)(*(*unsafe.Pointer)(unsafe.Pointer(&p))), n)
}

// asan: the library is the AddressSanitizer build, which ends the process at
// an access that the plain one only reports.
func asan() bool { return os.Getenv("GPUPROF_SIM_ASAN") == "1" }

func exports(t *testing.T, lib, symbol string) bool {
	t.Helper()
	h, err := purego.Dlopen(lib, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		t.Fatal(err)
	}
	_, err = purego.Dlsym(h, symbol)
	return err == nil
}
