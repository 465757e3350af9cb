package cuda

import (
	"errors"
	"math"
	"runtime"
	"slices"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device"
)

// Stream is a CUDA stream that does not synchronise with the default stream.
type Stream struct {
	dev    *Device
	h      streamHandle
	name   string
	slot   int
	closed bool
	rec    *recording // not nil during a Capture
}

// NewStream implements device.Device.
func (d *Device) NewStream(name string) (device.Stream, error) {
	if err := d.enter("making a stream"); err != nil {
		return nil, err
	}
	defer d.leave()
	if name == "" {
		return nil, gpuprof.Errorf(gpuprof.ErrUsage, "making a stream on CUDA: it needs a name for messages and reports")
	}
	s := &Stream{dev: d, name: name}
	if err := d.check(d.drv.StreamCreate(&s.h, streamNonBlocking, 0), "making stream "+name); err != nil {
		return nil, err
	}
	s.slot = d.takeSlot(name)
	d.streams = append(d.streams, s)
	return s, nil
}

// takeSlot returns a slot for counting the launches of a new stream (see blame.go): one that no open stream uses, or
// the last slot, which is then shared.
func (d *Device) takeSlot(name string) int {
	for i := range d.slots {
		if at := &d.slots[i]; at.stream == "" {
			*at = slot{stream: name, passed: d.launched}
			return i
		}
	}
	d.slots[slots-1].shared = true
	d.slots[slots-1].stream += " or " + name
	return slots - 1
}

func (s *Stream) String() string { return "stream " + s.name }

// checkUsable returns the reason why a stream accepts no work, or nil.
func (s *Stream) checkUsable(doing string) error {
	switch {
	case s.dev.closed:
		return errClosed(doing)
	case s.closed:
		return gpuprof.Errorf(gpuprof.ErrUsage, "%s on CUDA: stream %s is closed", doing, s.name).WithFix("make a new one")
	case s.dev.lost != nil:
		return s.dev.reportLost()
	}
	return nil
}

// Launch implements device.Stream. n may be 0, which runs nothing.
func (s *Stream) Launch(f device.Func, n int, a *device.Args) error {
	fn, ok := f.(*kernelFunc)
	if !ok || fn == nil || fn.dev != s.dev || s.closed || s.dev.lost != nil || n < 0 || n > math.MaxInt32 {
		return s.launchFault(f, n)
	}
	if a == nil {
		var err error
		if a, err = fn.kernel.Given(a, s.name); err != nil {
			return err
		}
	}
	for _, i := range fn.bufs {
		if b, ok := a[i].Buf.(*Buffer); !ok || b == nil || b.dev != s.dev || b.state != onDevice {
			return s.argumentFault(fn, i, a[i].Buf)
		}
	}
	if s.rec != nil {
		s.rec.items = append(s.rec.items, item{kind: itemLaunch, fn: fn, n: n, args: *a})
		return nil
	}
	if n > 0 {
		if r := fn.enqueue(s.h, n, a); r != success {
			if err := s.retryLaunch(r, fn, n, a); err != nil {
				return err
			}
		}
		s.launchedOn(fn)
	}
	s.dev.meter.Launches++
	return nil
}

// retryLaunch turns r, the result of a launch, into an error. If r means that the calling thread has no context or
// another device's, it repeats the launch once with the context.
func (s *Stream) retryLaunch(r Result, fn *kernelFunc, n int, a *device.Args) error {
	if r == errInvalidContext || r == errInvalidHandle {
		runtime.LockOSThread() // see Device.enter
		defer runtime.UnlockOSThread()
		if r = s.dev.drv.CtxSet(s.dev.ctx); r == success {
			r = fn.enqueue(s.h, n, a)
		}
	}
	if r == success {
		return nil
	}
	return fn.launchError(r, "launching kernel "+fn.kernel.Name+" on stream "+s.name)
}

func (s *Stream) launchFault(f device.Func, n int) error {
	if err := s.checkUsable("launching a kernel on stream " + s.name); err != nil {
		return err
	}
	fn, ok := f.(*kernelFunc)
	if !ok || fn == nil || fn.dev != s.dev {
		return gpuprof.Errorf(gpuprof.ErrUsage,
			"launching a kernel on stream %s: the kernel was loaded by another device", s.name).WithFix("load it on this one")
	}
	return gpuprof.Errorf(gpuprof.ErrUsage, "launching kernel %s on stream %s: %d items", fn.kernel.Name, s.name, n).WithFix("give 0 to %d", math.MaxInt32)
}

func (s *Stream) argumentFault(fn *kernelFunc, i int, b device.Buffer) error {
	mine, fault := s.dev.checkBuffer(b)
	if fault == (gpuprof.Unfit{}) {
		fault = gpuprof.Unfit{Why: "is " + mine.String() + ", which a GPU cannot see", Fix: "use device or pinned memory"}
	}
	return fault.Of("launching kernel %s on stream %s: argument %d", fn.kernel.Name, s.name, i)
}

// Record implements device.Stream. The GPU sets the event's time when the stream reaches the record. Recording again
// is allowed.
func (s *Stream) Record(ev device.Event) error {
	e, ok := ev.(*Event)
	if s.closed || s.dev.lost != nil || !ok || e == nil || e.dev != s.dev {
		return s.eventFault("recording an event on stream "+s.name, ev)
	}
	if s.rec != nil {
		s.rec.items = append(s.rec.items, item{kind: itemRecord, event: e})
		return nil
	}
	if e.stream != s && e.stream != nil {
		if err := e.replaceHandle(); err != nil {
			return err
		}
	}
	if r := s.dev.drv.EventRecord(e.h, s.h); r != success {
		if err := s.dev.retryWithContext(r, func() Result { return s.dev.drv.EventRecord(e.h, s.h) }, "recording an event on stream "+s.name); err != nil {
			return err
		}
	}
	e.recordedOn(s)
	return nil
}

func (s *Stream) eventFault(doing string, ev device.Event) error {
	if err := s.checkUsable(doing); err != nil {
		return err
	}
	_, fault := s.dev.checkEvent(ev)
	return fault.Of("%s: the event", doing)
}

// WaitFor implements device.Stream. Recording the event again after this call does not change the wait.
func (s *Stream) WaitFor(ev device.Event) error {
	e, ok := ev.(*Event)
	if s.closed || s.dev.lost != nil || !ok || e == nil || e.dev != s.dev {
		return s.eventFault("making stream "+s.name+" wait for an event", ev)
	}
	if s.rec != nil {
		return s.rec.markFailed(gpuprof.Errorf(gpuprof.ErrUsage,
			"capturing stream %s: it cannot wait for %s while captured", s.name, e).WithFix("wait before or after the capture"))
	}
	if e.stream == nil {
		return e.checkRecorded("making stream " + s.name + " wait for")
	}
	if r := s.dev.drv.StreamWait(s.h, e.h); r != success {
		return s.dev.retryWithContext(r, func() Result { return s.dev.drv.StreamWait(s.h, e.h) }, "making stream "+s.name+" wait for an event")
	}
	return nil
}

// Sync implements device.Stream.
func (s *Stream) Sync() error {
	if s.closed || s.dev.lost != nil {
		if err := s.checkUsable("synchronizing stream " + s.name); err != nil {
			return err
		}
	}
	if s.rec != nil {
		return s.rec.markFailed(gpuprof.Errorf(gpuprof.ErrUsage,
			"capturing stream %s: it cannot be synchronized while captured", s.name).WithFix("synchronize before or after the capture"))
	}
	start := s.dev.clockNS()
	err := s.wait()
	s.dev.meter.SyncPoints++
	s.dev.meter.BlockedNS += s.dev.clockNS() - start
	return err
}

// wait blocks until the stream is empty. Unlike Sync, it does not add to the meter's synchronizations and blocked time.
func (s *Stream) wait() error {
	if s.dev.lost != nil {
		return s.dev.reportLost()
	}
	if r := s.dev.drv.StreamSync(s.h); r != success {
		if err := s.dev.retryWithContext(r, func() Result { return s.dev.drv.StreamSync(s.h) }, "synchronizing stream "+s.name); err != nil {
			return err
		}
	}
	s.markPassed()
	return nil
}

// Close waits for the stream's work and destroys the stream. It returns the failure of that work unless an earlier
// call did. Closing again does nothing.
func (s *Stream) Close() error {
	if s.closed {
		return nil
	}
	d := s.dev
	s.closed = true
	s.rec = nil
	d.streams = slices.DeleteFunc(d.streams, func(other *Stream) bool { return other == s })
	told := d.lostReported
	runtime.LockOSThread() // see Device.enter
	defer runtime.UnlockOSThread()
	err := d.check(d.drv.CtxSet(d.ctx), "closing stream "+s.name)
	if err == nil {
		err = s.wait()
	}
	err = errors.Join(err, d.blas.releaseStream(s.h), d.dnn.releaseStream(s.h), d.checkRelease(d.drv.StreamDestroy(s.h), "closing stream "+s.name))
	if at := &d.slots[s.slot]; !at.shared {
		*at = slot{passed: at.passed}
	}
	if err != nil && told {
		return nil
	}
	return err
}
