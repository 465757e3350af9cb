//go:build linux

package sim_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/ebitengine/purego"

	"github.com/gpuprof/gpuprof/internal/testkit/sim"
)

func TestModules(t *testing.T) {
	good := ptx("sim_axpy", 8, 8, 4, 4)
	cases := []struct {
		name, config, source string
		code                 int
		log                  string
	}{
		{"good", "", good, 0, ""},
		{"no version", "", ".target sm_75\n", 218, "line 1; fatal   : Missing .version"},
		{"not PTX", "", "hello", 218, "Parsing error near 'hello'"},
		{"cut short", "", good[:len(good)-3], 218, "Parsing error near '<end of file>'"},
		{"unknown instruction", "", strings.Replace(good, "\tret;", "\tretreat;", 1), 218, "line 12; fatal   : Parsing error near 'retreat'"},
		{"no semicolon", "", strings.Replace(good, "\tret;", "\tret", 1), 218, "syntax error"},
		{"too few parameters", "", ptx("sim_axpy", 8, 8, 4), 218, "takes 3 parameters in PTX, 4 in"},
		{"wrong width", "", ptx("sim_axpy", 8, 8, 8, 4), 218, "parameter 2 is 8 bytes in PTX, 4 in"},
		{"too new for the driver", "driver=11000", strings.Replace(good, "6.3", "7.1", 1), 222, "Unsupported .version 7.1; current version is '7.0'"},
		{"just right for the driver", "driver=11000", strings.Replace(good, "6.3", "7.0", 1), 0, ""},
		{"too new for the device", "cc=7.0", good, 209, "sm_75"},
		{"told to fail", "jit_error=out of registers", good, 218, "out of registers"},
		{"machine code", "", "\x7fELF", 209, ""},
	}
	for _, k := range cases {
		c := start(t, k.config)
		_, code, log := c.load(k.source)
		if code != k.code || !strings.Contains(log, k.log) || (k.log == "") != (log == "") {
			t.Errorf("%s: %d, log %q; want %d, %q", k.name, code, log, k.code, k.log)
		}
	}
}

func TestFunctions(t *testing.T) {
	c := start(t, "")
	m, code, log := c.load(ptx("sim_no_such_kernel", 8))
	if code != 0 {
		t.Fatal(code, log)
	}
	name := text("sim_axpy")
	c.want(500, "cuModuleGetFunction", at(out()), m, addr(name))
	c.clean()
	name = text("sim_no_such_kernel")
	c.want(500, "cuModuleGetFunction", at(out()), m, addr(name))
	c.found(c.report().Violations, "add GPUPROF_KERNEL(sim_no_such_kernel)")
	c.ok("cuModuleUnload", m)
	f, v, p := c.function("sim_block_sum"), out(), uint64(c.alloc(8))
	c.ok("cuFuncGetAttribute", at(v), 8, f)
	if *v != 48<<10 {
		t.Errorf("dynamic shared memory is limited to %d", *v)
	}
	s := grid(1, 32)
	s.shared = 100 << 10
	if code := c.launch(0, f, s, p, p, 0); code != 1 {
		t.Errorf("100 KiB of shared memory: %d, want 1", code)
	}
	c.ok("cuFuncSetAttribute", f, 8, 100<<10)
	if code := c.launch(0, f, s, p, p, 0); code != 0 {
		t.Errorf("100 KiB of shared memory, allowed: %d", code)
	}
	for _, bad := range []shape{grid(0, 32), grid(1, 0), grid(1, 1025), {gx: 1, gy: 70000, bx: 1, by: 1}} {
		if code := c.launch(0, f, bad, p, p, 0); code != 1 {
			t.Errorf("%+v: %d, want 1", bad, code)
		}
	}
}

// Each way a kernel dies: the wait reports it, everything after it too, and
// releasing the context still finds every buffer freed.
func TestSickKernels(t *testing.T) {
	cases := []struct {
		name, config, kernel string
		args                 func(c *cu, p uintptr) []uint64
		shape                shape
		code                 int
		fault                string
	}{
		{"trap", "", "sim_trap", func(*cu, uintptr) []uint64 { return []uint64{77} }, grid(2, 64), 719, "trap in thread (13,0,0) of block (1,0,0)"},
		{"null", "", "sim_poke", func(*cu, uintptr) []uint64 { return []uint64{0, 0} }, grid(1, 1), 700, "invalid access to (nil)"},
		{"far beyond", "", "sim_poke", func(_ *cu, p uintptr) []uint64 { return []uint64{uint64(p), 1 << 20} }, grid(1, 1), 700, "invalid access"},
		{"just beyond 256 bytes", "", "sim_poke", func(_ *cu, p uintptr) []uint64 { return []uint64{uint64(p), 64} }, grid(1, 1), 700, "invalid access"},
		{"hang", "", "sim_hang", func(_ *cu, p uintptr) []uint64 { return []uint64{uint64(p)} }, grid(1, 32), 702, "32 of 32 threads"},
		{"division", "", "sim_divide", func(_ *cu, p uintptr) []uint64 { return []uint64{uint64(p), 0} }, grid(1, 1), 719, "integer division by zero"},
		{"spin for ever", "watchdog_ms=20", "sim_wait", func(c *cu, p uintptr) []uint64 {
			flags := view[int32](c.pinned(8), 2)
			clear(flags)
			return []uint64{uint64(addr(flags)), uint64(p)}
		}, grid(1, 1), 702, "spins on a flag"},
		{"told to fail", "launch_fail=1", "sim_axpy", func(_ *cu, p uintptr) []uint64 { return []uint64{uint64(p), uint64(p), 0, 0} }, grid(1, 1), 719, "injected"},
		{"ECC", "launch_fail=1:214", "sim_axpy", func(_ *cu, p uintptr) []uint64 { return []uint64{uint64(p), uint64(p), 0, 0} }, grid(1, 1), 214, "injected"},
	}
	for _, k := range cases {
		if asan() && (k.code == 700 || k.name == "division") {
			continue // AddressSanitizer ends the process at those, which is its job
		}
		c := start(t, k.config)
		p := c.alloc(256)
		if code := c.run(k.kernel, k.shape, k.args(c, p)...); code != k.code {
			t.Errorf("%s: the wait returns %d, want %d", k.name, code, k.code)
		}
		c.found(c.report().Faults, k.fault)
		c.want(k.code, "cuCtxSynchronize")
		c.want(k.code, "cuMemAlloc_v2", at(out()), 8)
		c.want(k.code, "cuMemFree_v2", p) // and yet it is freed
		if r := c.report(); r.DeviceBuffers != 0 {
			t.Errorf("%s: %d buffers after freeing", k.name, r.DeviceBuffers)
		}
		c.ok("cuDevicePrimaryCtxRelease_v2", 0)
		// A new context works again.
		c.retain(0)
		c.alloc(8)
	}
}

func TestInjectedFaults(t *testing.T) {
	c := start(t, "oom_at=3")
	c.alloc(8)
	c.pinned(8)
	c.want(2, "cuMemAlloc_v2", at(out()), 8)
	c.alloc(8)

	c = start(t, "fail=cuStreamSynchronize@2:999")
	s := c.stream()
	c.sync(s)
	c.want(999, "cuStreamSynchronize", s)
	c.sync(s)

	c = start(t, "")
	s = c.stream()
	sim.Set(t, c.lib, "lost=3:46")
	c.sync(s)
	p := c.alloc(8)
	c.want(46, "cuMemFree_v2", p)
	c.want(46, "cuStreamSynchronize", s)
	c.want(46, "cuMemFree_v2", p) // freed now
	c.want(46, "cuStreamDestroy_v2", s)
	c.release()

	c = start(t, "slow_copy_us=30000")
	p = c.alloc(8)
	begin := time.Now()
	get[byte](c, p, 8)
	if d := time.Since(begin); d < 30*time.Millisecond {
		t.Errorf("a slow copy took %v", d)
	}
}

// A kernel that waits for ever does not outlive its device.
func TestLostWhileSpinning(t *testing.T) {
	c := start(t, "")
	flags, o, s := c.pinned(8), put(c, []int32{0}), c.stream()
	clear(view[int32](flags, 2))
	c.launch(s, c.function("sim_wait"), grid(1, 1), uint64(flags), uint64(o))
	sim.Set(t, c.lib, "lost=1:999")
	c.want(999, "cuStreamSynchronize", s)
	c.want(999, "cuStreamSynchronize", s)
}

func TestMemoryMistakes(t *testing.T) {
	c := start(t, "memory=1M")
	c.want(2, "cuMemAlloc_v2", at(out()), 2<<20)
	c.want(1, "cuMemAlloc_v2", at(out()), 0)
	c.clean()
	s, p, q := c.stream(), c.alloc(1000), c.alloc(100)
	host := make([]byte, 2000)
	for _, k := range []struct {
		what string
		do   func() int
		code int
		says string
	}{
		{"copy too long", func() int { return c.call("cuMemcpyHtoDAsync_v2", p, addr(host), 1001, s) }, 1, "bytes 0 to 1001 of device buffer"},
		{"copy past the end", func() int { return c.call("cuMemcpyDtoDAsync_v2", p+950, q, 100, s) }, 1, "bytes 950 to 1050 of device buffer"},
		{"copy from nowhere", func() int { return c.call("cuMemcpyDtoDAsync_v2", p, 4096, 8, s) }, 1, "the source is 0x1000, which is no memory"},
		{"free the middle", func() int { return c.call("cuMemFree_v2", p+8) }, 1, "the middle of device buffer"},
		{"free pinned as device", func() int { return c.call("cuMemFree_v2", c.pinned(8)) }, 1, "cuMemFree of pinned buffer"},
		{"free", func() int { return c.call("cuMemFree_v2", q) }, 0, ""},
		{"free twice", func() int { return c.call("cuMemFree_v2", q) }, 1, "cuMemFree of freed device buffer"},
		{"fill freed", func() int { return c.call("cuMemsetD8Async", q, 0, 1, s) }, 1, "cuMemsetD8Async: the destination is freed device buffer"},
		{"a handle that is none", func() int { return c.call("cuStreamSynchronize", 4096) }, 400, "not a stream"},
		{"a destroyed stream", func() int {
			gone := c.stream()
			c.ok("cuStreamDestroy_v2", gone)
			return c.call("cuStreamQuery", gone)
		}, 400, "a destroyed stream"},
	} {
		before := c.report().ViolationCount
		if code := k.do(); code != k.code {
			t.Errorf("%s returns %d, want %d", k.what, code, k.code)
		}
		r := c.report()
		if k.says == "" {
			if r.ViolationCount != before {
				t.Errorf("%s: %q", k.what, r.Violations)
			}
			continue
		}
		c.found(r.Violations[before:], k.says)
	}
}

func TestKernelArguments(t *testing.T) {
	c := start(t, "")
	p := c.alloc(64)
	c.free(p)
	if code := c.run("sim_axpy", grid(1, 1), uint64(p), uint64(p), 0, 1); code != 700 {
		t.Errorf("freed memory as an argument: %d, want 700", code)
	}
	c.found(c.report().Violations, "kernel sim_axpy, argument 0 (a pointer) is freed device buffer")

	c = start(t, "")
	host := make([]float32, 16)
	p = c.alloc(64)
	if code := c.run("sim_axpy", grid(1, 1), uint64(p), uint64(addr(host)), 0, 1); code != 700 {
		t.Errorf("the program's memory as an argument: %d, want 700", code)
	}
	c.found(c.report().Violations, "argument 1 (a const pointer) is 0x")
}

func TestOverrun(t *testing.T) {
	if asan() {
		return // it ends the process there
	}
	c := start(t, "")
	p := c.alloc(100) // 25 floats; the next 39 lie before the guard page
	if code := c.run("sim_poke", grid(1, 1), uint64(p), 25); code != 0 {
		t.Fatal(code)
	}
	c.found(c.report().Violations, "kernel sim_poke or somebody before it wrote byte 100, past the end of device buffer")
}

func TestWarpMistakes(t *testing.T) {
	c := start(t, "")
	p := c.alloc(4 * 32)
	if code := c.run("sim_leave", grid(1, 32), uint64(p)); code != 0 {
		t.Fatal(code, c.report().Faults)
	}
	c.found(c.report().Violations, "kernel sim_leave: ")
	if n := c.report().ViolationCount; n == 0 || n > 8 {
		t.Errorf("%d violations", n)
	}
}

func TestRaces(t *testing.T) {
	const n = 32
	type step func(c *cu, a, b, f, x, y, z, e uintptr)
	axpy := func(c *cu, s, f, y, x uintptr) {
		if code := c.launch(s, f, grid(1, n), uint64(y), uint64(x), 0, n); code != 0 {
			c.t.Fatal(code)
		}
	}
	for _, k := range []struct {
		name string
		do   step
		says string
	}{
		{"write, read", func(c *cu, a, b, f, x, y, z, _ uintptr) {
			axpy(c, a, f, y, x)
			axpy(c, b, f, z, y)
		}, "sim_axpy in stream 3 reads device buffer 2 (128 bytes) while sim_axpy in stream 2 writes it"},
		{"two readers", func(c *cu, a, b, f, x, y, z, _ uintptr) {
			axpy(c, a, f, y, x)
			axpy(c, b, f, z, x)
		}, ""},
		{"ordered by an event", func(c *cu, a, b, f, x, y, z, e uintptr) {
			axpy(c, a, f, y, x)
			c.ok("cuEventRecord", e, a)
			c.ok("cuStreamWaitEvent", b, e, 0)
			axpy(c, b, f, z, y)
		}, ""},
		{"recorded too early", func(c *cu, a, b, f, x, y, z, e uintptr) {
			c.ok("cuEventRecord", e, a)
			axpy(c, a, f, y, x)
			c.ok("cuStreamWaitEvent", b, e, 0)
			axpy(c, b, f, z, y)
		}, "no event orders them"},
		{"ordered by the host", func(c *cu, a, b, f, x, y, z, _ uintptr) {
			axpy(c, a, f, y, x)
			c.sync(a)
			axpy(c, b, f, z, y)
		}, ""},
		{"the reader is overtaken", func(c *cu, a, b, f, x, y, z, e uintptr) {
			axpy(c, a, f, y, x)
			c.ok("cuMemcpyDtoDAsync_v2", x, z, 4*n, b)
		}, "cuMemcpyDtoDAsync in stream 3 writes device buffer 1 (128 bytes) while sim_axpy in stream 2 reads"},
		{"halves of a buffer", func(c *cu, a, b, _, x, y, _, _ uintptr) {
			c.ok("cuMemcpyDtoDAsync_v2", y, x, 2*n, a)
			c.ok("cuMemcpyDtoDAsync_v2", y+2*n, x, 2*n, b)
		}, ""},
		{"through a third stream", func(c *cu, a, b, f, x, y, z, e uintptr) {
			third, e2 := c.stream(), c.event()
			axpy(c, a, f, y, x)
			c.ok("cuEventRecord", e, a)
			c.ok("cuStreamWaitEvent", third, e, 0)
			c.ok("cuEventRecord", e2, third)
			c.ok("cuStreamWaitEvent", b, e2, 0)
			axpy(c, b, f, z, y)
		}, ""},
	} {
		c := start(t, "")
		zero := make([]float32, n)
		x, y, z := put(c, zero), put(c, zero), put(c, zero)
		a, b, e, f := c.stream(), c.stream(), c.event(), c.function("sim_axpy")
		k.do(c, a, b, f, x, y, z, e)
		c.ok("cuCtxSynchronize")
		r := c.report()
		if k.says == "" {
			for _, s := range append(r.Races, r.Violations...) {
				t.Errorf("%s: %s", k.name, s)
			}
			continue
		}
		if len(r.Races) != 1 {
			t.Errorf("%s: %q", k.name, r.Races)
		}
		c.found(r.Races, k.says)
	}
}

func TestWithoutASymbol(t *testing.T) {
	lib := sim.LibraryWithout(t, "cuMemPoolCreate", "cuDeviceGetUuid_v2")
	if lib == sim.Library(t) {
		t.Fatal("the same library")
	}
	for symbol, want := range map[string]bool{"cuMemPoolCreate": false, "cuDeviceGetUuid_v2": false, "cuMemAlloc_v2": true, "gpuprof_simulated": true} {
		if got := exports(t, lib, symbol); got != want {
			t.Errorf("%s is exported: %v, want %v", symbol, got, want)
		}
	}
}

// GPUPROF_SIM is how a program that a test starts is configured.
func TestEnvironment(t *testing.T) {
	const child = "GPUPROF_SIM_TEST_CHILD"
	if lib := os.Getenv(child); lib != "" {
		h, err := purego.Dlopen(lib, purego.RTLD_NOW|purego.RTLD_LOCAL)
		if err != nil {
			t.Fatal(err)
		}
		c, n := &cu{t: t, lib: lib, h: h, fn: make(map[string]uintptr)}, out()
		c.ok("cuInit", 0)
		c.ok("cuDeviceGetCount", at(n))
		if *n != 3 {
			t.Errorf("%d devices, want 3", *n)
		}
		return
	}
	for config, want := range map[string]string{"devices=3": "PASS", "devices=2": "2 devices, want 3", "devises=3": "cuInit returned 1"} {
		cmd := exec.Command(os.Args[0], "-test.run=^TestEnvironment$", "-test.v")
		cmd.Env = append(os.Environ(), child+"="+sim.Library(t), "GPUPROF_SIM="+config)
		text, _ := cmd.CombinedOutput() // two of the three fail, on purpose
		if !strings.Contains(string(text), want) {
			t.Errorf("%s: %s", config, text)
		}
	}
}

func TestConfigureRefusesWhatItDoesNotKnow(t *testing.T) {
	c := open(t, "")
	for _, s := range []string{"oom=3", "devices", "devices=many", "fail=cuInit", "fail=cuInit@0:3", "order=backwards", "cc=9"} {
		b := text(s)
		if c.call("gpuprof_sim_configure", addr(b)) != -1 {
			t.Errorf("%q is taken", s)
		}
	}
}
