package cuda

import (
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device"
)

// Device is one GPU with its primary context. The package comment describes threads and failure.
type Device struct {
	drv  *driver
	is   DeviceInfo
	info device.Info
	ctx  ctxHandle
	own  streamHandle // for allocation, instruments and captures, not for callers
	pool poolHandle   // 0: plain allocation
	zero uint64       // value that resets the pool's attributes; on the heap, because the driver reads it
	// Limits of a launch.
	maxThreads, sharedPerBlock, sharedOptin int32

	frame *launch // parameters of the launch being made
	ms    *float32
	base  time.Time

	closed       bool
	lost         error // the failure that destroyed the context; nil before
	lostReported bool  // the caller has received lost

	streams    []*Stream
	slots      [slots]slot
	events     []*Event
	spare      []eventHandle // replaced handles of events; see Event.replaceHandle
	buffers    map[*Buffer]struct{}
	modules    map[string]*module  // loaded modules, by PTX text
	loading    time.Duration       // time spent on loading all modules, see LoadTime
	carried    int                 // how many modules came as machine code
	takesCode  bool                // offer machine code to the driver before PTX; false for the simulated driver
	sources    map[string]*ptxText // by the kernel's PTX field
	funcs      []*kernelFunc
	graphs     []*captured
	closers    []func() error // vendor handles and workspaces, latest first
	blas       *blas
	libFault   error // the failure behind errLibrary
	dnn        *dnn
	nvrtc      *nvrtc
	compiled   map[string][]byte // machine code from nvrtc by PTX; empty if nvrtc made none
	capturing  *Stream
	flush      *flusher
	spin       *kernelFunc
	spinArgs   device.Args
	ceilings   *gpuprof.Ceilings
	libraries  map[string]string
	launched   uint64 // launches so far, see blame.go
	frees      uint64 // buffers freed so far; if unchanged, a capture need not check its buffers again
	meter      device.Meter
	use        usage // bytes on the device
	limit      int64
	lastBuffer int
	lastEvent  int
}

var (
	_ device.Device       = (*Device)(nil)
	_ device.Pool         = (*Device)(nil)
	_ device.CacheFlusher = (*Device)(nil)
	_ device.Spinner      = (*Device)(nil)
	_ device.GRUMaker     = (*Device)(nil)

	_ device.KernelCompiler = (*Device)(nil)
)

// Open opens a device and locks the goroutine to its thread until Close. The error is an ErrDevice with the reason.
func Open(o Options) (d *Device, err error) {
	defer recoverPanic(&err)
	drv, list, err := listDevices(o)
	if err != nil {
		return nil, err
	}
	is, err := chooseDevice(list, o)
	if err != nil {
		return nil, err
	}
	if o.MemoryLimit < 0 {
		return nil, gpuprof.Errorf(gpuprof.ErrUsage,
			"opening CUDA device %d: memory limit %d bytes", is.Index, o.MemoryLimit).WithFix("give a positive limit, or 0 for all free memory")
	}
	runtime.LockOSThread()
	d, err = openDevice(drv, is, o)
	if err != nil {
		runtime.UnlockOSThread()
		return nil, err
	}
	return d, nil
}

// openDevice retains the primary context and prepares the device.
func openDevice(drv *driver, is DeviceInfo, o Options) (*Device, error) {
	d := &Device{
		drv: drv, is: is, takesCode: !is.Simulated, frame: newLaunch(), ms: new(float32), base: time.Now(),
		buffers: make(map[*Buffer]struct{}), modules: make(map[string]*module), sources: make(map[string]*ptxText),
		maxThreads:     drv.readAttribute(attrMaxThreads, is.handle),
		sharedPerBlock: drv.readAttribute(attrSharedPerBlock, is.handle),
		sharedOptin:    drv.readAttribute(attrSharedOptin, is.handle),
	}
	if r := drv.CtxRetain(&d.ctx, is.handle); r != success {
		return nil, initFailure(drv, fmt.Sprintf("making a context on GPU %d", is.Index), r)
	}
	err := d.prepareDevice(o)
	if err != nil {
		drv.CtxRelease(is.handle)
		return nil, err
	}
	d.info = d.collectInfo()
	return d, nil
}

func (d *Device) prepareDevice(o Options) error {
	doing := fmt.Sprintf("preparing GPU %d", d.is.Index)
	if r := d.drv.CtxSet(d.ctx); r != success {
		return initFailure(d.drv, doing, r)
	}
	if r := d.drv.StreamCreate(&d.own, streamNonBlocking, 0); r != success {
		return initFailure(d.drv, doing, r)
	}
	var free, total uintptr
	if r := d.drv.MemInfo(&free, &total); r != success {
		return initFailure(d.drv, doing, r)
	}
	d.limit = int64(total)
	if o.MemoryLimit > 0 {
		d.limit = min(d.limit, o.MemoryLimit)
	}
	d.makePool()
	return nil
}

// enter makes the context current for a set-up call and locks the goroutine to its thread until leave. Without the
// lock, a goroutine other than Open's could move to another thread between two steps of a call.
func (d *Device) enter(doing string) error {
	if d.closed {
		return errClosed(doing)
	}
	if d.lost != nil {
		return d.reportLost()
	}
	runtime.LockOSThread()
	if err := d.check(d.drv.CtxSet(d.ctx), doing); err != nil {
		runtime.UnlockOSThread()
		return err
	}
	return nil
}

func (d *Device) leave() { runtime.UnlockOSThread() }

// Meter implements device.Device. It counts neither failed calls nor the device's own instruments.
func (d *Device) Meter() device.Meter { return d.meter }

func (d *Device) clockNS() int64 { return int64(time.Since(d.base)) }

// Close waits for the work in flight, releases everything and unlocks the goroutine from its thread. It returns
// failures that no call has returned yet. Closing again does nothing; every other call then fails.
func (d *Device) Close() error {
	if d.closed {
		return nil
	}
	runtime.LockOSThread() // see enter; what Open locked is unlocked below
	defer runtime.UnlockOSThread()
	_ = d.drv.CtxSet(d.ctx) // on a dead context all calls below fail alike
	var errs []error
	keep := func(err error) {
		if err != nil {
			errs = append(errs, err)
		}
	}
	for len(d.streams) > 0 {
		keep(d.streams[0].Close())
	}
	for i := len(d.closers) - 1; i >= 0; i-- {
		keep(d.closers[i]())
	}
	keep(d.releaseGraphs())
	keep(d.releaseEvents())
	for b := range d.buffers {
		keep(d.releaseBuffer(b))
	}
	keep(d.releaseModules())
	keep(d.releasePool())
	keep(d.checkRelease(d.drv.StreamDestroy(d.own), "destroying the device's own stream"))
	d.closed = true
	// The last release destroys the context and all that a dead context still holds.
	keep(d.checkRelease(d.drv.CtxRelease(d.is.handle), "releasing the context"))
	runtime.UnlockOSThread()
	if d.lost != nil && !d.lostReported {
		errs = append(errs, d.reportLost())
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("closing CUDA device %d: %w", d.is.Index, err)
	}
	return nil
}

// checkRelease checks the result of a call that releases something. On a lost device it ignores failures, because their
// reason is known.
func (d *Device) checkRelease(r Result, doing string) error {
	if d.lost != nil {
		return nil
	}
	return d.check(r, doing)
}

func (d *Device) releaseGraphs() error {
	var errs []error
	for _, c := range d.graphs {
		for i := range c.segments {
			if h := c.segments[i].exec; h != 0 {
				errs = append(errs, d.checkRelease(d.drv.ExecDestroy(h), "destroying a graph"))
			}
		}
		c.segments = nil
	}
	d.graphs = nil
	return errors.Join(errs...)
}

func (d *Device) releaseEvents() error {
	handles := d.spare
	for _, e := range d.events {
		if e.h != 0 { // 0 if made on a lost device
			handles = append(handles, e.h)
		}
	}
	d.events, d.spare = nil, nil
	var errs []error
	for _, h := range handles {
		errs = append(errs, d.checkRelease(d.drv.EventDestroy(h), "destroying an event"))
	}
	return errors.Join(errs...)
}

func (d *Device) releaseModules() error {
	var errs []error
	for _, m := range d.modules {
		errs = append(errs, d.checkRelease(d.drv.Unload(m.h), "unloading a module"))
	}
	d.modules = nil
	return errors.Join(errs...)
}

func errClosed(doing string) error {
	return gpuprof.Errorf(gpuprof.ErrUsage, "%s on CUDA: the device is closed", doing).WithFix("open a new one")
}
