// Package events measures the stages of a step: by device events around each stage on its stream, and by the
// caller's clock around the same calls.
//
// A Recorder is filled inside the timed region without allocating or reading back, and drained after the block,
// when the streams are idle.
package events

import (
	"fmt"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device"
)

// Pass selects what a Recorder records.
type Pass uint8

const (
	// Bare records only the begin event of each step. The ratio of probed to bare steps is the cost of the probe.
	Bare Pass = iota
	// Probed also records every stage.
	Probed
	// Kernels also records every launch and the stages' counters. It is too slow for absolute times, so only shares
	// count.
	Kernels
	// Nothing records no event: the caller's clock alone times the block, as the baseline of the cost of probes. Such a
	// block is not drained.
	Nothing
)

var clockBase = time.Now()

// Now returns the caller's monotonic clock in nanoseconds since the program's start.
func Now() int64 { return int64(time.Since(clockBase)) }

// Began returns the start of the process, which is the zero of Now.
func Began() time.Time { return clockBase }

type spanRecord struct {
	stage    int
	stream   device.Stream
	from, to device.Event // events on stream; unused if stream is nil
	h0, h1   int64
	m0, m1   device.Meter // Kernels pass only
}

type stepRecord struct {
	begin     device.Event
	end       device.Event // unused without EndEvents
	hostBegin int64
	spans     []spanRecord
	used      int
}

// Recorder is a workloads.Probe that records one block of steps at a time.
type Recorder struct {
	dev    device.Device
	main   device.Stream
	stages []gpuprof.Stage
	pass   Pass
	steps  []stepRecord
	n      int // steps begun
	anchor device.Event
	end    device.Event
	tracer *Tracer
	err    error
	sync   synchroniser
}

// NewRecorder returns a recorder for blocks of at most steps steps, with all events created in advance. tracer records
// the launches of the Kernels pass.
func NewRecorder(dev device.Device, main device.Stream, stages []gpuprof.Stage, steps int, tracer *Tracer) (*Recorder, error) {
	r := &Recorder{dev: dev, main: main, stages: stages, steps: make([]stepRecord, steps), tracer: tracer}
	spans := 0
	for _, s := range stages {
		spans += s.MaxSpans
	}
	var err error
	event := func() device.Event {
		e, e1 := dev.NewEvent()
		if e1 != nil && err == nil {
			err = fmt.Errorf("making events for %d steps of %d spans: %w", steps, spans, e1)
		}
		return e
	}
	r.anchor, r.end, r.sync.origin = event(), event(), event()
	for i := range r.steps {
		r.steps[i].begin = event()
		r.steps[i].spans = make([]spanRecord, spans)
		for j := range r.steps[i].spans {
			r.steps[i].spans[j].from, r.steps[i].spans[j].to = event(), event()
		}
		if err != nil {
			return nil, err
		}
	}
	return r, err
}

// Capacity returns the largest number of steps in a block.
func (r *Recorder) Capacity() int { return len(r.steps) }

// EndEvents adds an end event to every step, for steps with gaps between them. The caller must then call EndStep after
// each.
func (r *Recorder) EndEvents() error {
	for i := range r.steps {
		if r.steps[i].end != nil {
			continue
		}
		e, err := r.dev.NewEvent()
		if err != nil {
			return fmt.Errorf("making events for the ends of %d steps: %w", len(r.steps), err)
		}
		r.steps[i].end = e
	}
	return nil
}

// EndStep records the end of the latest step on the main stream.
func (r *Recorder) EndStep() error {
	if r.pass == Nothing {
		return nil
	}
	if err := r.main.Record(r.steps[r.n-1].end); err != nil {
		return fmt.Errorf("recording the end of a step: %w", err)
	}
	return nil
}

// Reset empties the recorder for a block of pass p and relates the device's clock to the caller's (synchroniser). The
// streams must be idle. anchorHost is the time of the block's anchor event, in ns of Now; slack bounds its error, ns.
func (r *Recorder) Reset(p Pass) (anchorHost, slack int64, err error) {
	r.pass, r.n, r.err = p, 0, nil
	return r.sync.reset(r.dev, r.main, r.anchor)
}

// Drift returns the caller's seconds per device second, with the relative uncertainty. ok is false until two blocks
// were far enough apart to measure the ratio.
func (r *Recorder) Drift() (rate, uncertainty float64, ok bool) {
	return r.sync.measured, r.sync.bound, r.sync.measured > 0
}

// Start implements workloads.Probe.
func (r *Recorder) Start(int) error {
	if r.pass == Nothing {
		return nil
	}
	if r.n == len(r.steps) {
		return fmt.Errorf("recording a step: the block of %d steps is full", len(r.steps))
	}
	s := &r.steps[r.n]
	r.n++
	s.used = 0
	s.hostBegin = Now()
	if err := r.main.Record(s.begin); err != nil {
		return fmt.Errorf("recording the begin of a step: %w", err)
	}
	return nil
}

// Begin implements workloads.Probe.
func (r *Recorder) Begin(stage int, s device.Stream) int {
	if r.pass == Bare || r.pass == Nothing {
		return -1
	}
	step := &r.steps[r.n-1]
	if step.used == len(step.spans) {
		r.fail(fmt.Errorf("recording stage %s: the step has more than its %d spans", r.stages[stage].Name, len(step.spans)))
		return -1
	}
	i := step.used
	step.used++
	sp := &step.spans[i]
	sp.stage, sp.stream = stage, s
	sp.h0 = Now()
	if s != nil {
		r.fail(s.Record(sp.from))
	}
	if r.pass == Kernels {
		sp.m0 = r.dev.Meter()
		if r.tracer != nil {
			r.tracer.stage = stage
		}
	}
	return i
}

// End implements workloads.Probe.
func (r *Recorder) End(i int) {
	if i < 0 {
		return
	}
	sp := &r.steps[r.n-1].spans[i]
	if r.pass == Kernels {
		sp.m1 = r.dev.Meter()
	}
	if sp.stream != nil {
		r.fail(sp.stream.Record(sp.to))
	}
	sp.h1 = Now()
}

func (r *Recorder) fail(err error) {
	if err != nil && r.err == nil {
		r.err = err
	}
}

// Finish records the end of the last step; call it before the final Sync.
func (r *Recorder) Finish() error {
	if r.err != nil {
		return r.err
	}
	return r.main.Record(r.end)
}

// Err returns the first failure in the block, or nil.
func (r *Recorder) Err() error { return r.err }
