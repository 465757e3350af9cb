package cuda

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/testkit/sim"
	"github.com/gpuprof/gpuprof/workloads/device"
)

// kernelOf is one of devicetest.cu's kernels.
func kernelOf(name, sig string) *device.Kernel {
	k := &device.Kernel{Name: name, Sig: sig}
	twin(k)
	return k
}

func stream(t testing.TB, d *Device, name string) *Stream {
	t.Helper()
	return must(d.NewStream(name))(t).(*Stream)
}

// read is a device buffer's content.
func read(t testing.TB, s device.Stream, d *Device, b device.Buffer) []int32 {
	t.Helper()
	down := must(d.Alloc(b.Len(), device.Pinned))(t)
	ok(t, s.Copy(down, 0, b, 0, b.Len()))
	ok(t, s.Sync())
	out := slices.Clone(device.Ints(down))
	ok(t, down.Free())
	return out
}

func TestLoadRefusals(t *testing.T) {
	d := openWith(t, "cc=7.5", Options{})
	ptx := func(sig string) string { return strings.Replace(devicetestPTX, ".target sm_75", ".target "+sig, 1) }
	for name, c := range map[string]struct {
		k    device.Kernel
		kind error
		says []string
	}{
		"host only":      {device.Kernel{Name: "rope", Host: func(*device.Args, int, int) {}}, gpuprof.ErrDevice, []string{"kernel rope", "neither PTX nor a library routine"}},
		"entry":          {device.Kernel{Name: "fill", Sig: "bi", PTX: devicetestPTX, Threads: 1, PerBlock: 1}, gpuprof.ErrDevice, []string{"no entry fill", "devicetest_fill"}},
		"no entries":     {device.Kernel{Name: "fill", Sig: "bi", PTX: ".version 6.3", Threads: 1, PerBlock: 1}, gpuprof.ErrDevice, []string{"has no entry;"}},
		"name":           {device.Kernel{Name: "fill it", Sig: "bi", PTX: devicetestPTX, Threads: 1, PerBlock: 1}, gpuprof.ErrUsage, []string{"fill it", "set Entry"}},
		"one too few":    {device.Kernel{Name: "f", Entry: "devicetest_fill", Sig: "b", PTX: devicetestPTX, Threads: 1, PerBlock: 1}, gpuprof.ErrDevice, []string{"3 parameters", "needs 2"}},
		"wrong type":     {device.Kernel{Name: "f", Entry: "devicetest_mix", Sig: "bbff", PTX: devicetestPTX, Threads: 1, PerBlock: 1}, gpuprof.ErrDevice, []string{"parameter 2", "float32"}},
		"wrong width":    {device.Kernel{Name: "f", Entry: "devicetest_fill", Sig: "ii", PTX: devicetestPTX, Threads: 1, PerBlock: 1}, gpuprof.ErrDevice, []string{"parameter 0", "32-bit integer"}},
		"no threads":     {device.Kernel{Name: "f", Entry: "devicetest_fill", Sig: "bi", PTX: devicetestPTX, PerBlock: 1}, gpuprof.ErrUsage, []string{"0 threads"}},
		"threads":        {device.Kernel{Name: "f", Entry: "devicetest_fill", Sig: "bi", PTX: devicetestPTX, Threads: 1025, PerBlock: 1}, gpuprof.ErrUsage, []string{"1025 threads", "1 to 1024"}},
		"items":          {device.Kernel{Name: "f", Entry: "devicetest_fill", Sig: "bi", PTX: devicetestPTX, Threads: 1}, gpuprof.ErrUsage, []string{"0 items"}},
		"shared memory":  {device.Kernel{Name: "f", Entry: "devicetest_fill", Sig: "bi", PTX: devicetestPTX, Threads: 1, PerBlock: 1, SharedBytes: 1 << 20}, gpuprof.ErrDevice, []string{"1048576 bytes of shared memory"}},
		"newer GPU":      {device.Kernel{Name: "f", Entry: "devicetest_fill", Sig: "bi", PTX: ptx("sm_90"), Threads: 1, PerBlock: 1}, gpuprof.ErrDevice, []string{"sm_90", "sm_75"}},
		"instrument":     {device.Kernel{Name: "null", Sig: "b"}, gpuprof.ErrUsage, []string{"the device's own", `signature ""`}},
		"library":        {device.Kernel{Name: "g", Sig: gemmSig, Lib: "gemm_int8"}, gpuprof.ErrUsage, []string{"kernel g", `"gemm_int8"`, "gemm_fp32"}},
		"library's form": {device.Kernel{Name: "g", Sig: "bbb", Lib: "gemm_fp32"}, gpuprof.ErrUsage, []string{gemmSig, `"bbb"`}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := d.Load(&c.k)
			says(t, err, c.kind, append(c.says, "loading kernel "+c.k.Name)...)
		})
	}
	sim.Set(t, d.drv.path, "jit_error=ptxas: line 7: too clever")
	k := kernelOf("fill", "bi")
	k.PTX += "// not the text that is compiled already\n"
	_, err := d.Load(k)
	says(t, err, gpuprof.ErrDevice, "kernel fill", "CUDA_ERROR_INVALID_PTX", "line 7: too clever")
}

func TestOldDriverNewPTX(t *testing.T) {
	d := openWith(t, "driver=11000", Options{})
	k := kernelOf("fill", "bi")
	k.PTX = strings.Replace(devicetestPTX, ".version 6.3", ".version 8.4", 1)
	_, err := d.Load(k)
	says(t, err, gpuprof.ErrDevice, "kernel fill", "CUDA_ERROR_UNSUPPORTED_PTX_VERSION", "CUDA 11.0", "older than the PTX")
}

// TestCheckPTX reads parameter lists of other compilers' making.
func TestCheckPTX(t *testing.T) {
	ptx := func(params string) string { return ".version 8.0\n.visible .entry k(\n" + params + "\n)\n{ ret; }" }
	for _, c := range []struct {
		params, sig string
		fits        bool
	}{
		{".param .u32 n", "", true},
		{".param .b32 n", "", true},
		{".param .f32 n", "", false},
		{".param .u64 .ptr .global .align 4 k_param_0, .param .u32 k_param_1", "b", true},
		{".param .b64 k_param_0, .param .b32 k_param_1, .param .b32 k_param_2, .param .s32 k_param_3", "bif", true},
		{".param .f64 k_param_0, .param .u32 k_param_1", "b", false},
		{".param .align 8 .b8 k_param_0[8], .param .u32 k_param_1", "b", false},
		{".param .align 4 .b32 k_param_0[2], .param .u32 k_param_1", "i", false},
		{".param .u64 k_param_0, .param .u64 k_param_1", "b", false},
		{"", "", false},
	} {
		if err := readPTX(ptx(c.params)).checkEntry("k", c.sig); (err == nil) != c.fits {
			t.Errorf("%q for %q: %v", c.params, c.sig, err)
		}
	}
	if err := readPTX(".entry main\n{ ret; }").checkEntry("main", ""); err == nil || !strings.Contains(err.Error(), "0 parameters") {
		t.Errorf("no list: %v", err)
	}
}

// TestModulesShared: PTX is compiled once a text, not once a kernel.
func TestModulesShared(t *testing.T) {
	d := openSim(t, Options{})
	for _, k := range []*device.Kernel{kernelOf("fill", "bi"), kernelOf("chain", "bi"), kernelOf("fill", "bi")} {
		must(d.Load(k))(t)
	}
	if n := sim.GetReport(t, d.drv.path).Modules; n != 1 {
		t.Errorf("%d modules", n)
	}
}

// TestLaunchShape counts what n items become.
func TestLaunchShape(t *testing.T) {
	d := openSim(t, Options{})
	s := stream(t, d, "main")
	var got launch
	for _, c := range []struct {
		n, threads, perBlock int
		blocks               uint32
	}{{1, 32, 1, 1}, {5, 32, 1, 5}, {5, 64, 5, 1}, {6, 64, 5, 2}, {1<<31 - 1, 1024, 1, 1<<31 - 1}, {1<<31 - 1, 128, 128, 1 << 24}} {
		k := kernelOf("chain", "bi")
		k.Threads, k.PerBlock = c.threads, c.perBlock
		f := must(d.Load(k))(t).(*kernelFunc)
		f.launch = func(l *launch) Result { got = *l; return success }
		var a device.Args
		a.SetBuf(0, must(d.Alloc(4, device.OnDevice))(t))
		a.SetInt(1, -7)
		a.SetInt(2, 12345) // not in the signature: it must not arrive
		ok(t, s.Launch(f, c.n, &a))
		if got.blocks != c.blocks || got.threads != uint32(c.threads) || got.stream != s.h || got.fn != f.h {
			t.Errorf("%+v: %d blocks of %d threads", c, got.blocks, got.threads)
		}
		if uint32(got.vals[1]) != uint32(1<<32-7) || got.vals[0] != a[0].Bits || got.vals[2] != uint64(c.n) {
			t.Errorf("%+v: arguments %v", c, got.vals[:3])
		}
	}
	f := must(d.Load(kernelOf("fill", "bi")))(t)
	var a device.Args
	says(t, s.Launch(f, 1<<31, &a), gpuprof.ErrUsage, "kernel fill", "2147483648 items")
	a.SetBuf(0, must(d.Alloc(4, device.Pageable))(t))
	says(t, s.Launch(f, 1, &a), gpuprof.ErrUsage, "kernel fill", "argument 0", "a GPU cannot see")
}

// TestSharedMemory runs a kernel with more dynamic shared memory than it gets unasked.
func TestSharedMemory(t *testing.T) {
	d := openSim(t, Options{})
	s := stream(t, d, "main")
	for _, bytes := range []int{512, 48 << 10, 100 << 10} {
		k := kernelOf("turn", "bi")
		k.SharedBytes = bytes
		f := must(d.Load(k))(t)
		out := must(d.Alloc(4*256, device.OnDevice))(t)
		var a device.Args
		a.SetBuf(0, out)
		a.SetInt(1, bytes/4)
		ok(t, s.Launch(f, 256, &a))
		for i, v := range read(t, s, d, out) {
			if want := i/128*128 + 127 - i%128; int(v) != want {
				t.Fatalf("%d bytes: item %d is %d, want %d", bytes, i, v, want)
			}
		}
	}
}

// TestCooperative lets blocks wait for one another, with more items than fit
// on the device at once.
func TestCooperative(t *testing.T) {
	const n = 100_000
	d := openWith(t, "sms=3", Options{})
	s := stream(t, d, "main")
	k := kernelOf("meet", "bbb")
	k.Cooperative = true
	f := must(d.Load(k))(t).(*kernelFunc)
	state, places, out := must(d.Alloc(4, device.OnDevice))(t), must(d.Alloc(4*n, device.OnDevice))(t), must(d.Alloc(4*n, device.OnDevice))(t)
	zero := must(d.Alloc(4, device.Pinned))(t)
	clear(zero.Bytes())
	ok(t, s.Copy(state, 0, zero, 0, 4))
	var a device.Args
	for i, b := range []device.Buffer{state, places, out} {
		a.SetBuf(i, b)
	}
	ok(t, s.Launch(f, n, &a))
	for i, v := range read(t, s, d, out) {
		if want := (i+1)%n + (i+n-1)%n; int(v) != want {
			t.Fatalf("item %d is %d, want %d", i, v, want)
		}
	}
	if most := f.mostBlocks; most < 3 || most >= n/128 {
		t.Errorf("at most %d blocks", most)
	}
	sim.Set(t, d.drv.path, fmt.Sprintf("attr.%d=0", attrCooperative))
	_, err := d.Load(k)
	says(t, err, gpuprof.ErrDevice, "kernel meet", "no cooperative launches")
}

func TestNullNeedsNoPTX(t *testing.T) {
	d := openSim(t, Options{})
	k := &device.Kernel{Name: "null", Host: func(*device.Args, int, int) {}}
	f := must(d.Load(k))(t)
	if f.Kernel() != k {
		t.Error("not the kernel that was loaded")
	}
	s := stream(t, d, "main")
	ok(t, s.Launch(f, 1, &device.Args{}))
	ok(t, s.Sync())
	if r := sim.GetReport(t, d.drv.path); r.Ran != 1 {
		t.Errorf("%d kernels ran", r.Ran)
	}
}

func TestSpin(t *testing.T) {
	d := openSim(t, Options{})
	s := stream(t, d, "main")
	before := d.Meter()
	from, to := must(d.NewEvent())(t), must(d.NewEvent())(t)
	const ns = 3_000_000
	ok(t, s.Record(from))
	ok(t, d.Spin(s, ns))
	ok(t, d.Spin(s, 0))
	ok(t, s.Record(to))
	if m := d.Meter(); m != before {
		t.Errorf("spinning was counted: %+v", m.Sub(before))
	}
	ok(t, s.Sync())
	if got := must(d.ElapsedNS(from, to))(t); got < ns-1000 {
		t.Errorf("spun for %d ns, asked for %d", got, ns)
	}
	says(t, d.Spin(s, -1), gpuprof.ErrUsage, "-1 ns")
	says(t, d.Spin(nil, 1), gpuprof.ErrUsage, "stream")
	_, err := d.Capture(s, func() error { return d.Spin(s, 1) })
	says(t, err, gpuprof.ErrUsage, "being captured")
}

// TestFlushCache counts what a flush writes and reads.
func TestFlushCache(t *testing.T) {
	d := openWith(t, fmt.Sprintf("attr.%d=1000000", attrL2), Options{})
	s := stream(t, d, "main")
	before, use := d.Meter(), d.Memory()
	ok(t, d.FlushCache(s))
	ok(t, d.FlushCache(s))
	ok(t, s.Sync())
	if m := d.Meter().Sub(before); m.Launches != 0 || m.Allocations != 0 {
		t.Errorf("flushing was counted: %+v", m)
	}
	if d.Memory().InUse != use.InUse {
		t.Error("the regions are in the account")
	}
	if bytes := 16 * d.flush.groups; bytes < 2_000_000 || bytes > 3_000_000 {
		t.Errorf("regions of %d bytes for a cache of 1000000", bytes)
	}
	if r := sim.GetReport(t, d.drv.path); r.Ran != 4 {
		t.Errorf("%d kernels ran, want 2 for each flush", r.Ran)
	}
}

func TestInfo(t *testing.T) {
	d := openWith(t, "name=Some GPU;cc=8.6;sms=13;driver=12040;memory=1G", Options{})
	in := d.Info()
	if in.Kind != "cuda" || !strings.HasPrefix(in.Name, "Some GPU") || in.Arch != "sm_86" || in.Cores != 13 || in.MaxThreads != 0 {
		t.Errorf("%+v", in)
	}
	for name, want := range map[string]string{
		"cuda": "12.4", "compute_capability": "8.6", "uuid_hash": hashName(d.UUID()), "mig": "off", "compute_mode": "default",
		"memory_bytes": "1073741824", "pool": "on", "binding": implementation, "simulated": "true",
	} {
		if in.Facts[name] != want {
			t.Errorf("%s is %q, want %q", name, in.Facts[name], want)
		}
	}
	if strings.Contains(fmt.Sprint(in.Facts), d.UUID()) {
		t.Error("the facts give the UUID away")
	}
	in.Facts["cuda"] = "changed"
	if d.Info().Facts["cuda"] != "12.4" {
		t.Error("the caller's copy of the facts is the device's own")
	}
}

func TestPool(t *testing.T) {
	d := openSim(t, Options{})
	b := must(d.Alloc(8<<20, device.OnDevice))(t)
	ok(t, b.Free())
	if d.Reserved() < 8<<20 {
		t.Errorf("%d bytes reserved after a free: the pool keeps nothing", d.Reserved())
	}
	before := d.Memory()
	ok(t, d.TrimPool())
	if d.Reserved() != 0 {
		t.Errorf("%d bytes reserved after trimming", d.Reserved())
	}
	if after := d.Memory(); after.Available < before.Available || before.Peak != 8<<20 {
		t.Errorf("%+v, trimmed %+v", before, after)
	}
	c := must(d.Alloc(1000, device.OnDevice))(t)
	ok(t, d.ResetPeak())
	if m := d.Memory(); m.Peak != 1000 {
		t.Errorf("peak %d after a reset with 1000 bytes in use", m.Peak)
	}
	ok(t, c.Free())
}

func TestMemoryLimit(t *testing.T) {
	d := openSim(t, Options{MemoryLimit: 10 << 20})
	if m := d.Memory(); m.Available != 10<<20 {
		t.Errorf("%d bytes available of a limit of 10 MiB", m.Available)
	}
	b := must(d.Alloc(9<<20, device.OnDevice))(t)
	for _, n := range []int{2 << 20, 1<<20 + 1} {
		_, err := d.Alloc(n, device.OnDevice)
		says(t, err, gpuprof.ErrMemory, "available")
	}
	must(d.Alloc(1<<20, device.OnDevice))(t)
	_, err := d.Alloc(1, device.OnDevice)
	says(t, err, gpuprof.ErrMemory, "0 B available")
	ok(t, b.Free())
	_, err = Open(Options{Library: d.drv.path, AllowSimulated: true, MemoryLimit: -1})
	says(t, err, gpuprof.ErrUsage, "memory limit -1")
	for _, p := range []device.Place{device.Pinned, device.Pageable} {
		_, err = d.Alloc(1<<50, p)
		says(t, err, gpuprof.ErrMemory, p.String(), "available")
	}
}

// TestAnotherThread calls the device from a thread that has no context.
func TestAnotherThread(t *testing.T) {
	d := openSim(t, Options{})
	s := stream(t, d, "main")
	f := must(d.Load(kernelOf("fill", "bi")))(t)
	y := must(d.Alloc(4, device.OnDevice))(t)
	e, past := must(d.NewEvent())(t), must(d.NewEvent())(t)
	ok(t, s.Record(past))
	ok(t, s.Sync())
	var a device.Args
	a.SetBuf(0, y)
	a.SetInt(1, 7)
	for name, call := range map[string]func() error{
		"launch": func() error { return s.Launch(f, 1, &a) },
		"copy":   func() error { return s.Copy(y, 0, y, 0, 4) },
		"record": func() error { return s.Record(e) },
		"sync":   s.Sync,
		"query":  func() error { _, err := past.Done(); return err },
		"wait":   past.Wait,
		"time":   func() error { _, err := d.ElapsedNS(past, past); return err },
		"waits":  func() error { return s.WaitFor(past) },
		"alloc":  func() error { b, err := d.Alloc(4, device.OnDevice); return errors.Join(err, b.Free()) },
		"stream": func() error { o, err := d.NewStream("other"); return errors.Join(err, o.Close()) },
	} {
		done := make(chan error)
		go func() {
			runtime.LockOSThread() // and end with it: a fresh thread for each
			done <- call()
		}()
		if err := <-done; err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	ok(t, s.Sync())
}

func TestOverlappingCopy(t *testing.T) {
	for name, lib := range map[string]string{"pool": sim.Library(t), "no pool": sim.LibraryWithout(t, of110...)} {
		t.Run(name, func(t *testing.T) {
			sim.Configure(t, lib, "")
			d, err := Open(Options{Library: lib, AllowSimulated: true})
			ok(t, err)
			s := stream(t, d, "main")
			for _, c := range []struct{ dst, src, n int }{{3, 0, 90}, {0, 3, 90}, {5, 5, 10}, {0, 50, 50}} {
				up, b := must(d.Alloc(100, device.Pinned))(t), must(d.Alloc(100, device.OnDevice))(t)
				for i := range up.Bytes() {
					up.Bytes()[i] = byte(i)
				}
				want := slices.Clone(up.Bytes())
				copy(want[c.dst:c.dst+c.n], want[c.src:c.src+c.n])
				ok(t, s.Copy(b, 0, up, 0, 100))
				ok(t, s.Copy(b, c.dst, b, c.src, c.n))
				ok(t, s.Copy(up, 0, b, 0, 100))
				ok(t, s.Sync())
				if !slices.Equal(up.Bytes(), want) {
					t.Errorf("%+v: not as memmove", c)
				}
			}
			ok(t, d.Close())
			sim.Check(t, lib)
		})
	}
}

func TestCeilingsCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := openSim(t, Options{}).Ceilings(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestManyStreams(t *testing.T) {
	d := openSim(t, Options{})
	f := must(d.Load(kernelOf("fill", "bi")))(t)
	var a device.Args
	a.SetInt(1, 7)
	for i := range slots + 5 {
		s := stream(t, d, fmt.Sprint("s", i))
		a.SetBuf(0, must(d.Alloc(4, device.OnDevice))(t))
		ok(t, s.Launch(f, 1, &a))
		ok(t, s.Sync())
	}
	for _, s := range slices.Clone(d.streams) {
		ok(t, s.Close())
	}
	if got := stream(t, d, "again").slot; got != 0 {
		t.Errorf("slot %d on an empty device", got)
	}
}

func TestGateKeepsAStreamBusy(t *testing.T) {
	d := openSim(t, Options{})
	s := stream(t, d, "main")
	e := must(d.NewEvent())(t)
	ok(t, d.Spin(s, int64(20*time.Millisecond)))
	ok(t, s.Record(e))
	if must(e.Done())(t) {
		t.Error("an event behind 20 ms of spinning is done at once")
	}
	ok(t, e.Wait())
}

// TestEventMovesBetweenStreams records one event on two busy streams in turn:
// the handles that takes are used again.
func TestEventMovesBetweenStreams(t *testing.T) {
	d := openSim(t, Options{})
	a, b := stream(t, d, "a"), stream(t, d, "b")
	e := must(d.NewEvent())(t)
	for range 10 {
		for _, s := range []*Stream{a, b} {
			ok(t, d.Spin(s, 100_000))
			ok(t, s.Record(e))
		}
		ok(t, errors.Join(a.Sync(), b.Sync()))
		if !must(e.Done())(t) {
			t.Error("an event is not done after its streams are")
		}
	}
	if n := len(d.spare); n > 1 {
		t.Errorf("%d handles for one event on two streams", n+1)
	}
}
