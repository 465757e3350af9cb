package cuda

import (
	_ "embed" // the instruments' PTX
	"math"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device"
)

//go:embed null.ptx.zst
var nullPTX string

//go:embed spin.ptx.zst
var spinPTX string

//go:embed flush.ptx.zst
var flushPTX string

//go:embed ceilings.ptx.zst
var ceilingsPTX string

const flushThreads, flushBlockItems = 256, 4096

// ownKernel returns one of the device's own kernels by its name, for callers that measure the device and carry no PTX.
func ownKernel(name string) (*device.Kernel, bool) {
	switch name {
	case "null":
		return &device.Kernel{Name: name, PTX: nullPTX, Threads: 1, PerBlock: 1}, true
	case "spin":
		return &device.Kernel{Name: name, Sig: "i", PTX: spinPTX, Threads: 32, PerBlock: 32}, true
	case "flush_write":
		return &device.Kernel{Name: name, Sig: "bi", PTX: flushPTX, Threads: flushThreads, PerBlock: flushBlockItems}, true
	case "flush_read":
		return &device.Kernel{Name: name, Sig: "bbi", PTX: flushPTX, Threads: flushThreads, PerBlock: flushBlockItems}, true
	case "ceiling_copy":
		return &device.Kernel{Name: name, Sig: "bb", PTX: ceilingsPTX, Threads: 256, PerBlock: 2048}, true
	case "ceiling_random":
		return &device.Kernel{Name: name, Sig: "bi", PTX: ceilingsPTX, Threads: 256, PerBlock: 4096}, true
	case "ceiling_fma64":
		return &device.Kernel{Name: name, Sig: "bi", PTX: ceilingsPTX, Threads: 256, PerBlock: 256}, true
	case "ceiling_product":
		return &device.Kernel{Name: name, Sig: "bbbi", PTX: ceilingsPTX, Threads: 256, PerBlock: 1}, true
	}
	return nil, false
}

func (d *Device) loadInstrument(name string) (*kernelFunc, error) {
	k, _ := ownKernel(name)
	return d.load(k, k)
}

// setPointers sets the first arguments to addresses owned by the device.
func setPointers(a *device.Args, ptrs ...devicePtr) {
	for i, p := range ptrs {
		a[i].Bits = uint64(p)
	}
}

// enqueueOwn enqueues one of the device's own kernels on s without counting it.
func (s *Stream) enqueueOwn(f *kernelFunc, n int, a *device.Args) error {
	if r := f.enqueue(s.h, n, a); r != success {
		if err := s.retryLaunch(r, f, n, a); err != nil {
			return err
		}
	}
	s.launchedOn(f)
	return nil
}

func (d *Device) checkStream(st device.Stream, doing string) (*Stream, error) {
	s, ok := st.(*Stream)
	if !ok || s == nil || s.dev != d {
		return nil, gpuprof.Errorf(gpuprof.ErrUsage, "%s on CUDA: the stream belongs to another device", doing).WithFix("use one of this device")
	}
	if s.closed || d.lost != nil {
		return nil, s.checkUsable(doing + " on stream " + s.name)
	}
	if s.rec != nil {
		return nil, s.rec.markFailed(gpuprof.Errorf(gpuprof.ErrUsage, "%s on stream %s: it is being captured", doing, s.name).WithFix("do it before or after the capture"))
	}
	return s, nil
}

// Spin implements device.Spinner with the GPU's nanosecond timer, whose tick is 32 ns to 1 us.
func (d *Device) Spin(st device.Stream, ns int64) error {
	s, err := d.checkStream(st, "spinning")
	if err != nil {
		return err
	}
	if ns < 0 {
		return gpuprof.Errorf(gpuprof.ErrUsage, "spinning on stream %s: %d ns", s.name, ns).WithFix("give 0 or more")
	}
	if d.spin == nil {
		if d.spin, err = d.loadInstrument("spin"); err != nil {
			return err
		}
	}
	for ns > 0 {
		turn := min(ns, math.MaxInt32)
		d.spinArgs.SetInt(0, int(turn))
		if err := s.enqueueOwn(d.spin, 1, &d.spinArgs); err != nil {
			return err
		}
		ns -= turn
	}
	return nil
}

// flusher clears the cache by means of two regions of memory, which Memory does not count.
type flusher struct {
	write, read       *kernelFunc
	to, from, sink    devicePtr
	groups            int // groups of 16 bytes per region
	writeArg, readArg device.Args
}

// FlushCache implements device.CacheFlusher: it resets persisting lines, writes one region of twice the last-level
// cache and reads another. The first call allocates both, so make it before a timed region.
func (d *Device) FlushCache(st device.Stream) error {
	s, err := d.checkStream(st, "clearing the cache")
	if err != nil {
		return err
	}
	if d.flush == nil {
		if err := d.makeFlusher(); err != nil {
			return err
		}
	}
	if d.drv.ResetL2 != nil {
		if r := d.drv.ResetL2(); r != success && r != errNotSupported {
			return d.check(r, "resetting persisting lines of the cache")
		}
	}
	f := d.flush
	if err := s.enqueueOwn(f.write, f.groups, &f.writeArg); err != nil {
		return err
	}
	return s.enqueueOwn(f.read, f.groups, &f.readArg)
}

func (d *Device) makeFlusher() error {
	const doing = "making room to clear the cache"
	if err := d.enter(doing); err != nil {
		return err
	}
	defer d.leave()
	f := &flusher{groups: int((2*max(d.info.CacheBytes, 1<<20) + 15) / 16)}
	var err error
	if f.write, err = d.loadInstrument("flush_write"); err != nil {
		return err
	}
	if f.read, err = d.loadInstrument("flush_read"); err != nil {
		return err
	}
	block, free, err := d.allocateScratch(uintptr(2*16*f.groups+16), doing)
	if err != nil {
		return err
	}
	f.to, f.from, f.sink = block, block+devicePtr(16*f.groups), block+devicePtr(32*f.groups)
	// The read kernel stores its result only if it is -1, which cannot happen while every byte of the memory is 1.
	if err := d.check(firstFailure(d.drv.Memset8(block, 1, uintptr(2*16*f.groups+16), d.own), d.drv.StreamSync(d.own)), doing); err != nil {
		return err
	}
	setPointers(&f.writeArg, f.to)
	f.writeArg.SetInt(1, 1)
	setPointers(&f.readArg, f.from, f.sink)
	f.readArg.SetInt(2, -1)
	d.flush = f
	d.closers = append(d.closers, free)
	return nil
}

// libraryMemory allocates device memory for a library on a workload's stream, which Memory counts, and returns its
// free function. GRU layers use allocateScratch instead, because they are freed only with the device.
func (d *Device) libraryMemory(n uintptr, doing string) (devicePtr, func() error, error) {
	p, free, err := d.allocateScratch(n, doing)
	if err != nil {
		return 0, nil, err
	}
	d.use.add(int64(n))
	return p, func() error {
		d.use.add(-int64(n))
		return free()
	}, nil
}

// allocateScratch allocates device memory that Memory does not count and returns its free function.
func (d *Device) allocateScratch(n uintptr, doing string) (devicePtr, func() error, error) {
	p, r := d.deviceAlloc(n)
	if err := d.check(r, doing); err != nil {
		return 0, nil, err
	}
	return p, func() error { return d.checkRelease(d.deviceFree(p), "freeing scratch memory") }, nil
}
