package host

import (
	"fmt"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device"
)

// recording collects the operations enqueued during a capture.
type recording struct {
	items []item
	err   error // first operation that cannot be replayed
}

// markFailed makes the capture fail even if fn ignores err.
func (r *recording) markFailed(err error) error {
	if r.err == nil {
		r.err = err
	}
	return err
}

// captured replays a recording.
type captured struct {
	dev   *Device
	items []item
	parts []gpuprof.Part
}

// Capture implements device.Device. While fn runs, launches, copies and records on s are recorded with their current
// arguments; they are neither run nor counted. Waiting on s or a second Capture inside fn is an error. The Op's Parts
// have one launch each, without flops and bytes, which the device does not know.
func (d *Device) Capture(st device.Stream, fn func() error) (device.Op, error) {
	if d.closed {
		return nil, errClosed("capturing a stream")
	}
	s, ok := st.(*Stream)
	if !ok || s == nil || s.dev != d {
		return nil, gpuprof.Errorf(gpuprof.ErrUsage, "capturing a stream on host: the stream belongs to another device").WithFix("make it on this one")
	}
	if err := s.checkUsable("capturing"); err != nil {
		return nil, err
	}
	if d.capturing != nil {
		return nil, d.capturing.rec.markFailed(gpuprof.Errorf(gpuprof.ErrUsage,
			"capturing stream %s: stream %s is being captured", s.name, d.capturing.name).WithFix("finish that capture first"))
	}
	rec := &recording{}
	s.rec, d.capturing = rec, s
	defer func() { s.rec, d.capturing = nil, nil }()
	if err := fn(); err != nil {
		return nil, fmt.Errorf("capturing stream %s: %w", s.name, err)
	}
	if rec.err != nil {
		return nil, rec.err
	}
	op := &captured{dev: d, items: rec.items}
	for i := range op.items {
		if it := &op.items[i]; it.kind == itemLaunch {
			op.parts = append(op.parts, gpuprof.Part{Kernel: it.fn.kernel.Name, Cost: gpuprof.Cost{Launches: 1}})
		}
	}
	return op, nil
}

// Enqueue implements device.Op on any stream of the device.
func (c *captured) Enqueue(st device.Stream) error {
	s, ok := st.(*Stream)
	if !ok || s == nil || s.dev != c.dev {
		return gpuprof.Errorf(gpuprof.ErrUsage, "replaying a capture on host: the stream belongs to another device").WithFix("use one of this device")
	}
	for i := range c.items {
		var err error
		switch it := &c.items[i]; it.kind {
		case itemLaunch:
			err = s.Launch(it.fn, it.n, &it.args)
		case itemCopy:
			err = s.Copy(it.dst, it.dstOff, it.src, it.srcOff, it.n)
		case itemRecord:
			err = s.Record(it.event)
		}
		if err != nil {
			return fmt.Errorf("replaying a capture, item %d of %d: %w", i+1, len(c.items), err)
		}
	}
	return nil
}

// Parts implements device.Op.
func (c *captured) Parts() []gpuprof.Part { return c.parts }
