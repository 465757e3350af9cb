// Package mutate tests a workload's check (mutation testing). It changes single launches of the workload's steps and
// reports which of the changes the check finds. It leaves a launch out, repeats it, exchanges it with the next one, or
// gives it another buffer of the same size. Each change must make the check fail, or change no result.
//
// The mutations are made between the workload and the host device, so that they need nothing of the workload but its
// session. The package imports the device's contract and the host device; no production package imports it.
package mutate

import (
	"slices"

	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/device/host"
)

// Device is a host device whose launches can be changed. Its memory holds NaN when it is allocated.
type Device struct {
	*host.Device
	cache int64

	recording bool
	steps     [][]launched
	change    *mutation
	results   []device.Buffer // host memory that copies from the device write to
}

// launched is one launch of a step. The address of its arguments identifies it, because a session uses the same Args
// each time it repeats the launch.
type launched struct {
	args   *device.Args
	kernel *device.Kernel
	bufs   map[int]device.Buffer // by argument
}

// Wrap returns a device that can change its launches. cacheBytes is the size of the cache that it reports.
func Wrap(d *host.Device, cacheBytes int64) *Device { return &Device{Device: d, cache: cacheBytes} }

// Info implements device.Device.
func (d *Device) Info() device.Info {
	i := d.Device.Info()
	i.CacheBytes = d.cache
	return i
}

// Alloc implements device.Device.
func (d *Device) Alloc(n int, p device.Place) (device.Buffer, error) {
	b, err := d.Device.Alloc(n, p)
	if err == nil {
		for i, bytes := 0, b.Bytes(); i < len(bytes); i++ {
			bytes[i] = 0xff
		}
	}
	return b, err
}

// NewStream implements device.Device.
func (d *Device) NewStream(name string) (device.Stream, error) {
	s, err := d.Device.NewStream(name)
	if err != nil {
		return nil, err
	}
	return &stream{Stream: s, d: d}, nil
}

// Capture implements device.Device.
func (d *Device) Capture(s device.Stream, fn func() error) (device.Op, error) {
	o, err := d.Device.Capture(inner(s), func() error {
		if err := fn(); err != nil {
			return err
		}
		return flush(s)
	})
	if err != nil {
		return nil, err
	}
	return op{o}, nil
}

type op struct{ device.Op }

func (o op) Enqueue(s device.Stream) error {
	if err := flush(s); err != nil {
		return err
	}
	return o.Op.Enqueue(inner(s))
}

// stream changes launches on their way to a stream of the host device.
type stream struct {
	device.Stream
	d    *Device
	held func() error // a launch that waits for the next one, to be exchanged with it
}

func inner(s device.Stream) device.Stream {
	if w, ok := s.(*stream); ok {
		return w.Stream
	}
	return s
}

func flush(s device.Stream) error {
	w, ok := s.(*stream)
	if !ok || w.held == nil {
		return nil
	}
	held := w.held
	w.held = nil
	return held()
}

// Launch implements device.Stream.
func (s *stream) Launch(f device.Func, n int, a *device.Args) error {
	if s.d.recording && a != nil {
		s.d.record(f, a)
	}
	m := s.d.change
	if m == nil || a == nil || !slices.Contains(m.args, a) {
		if err := s.Stream.Launch(f, n, a); err != nil {
			return err
		}
		return flush(s)
	}
	if err := flush(s); err != nil {
		return err
	}
	switch m.kind {
	case deleted:
		return nil
	case doubled:
		if err := s.Stream.Launch(f, n, a); err != nil {
			return err
		}
		return s.Stream.Launch(f, n, a)
	case exchanged:
		later := *a
		s.held = func() error { return s.Stream.Launch(f, n, &later) }
		return nil
	}
	bound := *a
	offset := int64(a[m.at].Bits - a[m.at].Buf.Addr())
	bound.SetBufAt(m.at, m.to, offset)
	return s.Stream.Launch(f, n, &bound)
}

func (d *Device) record(f device.Func, a *device.Args) {
	step := &d.steps[len(d.steps)-1]
	if slices.ContainsFunc(*step, func(l launched) bool { return l.args == a }) {
		return
	}
	l := launched{args: a, kernel: f.Kernel(), bufs: map[int]device.Buffer{}}
	for i, letter := range l.kernel.Sig {
		if letter == 'b' {
			l.bufs[i] = a[i].Buf
		}
	}
	*step = append(*step, l)
}

// Copy implements device.Stream.
func (s *stream) Copy(dst device.Buffer, dstOff int, src device.Buffer, srcOff, n int) error {
	if dst.Place() != device.OnDevice && !slices.Contains(s.d.results, dst) {
		s.d.results = append(s.d.results, dst)
	}
	if err := flush(s); err != nil {
		return err
	}
	return s.Stream.Copy(dst, dstOff, src, srcOff, n)
}

// Record implements device.Stream.
func (s *stream) Record(e device.Event) error {
	if err := flush(s); err != nil {
		return err
	}
	return s.Stream.Record(e)
}

// WaitFor implements device.Stream.
func (s *stream) WaitFor(e device.Event) error {
	if err := flush(s); err != nil {
		return err
	}
	return s.Stream.WaitFor(e)
}

// Sync implements device.Stream.
func (s *stream) Sync() error {
	if err := flush(s); err != nil {
		return err
	}
	return s.Stream.Sync()
}
