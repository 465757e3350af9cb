package cuda

import (
	"fmt"
	"math"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device"
)

// Event is a CUDA event with timing. The driver gives the time between events as float32 ms, which resolves 1 ns at 16
// ms and 60 ns at 1 s; the GPU's clock resolves about 0.5 us. So measure from an event at the start of the step, not of
// the run.
type Event struct {
	dev    *Device
	id     int
	h      eventHandle
	stream *Stream // of the latest record; nil until recorded
	mark   uint64  // launches before the record
}

func (e *Event) String() string { return fmt.Sprintf("event %d", e.id) }

// NewEvent implements device.Device. The call at which a kernel's fault appears is random, so even on a lost device
// NewEvent returns an event, whose uses return the failure.
func (d *Device) NewEvent() (device.Event, error) {
	const doing = "making an event"
	if d.closed {
		return nil, errClosed(doing)
	}
	e := &Event{dev: d, id: d.lastEvent + 1}
	err := d.enter(doing)
	if err == nil {
		defer d.leave()
		err = d.check(d.drv.EventCreate(&e.h, 0), doing)
	}
	if err != nil && d.lost == nil {
		return nil, err
	}
	d.lastEvent++
	d.events = append(d.events, e)
	return e, nil
}

func (e *Event) recordedOn(s *Stream) { e.stream, e.mark = s, s.dev.launched }

// replaceHandle gives the event a new handle when it is recorded on a second stream while its first record is still
// queued. The second record determines the event's time. With one handle the first record might overwrite that time
// when it executes, because the driver does not document that it does not.
func (e *Event) replaceHandle() error {
	d := e.dev
	if r := d.drv.EventQuery(e.h); r == success {
		return nil
	}
	doing := "recording " + e.String() + " again"
	if err := d.enter(doing); err != nil {
		return err
	}
	defer d.leave()
	if r := d.drv.EventQuery(e.h); r != errNotReady {
		return d.check(r, doing)
	}
	for i, h := range d.spare { // reuse a handle whose own record is done
		if d.drv.EventQuery(h) == success {
			e.h, d.spare[i] = h, e.h
			return nil
		}
	}
	var h eventHandle
	if err := d.check(d.drv.EventCreate(&h, 0), doing); err != nil {
		return err
	}
	e.h, d.spare = h, append(d.spare, e.h)
	return nil
}

// checkRecorded returns the reason why the event has no time, or nil.
func (e *Event) checkRecorded(doing string) error {
	switch {
	case e.dev.closed:
		return errClosed(doing + " " + e.String())
	case e.dev.lost != nil:
		return e.dev.reportLost()
	case e.stream == nil:
		return gpuprof.Errorf(gpuprof.ErrUsage, "%s %s on CUDA: it was never recorded", doing, e).WithFix("record it on a stream first")
	}
	return nil
}

// Done implements device.Event.
func (e *Event) Done() (bool, error) {
	if e.dev.closed || e.dev.lost != nil || e.stream == nil {
		return false, e.checkRecorded("querying")
	}
	r := e.dev.drv.EventQuery(e.h)
	if r == success || r == errNotReady {
		return r == success, nil
	}
	err := e.dev.retryWithContext(r, func() Result { r = e.dev.drv.EventQuery(e.h); return acceptNotReady(r) }, "querying "+e.String())
	return err == nil && r == success, err
}

func acceptNotReady(r Result) Result {
	if r == errNotReady {
		return success
	}
	return r
}

// Wait implements device.Event.
func (e *Event) Wait() error {
	if e.dev.closed || e.dev.lost != nil || e.stream == nil {
		return e.checkRecorded("waiting for")
	}
	d := e.dev
	start := d.clockNS()
	r := d.drv.EventSync(e.h)
	d.meter.EventWaits++
	d.meter.BlockedNS += d.clockNS() - start
	if r != success {
		if err := d.retryWithContext(r, func() Result { return d.drv.EventSync(e.h) }, "waiting for "+e.String()); err != nil {
			return err
		}
	}
	if at := &d.slots[e.stream.slot]; !at.shared {
		at.passed = max(at.passed, e.mark)
	}
	return nil
}

// ElapsedNS implements device.Device. See [Event] for its resolution.
func (d *Device) ElapsedNS(from, to device.Event) (int64, error) {
	a, err := d.checkStamped(from, "first")
	if err != nil {
		return 0, err
	}
	b, err := d.checkStamped(to, "second")
	if err != nil {
		return 0, err
	}
	r := d.drv.EventElapsed(d.ms, a.h, b.h)
	if r == errNotReady {
		return 0, gpuprof.Errorf(gpuprof.ErrUsage,
			"time between events on CUDA: %s or %s has not been passed yet", a, b).WithFix("wait for it first")
	}
	if r != success {
		if err := d.retryWithContext(r, func() Result { return d.drv.EventElapsed(d.ms, a.h, b.h) }, fmt.Sprintf("time between %s and %s", a, b)); err != nil {
			return 0, err
		}
	}
	return int64(math.Round(float64(*d.ms) * 1e6)), nil
}

func (d *Device) checkStamped(ev device.Event, which string) (*Event, error) {
	e, ok := ev.(*Event)
	if !ok || e == nil || e.dev != d {
		_, fault := d.checkEvent(ev)
		return nil, fault.Of("time between events on CUDA: the %s event", which)
	}
	if d.closed || d.lost != nil || e.stream == nil {
		return nil, e.checkRecorded("time between events:")
	}
	return e, nil
}

// checkEvent returns e as an event of d, or the reason why it is unusable.
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
