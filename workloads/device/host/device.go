package host

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"runtime"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device"
)

// Options limit the share of the machine that a device uses.
type Options struct {
	// Threads is the number of threads per kernel, 1 to 4 times the processors; 0 selects GOMAXPROCS.
	Threads int
	// MemoryLimit is the maximum of all buffers together in bytes. 0 selects nine tenths of the memory available at
	// Open: the lesser of MemAvailable and the control groups' remainder, or 4 GiB if neither can be read.
	MemoryLimit int64
	// LargestCopy is the maximum size of each buffer of the memory rates in bytes; 0 selects 256 MiB. Less than four
	// times the last-level cache measures the cache, which only tests may want.
	LargestCopy int64
	// CeilingTries is the maximum number of tries of each peak rate in a call of Ceilings; 0 selects five.
	CeilingTries int
}

// Device runs kernels on the processor. See the package comment.
type Device struct {
	pool    *pool
	nudge   *nudge
	limit   int64
	largest int64 // Options.LargestCopy
	tries   int   // Options.CeilingTries
	facts   machine
	base    time.Time // origin of events' times, on the monotonic clock
	root    fs.FS     // the machine's root file system
	closed  bool

	streams   []*Stream
	buffers   map[*Buffer]struct{}
	arena     arena
	capturing *Stream

	meter              device.Meter
	deviceUse, hostUse usage
	lastBuffer         int
	lastEvent          int
	ceilings           *gpuprof.Ceilings // nil until measured
}

var (
	_ device.Device   = (*Device)(nil)
	_ device.Threader = (*Device)(nil)
)

// Open opens a host device. Close ends its goroutines and releases its memory.
func Open(o Options) (*Device, error) {
	return open(o, os.DirFS("/"))
}

func open(o Options, root fs.FS) (*Device, error) {
	if o.Threads == 0 {
		o.Threads = runtime.GOMAXPROCS(0)
	} else if err := checkThreads(o.Threads); err != nil {
		return nil, err
	}
	if o.MemoryLimit < 0 {
		return nil, gpuprof.Errorf(gpuprof.ErrUsage, "opening device host: memory limit %d bytes", o.MemoryLimit).WithFix("give a positive limit, or 0 for all available memory")
	}
	if o.MemoryLimit == 0 {
		o.MemoryLimit = defaultMemoryLimit(root)
	}
	if o.LargestCopy <= 0 {
		o.LargestCopy = largestCopy
	}
	if o.CeilingTries <= 0 {
		o.CeilingTries = ceilingTries
	}
	n := newNudge()
	return &Device{
		nudge:   n,
		pool:    newPool(o.Threads, n),
		limit:   o.MemoryLimit,
		largest: o.LargestCopy,
		tries:   o.CeilingTries,
		facts:   readMachine(root),
		base:    time.Now(),
		root:    root,
		buffers: make(map[*Buffer]struct{}),
	}, nil
}

func maxThreads() int { return 4 * runtime.NumCPU() }

func checkThreads(n int) error {
	if n < 1 || n > maxThreads() {
		return gpuprof.Errorf(gpuprof.ErrUsage, "setting device host to %d threads: this machine allows 1 to %d", n, maxThreads())
	}
	return nil
}

// SetThreads implements device.Threader for 1 to 4 times the processors. It waits for work in flight.
func (d *Device) SetThreads(n int) error {
	if d.closed {
		return errClosed("setting threads")
	}
	if err := checkThreads(n); err != nil {
		return err
	}
	if n == d.pool.threads {
		return nil
	}
	d.drain()
	d.pool.close()
	d.pool = newPool(n, d.nudge)
	d.ceilings = nil // peak rates depend on the number of threads
	return nil
}

// Info implements device.Device.
func (d *Device) Info() device.Info {
	return device.Info{
		Kind:       "host",
		Name:       d.facts.model,
		Arch:       runtime.GOARCH,
		Cores:      d.pool.threads,
		MaxThreads: maxThreads(),
		CacheBytes: d.facts.cache,
		Facts:      maps.Clone(d.facts.facts),
	}
}

type kernelFunc struct {
	dev    *Device
	kernel *device.Kernel
	bufs   []int // indices of the buffer parameters
}

func (f *kernelFunc) Kernel() *device.Kernel { return f.kernel }

// Load implements device.Device. The kernel must not change afterwards.
func (d *Device) Load(k *device.Kernel) (device.Func, error) {
	if d.closed {
		return nil, errClosed("loading a kernel")
	}
	if err := k.Check("host"); err != nil {
		return nil, err
	}
	if k.Host == nil {
		return nil, gpuprof.Errorf(gpuprof.ErrUsage, "loading kernel %s on host: it has no Go implementation", k.Name).WithFix("set Host")
	}
	return &kernelFunc{dev: d, kernel: slowKernel(k), bufs: k.BufferParams()}, nil
}

// Meter implements device.Device. Failed calls are not counted.
func (d *Device) Meter() device.Meter { return d.meter }

// Close implements device.Device. It waits for kernels in flight, for any time, and returns failures that no call has
// returned yet. Closing again does nothing; every other call then fails.
func (d *Device) Close() error {
	if d.closed {
		return nil
	}
	var errs []error
	for len(d.streams) > 0 {
		errs = append(errs, d.streams[0].Close())
	}
	d.pool.close()
	d.nudge.close()
	for b := range d.buffers {
		errs = append(errs, d.releaseBuffer(b))
	}
	errs = append(errs, d.arena.close())
	d.closed = true
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("closing device host: %w", err)
	}
	return nil
}

func (d *Device) drain() {
	for _, s := range d.streams {
		s.await(s.last)
	}
}

func (d *Device) clockNS() int64 { return int64(time.Since(d.base)) }

func errClosed(doing string) error {
	return gpuprof.Errorf(gpuprof.ErrUsage, "%s on host: the device is closed", doing).WithFix("open a new one")
}
