package cuda

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/testkit/sim"
	"github.com/gpuprof/gpuprof/workloads/device"
)

// TestKernelFault kills kernels and reads who is blamed.
func TestKernelFault(t *testing.T) {
	for name, c := range map[string]struct {
		configuration string
		kernels       []string
		says          string
	}{
		"alone": {"launch_fail=1:700", []string{"fill"},
			"kernel fill on stream main failed: CUDA error 700 (CUDA_ERROR_ILLEGAL_ADDRESS"},
		"of two": {"launch_fail=2:719", []string{"chain", "fill"},
			"one of the kernels chain on stream main, fill on stream main failed: CUDA error 719"},
	} {
		t.Run(name, func(t *testing.T) {
			d := openSim(t, Options{})
			s := stream(t, d, "main")
			var a device.Args
			a.SetBuf(0, must(d.Alloc(4, device.OnDevice))(t))
			// What a stream has ended well is not blamed.
			innocent := must(d.Load(kernelOf("raise", "bi")))(t)
			ok(t, s.Launch(innocent, 1, &a))
			ok(t, s.Sync())
			sim.Set(t, d.drv.path, c.configuration)
			for _, k := range c.kernels {
				// The second launch may already be refused.
				_ = s.Launch(must(d.Load(kernelOf(k, "bi")))(t), 1, &a)
			}
			err := s.Sync()
			says(t, err, gpuprof.ErrDevice, "opened again", "compute-sanitizer")
			if name == "alone" && !strings.HasPrefix(err.Error(), c.says) {
				t.Errorf("%q does not begin with %q", err, c.says)
			}
			if !strings.Contains(err.Error(), "fill") && !strings.Contains(err.Error(), "chain") || strings.Contains(err.Error(), "raise") {
				t.Errorf("%q blames the wrong kernels", err)
			}
			lostForGood(t, d, s, err)
			if err := d.Close(); err != nil {
				t.Errorf("Close repeats what is known: %v", err)
			}
		})
	}
}

// lostForGood wants the same error from everything.
func lostForGood(t *testing.T, d *Device, s *Stream, want error) {
	t.Helper()
	f := &kernelFunc{dev: d, kernel: &device.Kernel{Name: "late"}}
	e := must(d.NewEvent())(t)
	for name, call := range map[string]func() error{
		"launch":  func() error { return s.Launch(f, 1, &device.Args{}) },
		"sync":    s.Sync,
		"record":  func() error { return s.Record(e) },
		"wait":    e.Wait,
		"query":   func() error { _, err := e.Done(); return err },
		"elapsed": func() error { _, err := d.ElapsedNS(e, e); return err },
		"alloc":   func() error { _, err := d.Alloc(4, device.OnDevice); return err },
		"load":    func() error { _, err := d.Load(kernelOf("fill", "bi")); return err },
		"stream":  func() error { _, err := d.NewStream("late"); return err },
		"capture": func() error { _, err := d.Capture(s, func() error { return nil }); return err },
		"ceiling": func() error { _, err := d.Ceilings(context.Background()); return err },
		"trim":    d.TrimPool,
		"flush":   func() error { return d.FlushCache(s) },
		"spin":    func() error { return d.Spin(s, 1) },
	} {
		if err := call(); err == nil || !errors.Is(err, gpuprof.ErrDevice) || err.Error() != want.Error() {
			t.Errorf("%s: %v, want %v", name, err, want)
		}
	}
	if m := d.Memory(); m.Available != 0 {
		t.Errorf("%d bytes available on a lost device", m.Available)
	}
}

func TestUntoldFaultAtClose(t *testing.T) {
	d := openWith(t, "launch_fail=1", Options{})
	s := stream(t, d, "main")
	ok(t, s.Launch(must(d.Load(&device.Kernel{Name: "null"}))(t), 1, &device.Args{}))
	says(t, d.Close(), gpuprof.ErrDevice, "closing CUDA device 0", "kernel null on stream main")
}

// TestReopenAfterFault: a new device works, and nothing of the old is left.
func TestReopenAfterFault(t *testing.T) {
	d := openWith(t, "launch_fail=1", Options{})
	s := stream(t, d, "main")
	y := must(d.Alloc(4, device.OnDevice))(t)
	var a device.Args
	a.SetBuf(0, y)
	ok(t, s.Launch(must(d.Load(kernelOf("fill", "bi")))(t), 1, &a))
	if s.Sync() == nil {
		t.Fatal("the fault is lost")
	}
	ok(t, y.Free())
	ok(t, d.Close())
	again := must(Open(Options{Library: d.drv.path, AllowSimulated: true}))(t)
	s = stream(t, again, "main")
	y = must(again.Alloc(4, device.OnDevice))(t)
	a.SetBuf(0, y)
	a.SetInt(1, 5)
	ok(t, s.Launch(must(again.Load(kernelOf("fill", "bi")))(t), 1, &a))
	if got := read(t, s, again, y); got[0] != 5 {
		t.Errorf("got %v", got)
	}
	ok(t, again.Close())
}

// TestFailingCalls fails every kind of call once: the caller is told what was
// being done, an error that passes leaves a device that works, and nothing is
// left behind.
func TestFailingCalls(t *testing.T) {
	for name, c := range map[string]struct {
		configuration string
		kind          error
		says          string
	}{
		"launch":         {"fail=cuLaunchKernel@1:701", gpuprof.ErrDevice, "launching kernel fill on stream main"},
		"launch, 1":      {"fail=cuLaunchKernel@1:1", gpuprof.ErrDevice, "launching kernel fill on stream main"},
		"launch, 801":    {"fail=cuLaunchKernel@1:801", gpuprof.ErrDevice, "launching kernel fill on stream main"},
		"record":         {"fail=cuEventRecord@1:1", gpuprof.ErrDevice, "recording an event on stream main"},
		"wait":           {"fail=cuStreamWaitEvent@1:1", gpuprof.ErrDevice, "making stream side wait"},
		"upload":         {"fail=cuMemcpyHtoDAsync_v2@1:1", gpuprof.ErrDevice, "copying on stream main"},
		"event":          {"fail=cuEventCreate@1:1", gpuprof.ErrDevice, "making an event"},
		"event query":    {"fail=cuEventQuery@1:1", gpuprof.ErrDevice, "querying event"},
		"event wait":     {"fail=cuEventSynchronize@1:1", gpuprof.ErrDevice, "waiting for event"},
		"elapsed":        {"fail=cuEventElapsedTime@1:1", gpuprof.ErrDevice, "time between event"},
		"stream":         {"fail=cuStreamCreateWithPriority@1:2", gpuprof.ErrMemory, "making stream"},
		"sync":           {"fail=cuStreamSynchronize@2:1", gpuprof.ErrDevice, "synchronizing stream main"},
		"module":         {"fail=cuModuleLoadDataEx@1:2", gpuprof.ErrMemory, "loading kernel fill"},
		"function":       {"fail=cuModuleGetFunction@1:500", gpuprof.ErrDevice, "loading kernel fill"},
		"pool memory":    {"fail=cuMemAllocFromPoolAsync@1:2", gpuprof.ErrMemory, "device memory"},
		"pinned memory":  {"fail=cuMemHostAlloc@1:2", gpuprof.ErrMemory, "pinned memory"},
		"instantiate":    {"fail=cuGraphInstantiateWithFlags@1:2", gpuprof.ErrMemory, "instantiating a graph"},
		"graph launch":   {"fail=cuGraphLaunch@1:1", gpuprof.ErrDevice, "launching a graph on stream main"},
		"second of all":  {"oom_at=2", gpuprof.ErrMemory, "allocating"},
		"device lost":    {"lost=30", gpuprof.ErrDevice, "CUDA_ERROR_UNKNOWN"},
		"lost at once":   {"lost=1", gpuprof.ErrDevice, "no kernel in flight"},
		"lost by 46":     {"lost=40:46", gpuprof.ErrDevice, "CUDA_ERROR_DEVICE_UNAVAILABLE"},
		"freeing memory": {"fail=cuMemFreeAsync@1:1", gpuprof.ErrDevice, "freeing buffer"},
	} {
		t.Run(name, func(t *testing.T) {
			d := openSim(t, Options{})
			sim.Set(t, d.drv.path, c.configuration)
			err := everything(d)
			says(t, err, c.kind, c.says)
			if strings.HasPrefix(c.configuration, "lost=") {
				_ = d.Close()
				sim.Reset(t, d.drv.path)
				return
			}
			if err := everything(d); err != nil {
				t.Errorf("the device does not work after a failure that passes: %v", err)
			}
			ok(t, d.Close())
		})
	}
}

// everything uses a device in every way and stops at the first error.
func everything(d *Device) (err error) {
	var s, side device.Stream
	var e, e2 device.Event
	var up, y device.Buffer
	var f device.Func
	var op device.Op
	var a device.Args
	for _, step := range []func() error{
		func() error { s, err = d.NewStream("main"); return err },
		func() error { side, err = d.NewStream("side"); return err },
		func() error { e, err = d.NewEvent(); return err },
		func() error { e2, err = d.NewEvent(); return err },
		func() error { up, err = d.Alloc(4, device.Pinned); return err },
		func() error { y, err = d.Alloc(4, device.OnDevice); return err },
		func() error { f, err = d.Load(kernelOf("fill", "bi")); a.SetBuf(0, y); return err },
		func() error { return s.Copy(y, 0, up, 0, 4) },
		func() error { return s.Launch(f, 1, &a) },
		func() error { return s.Record(e) },
		func() error { return side.WaitFor(e) },
		func() error { return side.Record(e2) },
		func() error { _, err := e.Done(); return err },
		func() error { return e2.Wait() },
		func() error { _, err := d.ElapsedNS(e, e2); return err },
		func() error { return s.Sync() },
		func() error { return s.Sync() },
		func() error { op, err = d.Capture(s, func() error { return s.Launch(f, 1, &a) }); return err },
		func() error { return op.Enqueue(s) },
		func() error { return s.Sync() },
	} {
		if err = step(); err != nil {
			break
		}
	}
	if y != nil {
		err = errors.Join(err, y.Free())
	}
	if up != nil {
		err = errors.Join(err, up.Free())
	}
	return err
}

// TestCaptureFallsBack: what a driver cannot make a graph of is replayed call
// by call, with the same result.
func TestCaptureFallsBack(t *testing.T) {
	for name, c := range map[string]struct {
		configuration string
		pageable      bool
		graph         bool
	}{
		"graph":            {"", false, true},
		"pageable":         {"", true, false},
		"cannot begin":     {"fail=cuStreamBeginCapture_v2@1:801", false, false},
		"cannot launch":    {"fail=cuLaunchKernel@1:900", false, false},
		"cannot end":       {"fail=cuStreamEndCapture@1:901", false, false},
		"no instantiation": {"fail=cuGraphInstantiateWithFlags@1:801", false, false},
	} {
		t.Run(name, func(t *testing.T) {
			d := openSim(t, Options{})
			s := stream(t, d, "main")
			f := must(d.Load(kernelOf("chain", "bi")))(t)
			y, e := must(d.Alloc(4, device.OnDevice))(t), must(d.NewEvent())(t)
			place := device.Pinned
			if c.pageable {
				place = device.Pageable
			}
			up := must(d.Alloc(4, place))(t)
			device.Ints(up)[0] = 5
			var a device.Args
			a.SetBuf(0, y)
			a.SetInt(1, 1)
			sim.Set(t, d.drv.path, c.configuration)
			op := must(d.Capture(s, func() error {
				return errors.Join(s.Copy(y, 0, up, 0, 4), s.Launch(f, 1, &a), s.Launch(f, 0, &a), s.Record(e))
			}))(t)
			if n := len(op.(*captured).segments); n != 2 {
				t.Errorf("%d segments, want the work and the record", n)
			}
			if op.(*captured).Graph() != c.graph {
				t.Errorf("a graph: %v", op.(*captured).Graph())
			}
			before := d.Meter()
			ok(t, op.Enqueue(s))
			ok(t, e.Wait())
			m := d.Meter().Sub(before)
			if m.Launches != 2 || m.CopiesH2D != 1 || m.BytesH2D != 4 {
				t.Errorf("counted %+v", m)
			}
			if got := read(t, s, d, y); got[0] != 16 {
				t.Errorf("got %v, want 16", got)
			}
			if len(op.Parts()) != 2 {
				t.Errorf("parts %v", op.Parts())
			}
		})
	}
}

// TestCaptureNested: a capture replayed inside a capture becomes part of it.
func TestCaptureNested(t *testing.T) {
	d := openSim(t, Options{})
	s := stream(t, d, "main")
	f := must(d.Load(kernelOf("chain", "bi")))(t)
	y := must(d.Alloc(4, device.OnDevice))(t)
	var a device.Args
	a.SetBuf(0, y)
	a.SetInt(1, 1)
	inner := must(d.Capture(s, func() error { return s.Launch(f, 1, &a) }))(t)
	outer := must(d.Capture(s, func() error { return errors.Join(inner.Enqueue(s), inner.Enqueue(s)) }))(t)
	empty := must(d.Capture(s, func() error { return nil }))(t)
	fill := must(d.Load(kernelOf("fill", "bi")))(t)
	ok(t, s.Launch(fill, 1, &a))
	ok(t, outer.Enqueue(s))
	ok(t, empty.Enqueue(s))
	if got := read(t, s, d, y); got[0] != 13 {
		t.Errorf("got %v, want 3*(3*1+1)+1", got)
	}
	if n := len(outer.Parts()); n != 2 {
		t.Errorf("%d parts", n)
	}
}
