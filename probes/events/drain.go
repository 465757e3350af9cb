package events

import (
	"fmt"

	"github.com/gpuprof/gpuprof/workloads/device"
)

// Span is one recorded interval of a stage, in nanoseconds of the caller's clock.
type Span struct {
	Stage int
	Step  int // index in the block
	// HostStart and HostEnd bound the caller's time in the span. For a device stage, this is the time to enqueue work.
	HostStart, HostEnd int64
	// DevStart and DevEnd are the times of the span's events on the caller's clock; OnDevice is false without events.
	OnDevice         bool
	DevStart, DevEnd int64
	Stream           device.Stream
	Meter            device.Meter // launches, copies, bytes and waits in the span (Kernels pass only)
}

// Block holds a block's records.
type Block struct {
	// Begin has the device time, ns, at which each step begins and, last, the block ends. The period of step i is
	// Begin[i+1]-Begin[i].
	Begin []int64
	// Ends has the device time, ns, at which each step ends, if EndEvents was called; else nil: a step ends where the
	// next one begins.
	Ends []int64
	// HostBegin has the time, ns, at which each step begins on the caller's clock, without an entry for the block's
	// end.
	HostBegin []int64
	Spans     []Span
	Launches  []Launch // Kernels pass
}

// Drain reads a block's records; the streams must be idle. anchorHost is the result of Reset. Device times are measured
// from the begin event of their step, and each begin event from the previous one. So single-precision times stay exact
// in a long block. They are scaled if the two clocks run at different rates.
func (r *Recorder) Drain(anchorHost int64) (*Block, error) {
	if r.err != nil {
		return nil, r.err
	}
	b := &Block{Begin: make([]int64, 0, r.n+1), HostBegin: make([]int64, 0, r.n)}
	at, prev := anchorHost, r.anchor
	for i := range r.n {
		s := &r.steps[i]
		d, err := r.dev.ElapsedNS(prev, s.begin)
		if err != nil {
			return nil, fmt.Errorf("reading the begin of step %d: %w", i, err)
		}
		at, prev = at+r.sync.hostTime(d), s.begin
		b.Begin, b.HostBegin = append(b.Begin, at), append(b.HostBegin, s.hostBegin)
		if s.end != nil {
			d, err := r.dev.ElapsedNS(s.begin, s.end)
			if err != nil {
				return nil, fmt.Errorf("reading the end of step %d: %w", i, err)
			}
			b.Ends = append(b.Ends, at+r.sync.hostTime(d))
		}
		for j := range s.used {
			sp, err := r.drainSpan(s, &s.spans[j], i, at)
			if err != nil {
				return nil, err
			}
			b.Spans = append(b.Spans, sp)
		}
	}
	d, err := r.dev.ElapsedNS(prev, r.end)
	if err != nil {
		return nil, fmt.Errorf("reading the end of the block: %w", err)
	}
	b.Begin = append(b.Begin, at+r.sync.hostTime(d))
	if r.pass == Kernels && r.tracer != nil {
		if b.Launches, err = r.tracer.drainLaunches(r.anchor, anchorHost, &r.sync); err != nil {
			return nil, err
		}
	}
	return b, nil
}

func (r *Recorder) drainSpan(s *stepRecord, rec *spanRecord, step int, at int64) (Span, error) {
	sp := Span{
		Stage: rec.stage, Step: step, HostStart: rec.h0, HostEnd: rec.h1,
		OnDevice: rec.stream != nil, Stream: rec.stream,
	}
	if r.pass == Kernels {
		sp.Meter = rec.m1.Sub(rec.m0)
	}
	if !sp.OnDevice {
		return sp, nil
	}
	from, err := r.dev.ElapsedNS(s.begin, rec.from)
	if err == nil {
		var to int64
		to, err = r.dev.ElapsedNS(s.begin, rec.to)
		sp.DevStart, sp.DevEnd = at+r.sync.hostTime(from), at+r.sync.hostTime(to)
	}
	if err != nil {
		return sp, fmt.Errorf("reading stage %s of step %d: %w", r.stages[rec.stage].Name, step, err)
	}
	return sp, nil
}
