package host

import (
	"fmt"
	"runtime/debug"
	"slices"
	"sync/atomic"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device"
)

// Stream is an in-order queue with its own goroutine.
type Stream struct {
	queue
	dev         *Device
	name        string
	closed      bool
	rec         *recording // not nil during a Capture
	exited      chan struct{}
	errReported bool // the caller has received the failure

	job job // the stream's job in the pool

	err      error         // set once, before failedAt
	failedAt atomic.Uint64 // number of the item that failed; 0 for none
}

// NewStream implements device.Device.
func (d *Device) NewStream(name string) (device.Stream, error) {
	if d.closed {
		return nil, errClosed("making a stream")
	}
	if name == "" {
		return nil, gpuprof.Errorf(gpuprof.ErrUsage, "making a stream on host: it needs a name for messages and reports")
	}
	s := &Stream{dev: d, name: name, exited: make(chan struct{})}
	s.queue.init()
	s.nudge = d.nudge
	s.job.init()
	d.streams = append(d.streams, s)
	go s.runItems()
	return s, nil
}

func (s *Stream) String() string { return "stream " + s.name }

func (s *Stream) checkUsable(doing string) error {
	if s.dev.closed {
		return errClosed(doing)
	}
	if s.closed {
		return gpuprof.Errorf(gpuprof.ErrUsage, "%s on host: stream %s is closed", doing, s.name).WithFix("make a new one")
	}
	return nil
}

// Launch implements device.Stream. n may be 0, which runs nothing.
func (s *Stream) Launch(f device.Func, n int, a *device.Args) error {
	fn, ok := f.(*kernelFunc)
	if s.closed || !ok || fn.dev != s.dev || n < 0 {
		return s.launchFault(f, n)
	}
	if a == nil {
		var err error
		if a, err = fn.kernel.Given(a, s.name); err != nil {
			return err
		}
	}
	for _, i := range fn.bufs {
		if b, ok := a[i].Buf.(*Buffer); !ok || b == nil || b.dev != s.dev || b.mem == nil {
			_, fault := s.dev.checkBuffer(a[i].Buf)
			return fault.Of("launching kernel %s on stream %s: argument %d", fn.kernel.Name, s.name, i)
		}
	}
	if s.rec != nil {
		s.rec.items = append(s.rec.items, item{kind: itemLaunch, fn: fn, n: n, args: *a})
		return nil
	}
	it := s.nextSlot()
	it.kind, it.fn, it.n = itemLaunch, fn, n
	// Copy only the arguments of the signature: Args has 480 bytes, and most kernels use 100.
	k := len(fn.kernel.Sig)
	copy(it.args[:k], a[:k])
	s.publish()
	s.dev.meter.Launches++
	return nil
}

func (s *Stream) launchFault(f device.Func, n int) error {
	if err := s.checkUsable("launching a kernel"); err != nil {
		return err
	}
	fn, ok := f.(*kernelFunc)
	if !ok || fn.dev != s.dev {
		return gpuprof.Errorf(gpuprof.ErrUsage,
			"launching a kernel on stream %s: the kernel was loaded by another device", s.name).WithFix("load it on this one")
	}
	return gpuprof.Errorf(gpuprof.ErrUsage, "launching kernel %s on stream %s: %d items", fn.kernel.Name, s.name, n).WithFix("give 0 or more")
}

// Copy implements device.Stream. The ranges may overlap.
func (s *Stream) Copy(dst device.Buffer, dstOff int, src device.Buffer, srcOff, n int) error {
	to, from, err := s.checkCopy(dst, dstOff, src, srcOff, n)
	if err != nil {
		return err
	}
	if s.rec != nil {
		s.rec.items = append(s.rec.items, item{kind: itemCopy, dst: to, dstOff: dstOff, src: from, srcOff: srcOff, n: n})
		return nil
	}
	it := s.nextSlot()
	it.kind, it.dst, it.dstOff, it.src, it.srcOff, it.n = itemCopy, to, dstOff, from, srcOff, n
	s.publish()
	s.dev.meter.CountCopy(to.place, from.place, int64(n))
	return nil
}

func (s *Stream) checkCopy(dst device.Buffer, dstOff int, src device.Buffer, srcOff, n int) (to, from *Buffer, err error) {
	if s.closed {
		return nil, nil, s.checkUsable("copying")
	}
	to, fault := s.dev.checkBuffer(dst)
	if fault != (gpuprof.Unfit{}) {
		return nil, nil, fault.Of("copying %d bytes on stream %s: the destination", n, s.name)
	}
	from, fault = s.dev.checkBuffer(src)
	if fault != (gpuprof.Unfit{}) {
		return nil, nil, fault.Of("copying %d bytes on stream %s: the source", n, s.name)
	}
	return to, from, device.CheckCopy(s.name, to, dstOff, from, srcOff, n)
}

// Record implements device.Stream. The event is stamped when the stream reaches it. An event may be recorded again.
func (s *Stream) Record(ev device.Event) error {
	if s.closed {
		return s.checkUsable("recording an event")
	}
	e, fault := s.dev.checkEvent(ev)
	if fault != (gpuprof.Unfit{}) {
		return fault.Of("recording an event on stream %s: the event", s.name)
	}
	if s.rec != nil {
		s.rec.items = append(s.rec.items, item{kind: itemRecord, event: e})
		return nil
	}
	it := s.nextSlot()
	e.gen++
	it.kind, it.event, it.gen = itemRecord, e, e.gen
	s.publish()
	e.stream, e.seq = s, s.last
	return nil
}

// WaitFor implements device.Stream. Recording the event again after this call does not change the wait.
func (s *Stream) WaitFor(ev device.Event) error {
	if s.closed {
		return s.checkUsable("waiting for an event")
	}
	e, fault := s.dev.checkEvent(ev)
	if fault != (gpuprof.Unfit{}) {
		return fault.Of("making stream %s wait for an event: the event", s.name)
	}
	if s.rec != nil {
		return s.rec.markFailed(gpuprof.Errorf(gpuprof.ErrUsage,
			"capturing stream %s: it cannot wait for %s while captured", s.name, e).WithFix("wait before or after the capture"))
	}
	if e.stream == nil {
		return e.checkRecorded("making stream " + s.name + " wait for")
	}
	it := s.nextSlot()
	it.kind, it.after, it.afterSeq = itemWait, e.stream, e.seq
	s.publish()
	return nil
}

// Sync implements device.Stream.
func (s *Stream) Sync() error {
	if s.closed {
		return s.checkUsable("synchronising")
	}
	if s.rec != nil {
		return s.rec.markFailed(gpuprof.Errorf(gpuprof.ErrUsage,
			"capturing stream %s: it cannot be synchronized while captured", s.name).WithFix("synchronize before or after the capture"))
	}
	start := s.dev.clockNS()
	s.await(s.last)
	s.dev.meter.SyncPoints++
	s.dev.meter.BlockedNS += s.dev.clockNS() - start
	return s.failedBefore(s.last)
}

// Close waits for the stream's work and ends its goroutine. It returns the failure of that work unless Sync or an
// event did. Closing again does nothing.
func (s *Stream) Close() error {
	if s.closed {
		return nil
	}
	s.nextSlot().kind = itemQuit
	s.publish()
	<-s.exited
	s.closed = true
	s.rec = nil
	s.dev.streams = slices.DeleteFunc(s.dev.streams, func(other *Stream) bool { return other == s })
	if s.errReported {
		return nil
	}
	return s.failedBefore(s.last)
}

// failedBefore returns the stream's failure if item seq or an earlier one failed. Item seq must be done.
func (s *Stream) failedBefore(seq uint64) error {
	if at := s.failedAt.Load(); at == 0 || at > seq {
		return nil
	}
	s.errReported = true
	return s.err
}

func (s *Stream) runItems() {
	defer close(s.exited)
	debug.SetPanicOnFault(true) // a stale view of freed memory fails the kernel, not the process
	for seq := uint64(1); ; seq++ {
		it := s.awaitItem(seq)
		quit := it.kind == itemQuit
		if it.kind == itemRecord {
			it.event.stamp(it.gen, s.dev.clockNS())
		} else if s.failedAt.Load() == 0 {
			if err := s.runItem(it); err != nil {
				s.err = err
				s.failedAt.Store(seq)
			}
		}
		s.finish(seq)
		if quit {
			return
		}
	}
}

func (s *Stream) runItem(it *item) error {
	switch it.kind {
	case itemLaunch:
		if f := s.dev.pool.run(&s.job, it.fn.kernel, &it.args, it.n); f != nil {
			return gpuprof.Errorf(gpuprof.ErrDevice, "kernel %s on stream %s failed: %w", it.fn.kernel.Name, s.name, f)
		}
	case itemCopy:
		copy(it.dst.mem[it.dstOff:it.dstOff+it.n], it.src.mem[it.srcOff:it.srcOff+it.n])
	case itemWait:
		it.after.await(it.afterSeq)
		if at := it.after.failedAt.Load(); at != 0 && at <= it.afterSeq {
			return fmt.Errorf("stream %s waited for stream %s: %w", s.name, it.after.name, it.after.err)
		}
	}
	return nil
}
