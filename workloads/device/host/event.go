package host

import (
	"fmt"
	"sync"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device"
)

// Event marks a place in a stream: it holds the stream and the item number of its latest Record. The stream's count of
// done items shows whether the event has passed, so an event needs no signal of its own.
type Event struct {
	dev *Device
	id  int

	// Fields that the caller's goroutine uses.
	stream *Stream // nil until recorded
	seq    uint64
	gen    uint64 // counts Record calls

	// Fields that streams write. If an event is recorded on a second stream while its first record is queued, both
	// streams stamp it; the later Record call wins in either order.
	mu       sync.Mutex
	ns       int64
	stampGen uint64
}

func (e *Event) String() string { return fmt.Sprintf("event %d", e.id) }

func (e *Event) stamp(gen uint64, ns int64) {
	e.mu.Lock()
	if gen > e.stampGen {
		e.stampGen, e.ns = gen, ns
	}
	e.mu.Unlock()
}

func (e *Event) checkRecorded(doing string) error {
	if e.dev.closed {
		return errClosed(doing + " " + e.String())
	}
	if e.stream == nil {
		return gpuprof.Errorf(gpuprof.ErrUsage, "%s %s on host: it was never recorded", doing, e).WithFix("record it on a stream first")
	}
	return nil
}

// Done implements device.Event. It returns the failure of the stream's work before the event, if any.
func (e *Event) Done() (bool, error) {
	if err := e.checkRecorded("querying"); err != nil {
		return false, err
	}
	if e.stream.done.Load() < e.seq {
		return false, nil
	}
	return true, e.stream.failedBefore(e.seq)
}

// Wait implements device.Event.
func (e *Event) Wait() error {
	if err := e.checkRecorded("waiting for"); err != nil {
		return err
	}
	start := e.dev.clockNS()
	e.stream.await(e.seq)
	e.dev.meter.EventWaits++
	e.dev.meter.BlockedNS += e.dev.clockNS() - start
	return e.stream.failedBefore(e.seq)
}

// NewEvent implements device.Device.
func (d *Device) NewEvent() (device.Event, error) {
	if d.closed {
		return nil, errClosed("making an event")
	}
	d.lastEvent++
	return &Event{dev: d, id: d.lastEvent}, nil
}

// ElapsedNS implements device.Device: nanoseconds on the monotonic clock, negative if to passed before from.
func (d *Device) ElapsedNS(from, to device.Event) (int64, error) {
	a, err := d.stampOf(from, "first")
	if err != nil {
		return 0, err
	}
	b, err := d.stampOf(to, "second")
	if err != nil {
		return 0, err
	}
	return b - a, nil
}

func (d *Device) stampOf(e device.Event, which string) (int64, error) {
	mine, fault := d.checkEvent(e)
	if fault != (gpuprof.Unfit{}) {
		return 0, fault.Of("time between events on host: the %s event", which)
	}
	done, err := mine.Done()
	if err != nil {
		return 0, fmt.Errorf("time between events on host: %w", err)
	}
	if !done {
		return 0, gpuprof.Errorf(gpuprof.ErrUsage,
			"time between events on host: stream %s has not passed %s yet", mine.stream.name, mine).WithFix("wait for it first")
	}
	mine.mu.Lock()
	defer mine.mu.Unlock()
	return mine.ns, nil
}

func (d *Device) checkEvent(e device.Event) (*Event, gpuprof.Unfit) {
	mine, ok := e.(*Event)
	switch {
	case e == nil || ok && mine == nil:
		return nil, gpuprof.Unfit{Why: "is not set", Fix: "make it with NewEvent"}
	case !ok || mine.dev != d:
		return nil, gpuprof.Unfit{Why: "belongs to another device", Fix: "make it on this one"}
	}
	return mine, gpuprof.Unfit{}
}
