package events

import (
	"fmt"

	"github.com/gpuprof/gpuprof"
)

// Tracer is a device that can also put an event on either side of every
// launch and copy. A session opened on it runs unchanged; tracing is switched
// on for the separate kernel pass only, and costs one comparison a launch
// otherwise.
type Tracer struct {
	gpuprof.Device
	on    bool
	stage int
	recs  []launchRecord
	used  int
	lost  int
}

type launchRecord struct {
	name     string
	stage    int
	stream   gpuprof.Stream
	from, to gpuprof.Event
}

// Launch is one traced launch or copy, on the caller's clock.
type Launch struct {
	Kernel     string
	Stage      int
	Stream     gpuprof.Stream
	Start, End int64 // nanoseconds
}

// NewTracer wraps a device.
func NewTracer(d gpuprof.Device) *Tracer { return &Tracer{Device: d} }

// Enable starts tracing up to n launches.
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

// Disable stops tracing.
func (t *Tracer) Disable() { t.on = false }

// SetThreads implements gpuprof.Threader when the device does.
func (t *Tracer) SetThreads(n int) error {
	d, ok := t.Device.(gpuprof.Threader)
	if !ok {
		return gpuprof.Errorf(gpuprof.ErrUsage, "setting threads=%d: device %s has no CPU threads to limit; leave threads at all", n, t.Info().Name)
	}
	return d.SetThreads(n)
}

// NewStream implements gpuprof.Device.
func (t *Tracer) NewStream(name string) (gpuprof.Stream, error) {
	s, err := t.Device.NewStream(name)
	if err != nil {
		return nil, err
	}
	return &tracedStream{Stream: s, t: t, name: name}, nil
}

// Capture implements gpuprof.Device.
func (t *Tracer) Capture(s gpuprof.Stream, fn func() error) (gpuprof.Op, error) {
	ts, ok := s.(*tracedStream)
	if !ok {
		return nil, gpuprof.Errorf(gpuprof.ErrDevice, "capturing a graph: the stream belongs to another device")
	}
	op, err := t.Device.Capture(ts.Stream, fn)
	if err != nil {
		return nil, err
	}
	return tracedOp{op}, nil
}

// tracedOp replays a captured graph on the stream behind the traced one.
type tracedOp struct{ gpuprof.Op }

func (o tracedOp) Enqueue(s gpuprof.Stream) error {
	if ts, ok := s.(*tracedStream); ok {
		s = ts.Stream
	}
	return o.Op.Enqueue(s)
}

type tracedStream struct {
	gpuprof.Stream
	t    *Tracer
	name string
}

func (s *tracedStream) String() string { return s.name }

func (s *tracedStream) Launch(f gpuprof.Func, n int, a *gpuprof.Args) error {
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
	return s.t.close(rec, s)
}

func (s *tracedStream) Copy(dst gpuprof.Buffer, dstOff int, src gpuprof.Buffer, srcOff, n int) error {
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
	rec.name, rec.stage, rec.stream = name, t.stage, s
	return rec, s.Stream.Record(rec.from)
}

func (t *Tracer) close(rec *launchRecord, s *tracedStream) error {
	if rec == nil {
		return nil
	}
	return s.Stream.Record(rec.to)
}

// Lost is how many launches found no room since Enable.
func (t *Tracer) Lost() int { return t.lost }

func (t *Tracer) drain(anchor gpuprof.Event, anchorHost int64) ([]Launch, error) {
	out := make([]Launch, 0, t.used)
	for i := range t.used {
		rec := &t.recs[i]
		from, err := t.ElapsedNS(anchor, rec.from)
		if err == nil {
			var to int64
			to, err = t.ElapsedNS(anchor, rec.to)
			out = append(out, Launch{rec.name, rec.stage, rec.stream, anchorHost + from, anchorHost + to})
		}
		if err != nil {
			return nil, fmt.Errorf("reading kernel %s: %w", rec.name, err)
		}
	}
	return out, nil
}
