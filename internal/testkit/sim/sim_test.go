//go:build linux

package sim_test

import (
	"math"
	"reflect"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

func TestDevice(t *testing.T) {
	c := open(t, "devices=2;driver=11040;cc=8.6;memory=1G;sms=3;attr.13=1000")
	v := out()
	c.want(3, "cuDeviceGetCount", at(v)) // before cuInit
	c.ok("cuInit", 0)
	for _, q := range []struct {
		name string
		args []uintptr
		want uint64
	}{
		{"cuDeviceGetCount", nil, 2},
		{"cuDriverGetVersion", nil, 11040},
		{"cuDeviceTotalMem_v2", []uintptr{1}, 1 << 30},
		{"cuDeviceGetAttribute", []uintptr{75, 0}, 8},
		{"cuDeviceGetAttribute", []uintptr{76, 0}, 6},
		{"cuDeviceGetAttribute", []uintptr{16, 0}, 3},
		{"cuDeviceGetAttribute", []uintptr{13, 0}, 1000},
		{"cuDeviceGetAttribute", []uintptr{10, 0}, 32},
	} {
		*v = 0
		c.ok(q.name, append([]uintptr{at(v)}, q.args...)...)
		if *v != q.want {
			t.Errorf("%s%v gives %d, want %d", q.name, q.args, *v, q.want)
		}
	}
	c.want(101, "cuDeviceGet", at(v), 2)
	name := make([]byte, 64)
	c.ok("cuDeviceGetName", addr(name), 64, 0)
	if s, _, _ := strings.Cut(string(name), "\x00"); s != "gpuprof simulated device" {
		t.Errorf("the device calls itself %q", s)
	}
	c.want(201, "cuMemAlloc_v2", at(v), 100) // no context yet
	first, second := c.retain(0), c.retain(1)
	if first == second {
		t.Error("two devices, one context")
	}
	c.ok("cuCtxSetCurrent", first)
	c.ok("cuDevicePrimaryCtxRelease_v2", 1)
	c.release()
	c.want(201, "cuMemAlloc_v2", at(v), 100) // the context is gone
}

func TestInit(t *testing.T) {
	for config, code := range map[string]int{"init=803": 803, "devices=0": 100, "": 0} {
		c := open(t, config)
		c.want(code, "cuInit", 0)
	}
}

func TestLaunchesRunInOrder(t *testing.T) {
	c := start(t, "")
	const n = 1000
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(i)
	}
	px, py, s := put(c, x), put(c, make([]float32, n)), c.stream()
	f := c.function("sim_axpy")
	for i := range 10 {
		if code := c.launch(s, f, grid(8, 128), uint64(py), uint64(px), f32(float32(i)), n); code != 0 {
			t.Fatal(code)
		}
	}
	c.sync(s)
	for i, v := range get[float32](c, py, n) {
		if v != 45*float32(i) {
			t.Fatalf("y[%d] = %g, want %d", i, v, 45*i)
		}
	}
	c.free(px, py)
	c.ok("cuStreamDestroy_v2", s)
	if r := c.report(); r.Launches != 10 || r.Ran != 10 || r.Copies != 3 {
		t.Errorf("counted %+v", r)
	}
	c.clean()
}

func TestBarriers(t *testing.T) {
	for _, order := range []string{"forward", "reverse", "shuffle:7"} {
		c := start(t, "order="+order)
		const n = 64
		a, b := make([]float32, n*n), make([]float32, n*n)
		for i := range a {
			a[i], b[i] = float32(i%13)-6, float32(i%7)-3
		}
		pa, pb, pc := put(c, a), put(c, b), put(c, make([]float32, n*n))
		if code := c.run("sim_gemm", shape{gx: n / 16, gy: n / 16, bx: 16, by: 16}, uint64(pc), uint64(pa), uint64(pb), n); code != 0 {
			t.Fatal(code, c.report().Faults)
		}
		got := get[float32](c, pc, n*n)
		for i := range n {
			for j := range n {
				var want float32
				for k := range n {
					want += a[i*n+k] * b[k*n+j]
				}
				if got[i*n+j] != want { // small integers: exact
					t.Fatalf("%s: c[%d,%d] = %g, want %g", order, i, j, got[i*n+j], want)
				}
			}
		}
		c.clean()
	}
}

// 65,536 threads with two barriers for each of 16 tiles.
func TestBarriersAreCheap(t *testing.T) {
	c := start(t, "")
	const n = 256
	pa, pb, pc := put(c, make([]float32, n*n)), put(c, make([]float32, n*n)), c.alloc(4*n*n)
	f, s := c.function("sim_gemm"), c.stream()
	best := time.Hour
	for range 5 {
		begin := processTime()
		c.launch(s, f, shape{gx: n / 16, gy: n / 16, bx: 16, by: 16}, uint64(pc), uint64(pa), uint64(pb), n)
		c.sync(s)
		best = min(best, processTime()-begin)
	}
	t.Logf("65,536 threads of a tiled product: %v of CPU time", best)
	// Two million switches; a system call for each would take seconds.
	if best > 2*time.Second {
		t.Errorf("65,536 threads of a tiled product took %v of CPU time", best)
	}
}

// processTime is what this process has had of the CPU: other programs take none of it.
func processTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func TestBlockSum(t *testing.T) {
	for _, threads := range []int{32, 96, 256, 1024} {
		c := start(t, "order=shuffle")
		const blocks, n = 5, 3000
		x := make([]float32, blocks*n)
		want := make([]float64, blocks)
		for i := range x {
			x[i] = float32(math.Sin(float64(i)))
			want[i/n] += float64(x[i])
		}
		px, po := put(c, x), c.alloc(8*blocks)
		s := grid(blocks, threads)
		s.shared = 8 * 32
		if code := c.run("sim_block_sum", s, uint64(po), uint64(px), n); code != 0 {
			t.Fatal(code, c.report().Faults)
		}
		for b, v := range get[float64](c, po, blocks) {
			if math.Abs(v-want[b]) > 1e-11 {
				t.Errorf("%d threads: block %d sums to %g, want %g", threads, b, v, want[b])
			}
		}
		c.clean()
	}
}

// The rows follow the definition of shfl.sync in the PTX manual.
func TestShuffles(t *testing.T) {
	c := start(t, "order=shuffle:3")
	const rows = 11
	p := c.alloc(4 * 32 * rows)
	if code := c.run("sim_shuffles", grid(1, 32), uint64(p)); code != 0 {
		t.Fatal(code, c.report().Faults)
	}
	within := func(l, first, last, from int) int {
		if from < first || from > last {
			return l
		}
		return from
	}
	var ballot uint32
	for l := 0; l < 32; l += 3 {
		ballot |= 1 << l
	}
	want := [rows]func(l int) int{
		func(int) int { return 5 },
		func(l int) int { return l&^7 + 3 },
		func(l int) int { return within(l, 0, 31, l+7) },
		func(l int) int { return within(l, l&^7, l|7, l+3) },
		func(l int) int { return within(l, 0, 31, l-2) },
		func(l int) int { return within(l, l&^3, l|3, l-3) },
		func(l int) int { return l ^ 9 },
		func(l int) int { return l ^ 1 },
		func(int) int { return int(int32(ballot)) },
		func(int) int { return 2 },
		func(l int) int {
			if l < 16 {
				return l ^ 7
			}
			return l ^ 1
		},
	}
	got := get[int32](c, p, 32*rows)
	for r, f := range want {
		for l := range 32 {
			if int(got[r*32+l]) != f(l) {
				t.Errorf("row %d, lane %d: %d, want %d", r, l, got[r*32+l], f(l))
			}
		}
	}
	c.clean()
}

func TestTwoStreamsAndTheHost(t *testing.T) {
	c := start(t, "")
	flags := view[int32](c.pinned(16), 4)
	clear(flags)
	pf := addr(flags)
	a, b, one, two := c.stream(), c.stream(), put(c, []int32{0}), put(c, []int32{0})
	f := c.function("sim_wait")
	c.launch(a, f, grid(1, 1), uint64(pf), uint64(one))
	c.launch(b, f, grid(1, 1), uint64(pf+8), uint64(two))
	wait := func(i int) {
		for range 240_000 {
			if atomic.LoadInt32(&flags[i]) != 0 {
				return
			}
			time.Sleep(time.Millisecond)
		}
		t.Fatalf("flag %d was never raised", i)
	}
	wait(0)
	wait(2) // both run at once
	c.want(600, "cuStreamQuery", a)
	atomic.StoreInt32(&flags[3], 1)
	c.sync(b)
	c.want(600, "cuStreamQuery", a)
	atomic.StoreInt32(&flags[1], 1)
	c.sync(a)
	c.ok("cuStreamQuery", a)
	if x, y := get[int32](c, one, 1)[0], get[int32](c, two, 1)[0]; x != 1 || y != 1 {
		t.Errorf("counts %d and %d, want 1 and 1", x, y)
	}
	c.clean()
}

func TestSpinInsideABlock(t *testing.T) {
	c := start(t, "")
	flag, o := put(c, []int32{0}), put(c, []int32{0})
	if code := c.run("sim_spin_inside", grid(1, 64), uint64(flag), uint64(o)); code != 0 {
		t.Fatal(code, c.report().Faults)
	}
	if v := get[int32](c, o, 1)[0]; v != 7 {
		t.Errorf("got %d, want 7", v)
	}
}

func TestEvents(t *testing.T) {
	c := start(t, "")
	s, from, to, never := c.stream(), c.event(), c.event(), c.event()
	flags := view[int32](c.pinned(8), 2)
	clear(flags)
	o := put(c, []int32{0})
	ns := c.alloc(8)
	wait, spin := c.function("sim_wait"), c.function("sim_spin_ns")
	c.ok("cuEventQuery", never) // never recorded counts as done
	c.ok("cuEventRecord", from, s)
	c.launch(s, spin, grid(1, 1), uint64(ns), 2_000_000)
	c.launch(s, wait, grid(1, 1), uint64(addr(flags)), uint64(o))
	c.ok("cuEventRecord", to, s)
	ms := new(float32)
	c.want(600, "cuEventQuery", to)
	c.want(600, "cuEventElapsedTime", addrOf(ms), from, to)
	atomic.StoreInt32(&flags[1], 1)
	c.ok("cuEventSynchronize", to)
	c.ok("cuEventElapsedTime", addrOf(ms), from, to)
	if *ms < 2 || *ms > 5000 {
		t.Errorf("a spin of 2 ms took %g ms", *ms)
	}
	c.want(400, "cuEventElapsedTime", addrOf(ms), from, never)
	c.clean()
	c.ok("cuEventDestroy_v2", to)
	c.want(400, "cuEventQuery", to)
	c.found(c.report().Violations, "cuEventQuery: a destroyed event")
}

func TestCooperative(t *testing.T) {
	c := start(t, "sms=4")
	const blocks = 8
	o, sum, state := c.alloc(4*blocks), put(c, []int32{0}), put(c, []uint32{0})
	s := grid(blocks, 64)
	s.cooperative = true
	for round := int32(1); round <= 3; round++ {
		if code := c.run("sim_grid", s, uint64(o), uint64(sum), uint64(state)); code != 0 {
			t.Fatal(code, c.report().Faults)
		}
		for b, v := range get[int32](c, o, blocks) {
			if v != round*36 {
				t.Errorf("round %d: block %d read %d, want %d", round, b, v, round*36)
			}
		}
	}
	s.gx = 4*32 + 1
	if code := c.run("sim_grid", s, uint64(o), uint64(sum), uint64(state)); code != 720 {
		t.Errorf("%d blocks at once return %d, want 720", s.gx, code)
	}
	c.clean()
}

func TestAtomicsAndWidths(t *testing.T) {
	c := start(t, "")
	zero := make([]byte, 8)
	f, d, i, u, h := put(c, zero), put(c, zero), put(c, zero), put(c, zero), put(c, zero)
	if code := c.run("sim_atomics", grid(10, 100), uint64(f), uint64(d), uint64(i), uint64(u), uint64(h)); code != 0 {
		t.Fatal(code)
	}
	got := []float64{float64(get[float32](c, f, 1)[0]), get[float64](c, d, 1)[0], float64(get[int32](c, i, 1)[0]),
		float64(get[uint64](c, u, 1)[0]), float64(get[int32](c, h, 1)[0])}
	if want := []float64{1000, 500, 2000, 3000, 999}; !reflect.DeepEqual(got, want) {
		t.Errorf("atomics give %v, want %v", got, want)
	}
	neg := int64(-1 << 40)
	if code := c.run("sim_widths", grid(1, 1), uint64(d), math.Float64bits(0.25), uint64(neg), 4_000_000_000, f32(0.5), uint64(uint32(0xffffffff)), 65535); code != 0 {
		t.Fatal(code)
	}
	if v, want := get[float64](c, d, 1)[0], 0.25-float64(1<<40)+4e9+0.5-1+65535; v != want {
		t.Errorf("parameters sum to %v, want %v", v, want)
	}
}

func TestThreadOrder(t *testing.T) {
	const n = 100
	for _, order := range []string{"forward", "reverse", "shuffle:1", "shuffle:2"} {
		c := start(t, "order="+order)
		o, count := c.alloc(4*n), put(c, []int32{0})
		c.run("sim_turns", grid(1, n), uint64(o), uint64(count))
		turns := get[int32](c, o, n)
		seen := make([]bool, n)
		for _, v := range turns {
			seen[v] = true
		}
		for v, ok := range seen {
			if !ok {
				t.Fatalf("%s: nobody had turn %d", order, v)
			}
		}
		if (order == "forward") != (turns[0] == 0 && turns[1] == 1) || (order == "reverse") != (turns[0] == n-1 && turns[1] == n-2) {
			t.Errorf("%s: turns begin %v", order, turns[:8])
		}
	}
}

func TestGraph(t *testing.T) {
	c := start(t, "")
	const n = 64
	x := make([]float32, n)
	for i := range x {
		x[i] = 1
	}
	px, py, pz := put(c, x), put(c, make([]float32, n)), put(c, make([]float32, n))
	a, b, fork, join, inside := c.stream(), c.stream(), c.event(), c.event(), c.event()
	f := c.function("sim_axpy")
	c.ok("cuStreamBeginCapture_v2", a, 1)
	c.launch(a, f, grid(1, n), uint64(py), uint64(px), f32(2), n)
	c.ok("cuEventRecord", fork, a)
	c.ok("cuStreamWaitEvent", b, fork, 0)
	c.launch(b, f, grid(1, n), uint64(pz), uint64(py), f32(1), n) // z += y
	c.ok("cuEventRecord", join, b)
	c.ok("cuStreamWaitEvent", a, join, 0)
	c.ok("cuMemcpyDtoDAsync_v2", px, pz, 4, a)
	c.ok("cuEventRecordWithFlags", inside, a, 1)
	status := out()
	c.ok("cuStreamIsCapturing", b, at(status))
	g, exec := out(), out()
	c.ok("cuStreamEndCapture", a, at(g))
	if uint32(*status) != 1 {
		t.Errorf("the forked stream's status is %d, want 1", uint32(*status))
	}
	if y := get[float32](c, py, n); y[0] != 0 {
		t.Error("capturing ran the kernel")
	}
	nodes := out()
	c.ok("cuGraphGetNodes", uintptr(*g), 0, at(nodes))
	if *nodes != 4 {
		t.Errorf("%d nodes, want 4", *nodes)
	}
	c.ok("cuGraphInstantiateWithFlags", at(exec), uintptr(*g), 0)
	c.ok("cuGraphDestroy", uintptr(*g))
	for range 2 {
		c.ok("cuGraphLaunch", uintptr(*exec), b)
	}
	c.sync(b)
	c.ok("cuEventQuery", inside)
	// y = 2, z = 2, x[0] = 2; then y[0] = 6, z[0] = 8, y[1] = 4, z[1] = 6.
	y, z := get[float32](c, py, n), get[float32](c, pz, n)
	if y[0] != 6 || z[0] != 8 || y[1] != 4 || z[1] != 6 {
		t.Errorf("two launches give y %v, z %v", y[:2], z[:2])
	}
	c.ok("cuGraphExecDestroy", uintptr(*exec))
	c.want(400, "cuGraphLaunch", uintptr(*exec), b)
	c.found(c.report().Violations, "a destroyed executable graph")
}

func TestCaptureMisuse(t *testing.T) {
	c := start(t, "")
	s, other, e, g := c.stream(), c.stream(), c.event(), out()
	p := c.alloc(64)
	c.ok("cuStreamBeginCapture_v2", s, 1)
	c.want(900, "cuStreamSynchronize", s)
	c.want(901, "cuStreamEndCapture", s, at(g))
	c.ok("cuStreamBeginCapture_v2", s, 1)
	c.want(900, "cuMemAlloc_v2", at(out()), 64)
	c.want(901, "cuStreamEndCapture", s, at(g))
	c.ok("cuStreamBeginCapture_v2", s, 1)
	c.ok("cuEventRecord", e, s)
	c.ok("cuStreamWaitEvent", other, e, 0)
	c.ok("cuMemsetD32Async", p, 0, 4, other)
	c.want(907, "cuEventQuery", e)
	c.want(901, "cuStreamEndCapture", s, at(g))
	c.ok("cuStreamBeginCapture_v2", s, 1)
	c.ok("cuEventRecord", e, s)
	c.ok("cuStreamWaitEvent", other, e, 0)
	c.ok("cuMemsetD32Async", p, 0, 4, other)
	c.want(904, "cuStreamEndCapture", s, at(g)) // the other stream never came back
	c.ok("cuMemsetD32Async", p, 0, 4, s)
	c.ok("cuMemsetD32Async", p+16, 0, 4, other)
	c.ok("cuCtxSynchronize")
	c.clean()
}

func TestPools(t *testing.T) {
	c := start(t, "memory=1M")
	props := make([]uint64, 11)
	props[0], props[1] = 1, 1 // pinned type, no handles; location: device 0
	pool, p, v, s := out(), out(), out(), c.stream()
	c.ok("cuMemPoolCreate", at(pool), addr(props))
	get := func(attr uintptr) uint64 {
		c.ok("cuMemPoolGetAttribute", uintptr(*pool), attr, at(v))
		return *v
	}
	*v = 600 << 10
	c.ok("cuMemPoolSetAttribute", uintptr(*pool), 4, at(v))
	c.ok("cuMemAllocFromPoolAsync", at(p), 500<<10, uintptr(*pool), s)
	c.ok("cuMemsetD8Async", uintptr(*p), 1, 500<<10, s)
	c.want(2, "cuMemAllocFromPoolAsync", at(out()), 600<<10, uintptr(*pool), s)
	c.ok("cuMemFreeAsync", uintptr(*p), s)
	c.sync(s)
	if got := []uint64{get(5), get(6), get(7), get(8)}; !reflect.DeepEqual(got, []uint64{500 << 10, 500 << 10, 0, 500 << 10}) {
		t.Errorf("reserved, high, used, high are %v", got)
	}
	c.ok("cuMemPoolTrimTo", uintptr(*pool), 0)
	if r := get(5); r != 0 {
		t.Errorf("%d bytes reserved after trimming", r)
	}
	c.clean()
	c.want(1, "cuMemsetD8Async", uintptr(*p), 1, 1, s)
	c.found(c.report().Violations, "freed pool buffer")
	c.ok("cuMemPoolDestroy", uintptr(*pool))
	c.ok("cuStreamDestroy_v2", s)
}

func TestProcAddress(t *testing.T) {
	c := open(t, "missing=cuMemPoolCreate")
	for name, want := range map[string]int{"cuMemAlloc": 0, "cuLaunchKernel": 0, "cuMemPoolCreate": 500, "cuNothing": 500} {
		p, s := out(), text(name)
		if code := c.call("cuGetProcAddress_v2", addr(s), at(p), 12000, 0, 0); code != want || (*p != 0) != (want == 0) {
			t.Errorf("%s: %d, address %#x", name, code, *p)
		}
	}
}
