package events

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/device/ptx"
)

// Tracer wraps a device and can record an event before and after every launch and copy. Workloads run on a Tracer as on
// the device. Tracing is on only in the Kernels pass; while off, it costs one comparison per launch.
type Tracer struct {
	device.Device
	on    bool
	stage int
	recs  []launchRecord
	used  int
	lost  int

	touched bool
	code    map[string]digest // hashes of PTX texts, by their compressed form
}

type launchRecord struct {
	name     string
	stage    int
	stream   device.Stream
	from, to device.Event
	fn       device.Func
	n        int
	args     device.Args
}

// Launch is a traced launch or copy; times are on the caller's clock.
type Launch struct {
	Kernel     string
	Stage      int
	Stream     device.Stream
	Start, End int64 // nanoseconds
	// Func, N and Args are the kernel, its number of items and its arguments; Func is nil for a copy, a replay of a
	// graph and a library call.
	Func device.Func
	N    int
	Args device.Args
}

// NewTracer wraps a device.
func NewTracer(d device.Device) *Tracer { return &Tracer{Device: d} }

// Enable starts tracing of up to n launches.
func (t *Tracer) Enable(n int) error {
	for len(t.recs) < n {
		from, err := t.NewEvent()
		if err != nil {
			return fmt.Errorf("making events for %d launches: %w", n, err)
		}
		to, err := t.NewEvent()
		if err != nil {
			return fmt.Errorf("making events for %d launches: %w", n, err)
		}
		t.recs = append(t.recs, launchRecord{from: from, to: to})
	}
	t.on, t.used, t.lost = true, 0, 0
	return nil
}

type digest = [sha256.Size]byte

// Disable stops tracing.
func (t *Tracer) Disable() { t.on = false }

// Alloc implements device.Device.
func (t *Tracer) Alloc(n int, p device.Place) (device.Buffer, error) {
	t.touched = true
	return t.Device.Alloc(n, p)
}

// Load implements device.Device.
func (t *Tracer) Load(k *device.Kernel) (device.Func, error) {
	t.touched = true
	if k != nil && k.PTX != "" && t.code[k.PTX] == (digest{}) {
		if t.code == nil {
			t.code = map[string]digest{}
		}
		if text, err := ptx.Text(k); err == nil { // a kernel without text fails in the device's Load
			t.code[k.PTX] = sha256.Sum256([]byte(text))
		}
	}
	return t.Device.Load(k)
}

// Touched reports whether the device was asked for memory, a kernel or a stream. If a workload's set-up fails before
// that, the device is not the cause.
func (t *Tracer) Touched() bool { return t.touched }

// CodeHash identifies the PTX of all loaded kernels, in any order: the first 16 hexadecimal digits of the SHA-256 of
// their sorted SHA-256s. "" if the device runs no PTX.
func (t *Tracer) CodeHash() string {
	if len(t.code) == 0 || t.Info().Kind == "host" {
		return ""
	}
	sums := slices.SortedFunc(maps.Values(t.code), func(a, b digest) int { return bytes.Compare(a[:], b[:]) })
	h := sha256.New()
	for _, sum := range sums {
		h.Write(sum[:])
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// NewStream implements device.Device.
func (t *Tracer) NewStream(name string) (device.Stream, error) {
	t.touched = true
	s, err := t.Device.NewStream(name)
	if err != nil {
		return nil, err
	}
	return &tracedStream{Stream: s, t: t, name: name}, nil
}

// Capture implements device.Device.
func (t *Tracer) Capture(s device.Stream, fn func() error) (device.Op, error) {
	ts, ok := s.(*tracedStream)
	if !ok {
		return nil, gpuprof.Errorf(gpuprof.ErrDevice, "capturing a graph: the stream belongs to another device")
	}
	op, err := t.Device.Capture(ts.Stream, fn)
	if err != nil {
		return nil, err
	}
	return t.traceOp(op), nil
}

// traceOp wraps an Op of the device. On a traced stream, the wrapper enqueues the Op on the device's stream and records
// one launch.
func (t *Tracer) traceOp(op device.Op) device.Op {
	parts := op.Parts()
	name := fmt.Sprintf("graph of %d launches", len(parts))
	if len(parts) == 1 {
		name = parts[0].Kernel
	}
	return &tracedOp{op, t, name}
}

type tracedOp struct {
	device.Op
	t    *Tracer
	name string
}

func (o *tracedOp) Enqueue(s device.Stream) error {
	ts, ok := s.(*tracedStream)
	if !ok {
		return o.Op.Enqueue(s)
	}
	if !o.t.on {
		return o.Op.Enqueue(ts.Stream)
	}
	rec, err := o.t.open(o.name, ts)
	if err != nil {
		return err
	}
	if err := o.Op.Enqueue(ts.Stream); err != nil {
		return err
	}
	return o.t.close(rec, ts)
}

type tracedStream struct {
	device.Stream
	t    *Tracer
	name string
}

func (s *tracedStream) String() string { return s.name }

func (s *tracedStream) Launch(f device.Func, n int, a *device.Args) error {
	if !s.t.on {
		return s.Stream.Launch(f, n, a)
	}
	rec, err := s.t.open(f.Kernel().Name, s)
	if err != nil {
		return err
	}
	if err := s.Stream.Launch(f, n, a); err != nil {
		return err
	}
	if rec != nil {
		rec.fn, rec.n, rec.args = f, n, device.Args{}
		if a != nil { // only kernels have parameters
			rec.args = *a
		}
	}
	return s.t.close(rec, s)
}

func (s *tracedStream) Copy(dst device.Buffer, dstOff int, src device.Buffer, srcOff, n int) error {
	if !s.t.on {
		return s.Stream.Copy(dst, dstOff, src, srcOff, n)
	}
	rec, err := s.t.open("copy "+src.Place().String()+" to "+dst.Place().String(), s)
	if err != nil {
		return err
	}
	if err := s.Stream.Copy(dst, dstOff, src, srcOff, n); err != nil {
		return err
	}
	return s.t.close(rec, s)
}

func (t *Tracer) open(name string, s *tracedStream) (*launchRecord, error) {
	if t.used == len(t.recs) {
		t.lost++
		return nil, nil
	}
	rec := &t.recs[t.used]
	t.used++
	rec.name, rec.stage, rec.stream, rec.fn = name, t.stage, s, nil
	return rec, s.Stream.Record(rec.from)
}

func (t *Tracer) close(rec *launchRecord, s *tracedStream) error {
	if rec == nil {
		return nil
	}
	return s.Stream.Record(rec.to)
}

// Lost returns the number of launches without a record since Enable.
func (t *Tracer) Lost() int { return t.lost }

func (t *Tracer) drainLaunches(anchor device.Event, anchorHost int64, clock *synchroniser) ([]Launch, error) {
	out := make([]Launch, 0, t.used)
	for i := range t.used {
		rec := &t.recs[i]
		from, err := t.ElapsedNS(anchor, rec.from)
		if err == nil {
			var to int64
			to, err = t.ElapsedNS(anchor, rec.to)
			out = append(out, Launch{
				Kernel: rec.name, Stage: rec.stage, Stream: rec.stream,
				Start: anchorHost + clock.hostTime(from), End: anchorHost + clock.hostTime(to),
				Func: rec.fn, N: rec.n, Args: rec.args,
			})
		}
		if err != nil {
			return nil, fmt.Errorf("reading kernel %s: %w", rec.name, err)
		}
	}
	return out, nil
}
