package loop

import (
	"errors"
	"fmt"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads"
	"github.com/gpuprof/gpuprof/workloads/device"
)

// Pace moves batches through a session: it has up to three streams, and makes the waits that the knobs of this package
// set. Methods called during a step do not allocate.
type Pace struct {
	Compute, Copies device.Stream // one stream with streams=1
	Results         device.Stream // for copies to the host; Compute unless streams=3
	last            device.Event  // recorded after the latest step's work
	Every           int           `knob:"sync"`
	Trims           int           `knob:"pool_trim"`
	Items           int           `knob:"item_reads"`
	Reset           string        `knob:"reset_stats"`
	Blocking        bool          `knob:"async_copy=off"`
	OneStream       bool          `knob:"streams=1"`
	ThreeStreams    bool          `knob:"streams=3"`
	Threads         int           `knob:"threads"`
	Item            device.Buffer // pageable destination of .item()
	Pool            device.Pool   // for reset_stats and pool_trim
	SyncAt, SlotAt  int           // indices of the stages Sync and Backpressure
	stages          []gpuprof.Stage
	// Span has, for each stage in the argument of Describe, its index in Stages.
	Span [mostStages]int
}

// Depth is the number of steps in flight: while the device computes one step, the caller prepares the next.
const Depth = 2

// mostStages is the largest number of stages of a workload.
const mostStages = 32

// Main implements workloads.Session.
func (p *Pace) Main() device.Stream { return p.Compute }

// Depth implements workloads.Session.
func (p *Pace) Depth() int { return Depth }

// Stages implements workloads.Session.
func (p *Pace) Stages() []gpuprof.Stage { return p.stages }

// Describe sets the stages of a step: the stages in all that have spans (MaxSpans is not 0).
func (p *Pace) Describe(all []gpuprof.Stage) {
	p.stages = nil
	for i, st := range all {
		if st.MaxSpans == 0 {
			continue
		}
		p.Span[i] = len(p.stages)
		switch st.Name {
		case Sync:
			p.SyncAt = p.Span[i]
		case Backpressure:
			p.SlotAt = p.Span[i]
		}
		p.stages = append(p.stages, st)
	}
}

// Open sets the device's threads by the knob threads, if the settings have it, and makes the streams.
func (p *Pace) Open(d device.Device) (err error) {
	if err := p.LimitThreads(d); err != nil {
		return err
	}
	if p.Compute, err = d.NewStream("main"); err != nil {
		return err
	}
	p.Copies, p.Results = p.Compute, p.Compute
	if !p.OneStream {
		p.Copies, err = d.NewStream("copy")
	}
	if err == nil && p.ThreeStreams {
		p.Results, err = d.NewStream("result")
	}
	return err
}

// LimitThreads sets the device's threads by the knob threads, if the settings have it.
func (p *Pace) LimitThreads(d device.Device) error {
	if p.Threads == 0 {
		return nil
	}
	limit, ok := d.(device.Threader)
	if !ok {
		return gpuprof.Errorf(gpuprof.ErrUsage, "setting threads=%d: this device has no CPU threads to limit", p.Threads).WithFix("leave threads at all")
	}
	return limit.SetThreads(p.Threads)
}

// CloseStreams waits for work in flight and closes the streams.
func (p *Pace) CloseStreams() error {
	var errs []error
	if p.hasResultStream() {
		errs = append(errs, p.Results.Sync(), p.Results.Close())
	}
	if p.Copies != nil && p.Copies != p.Compute {
		errs = append(errs, p.Copies.Sync(), p.Copies.Close())
	}
	if p.Compute != nil {
		errs = append(errs, p.Compute.Sync(), p.Compute.Close())
	}
	return errors.Join(errs...)
}

// Cycle returns the number of steps after which the waits repeat: the least common multiple of the knobs' periods.
func (p *Pace) Cycle() int {
	return Period(max(p.Every, 1), max(p.Trims, 1))
}

// Period returns the least common multiple of two periods in steps.
func Period(a, b int) int {
	for x, y := a, b; ; x, y = y, x%y {
		if y == 0 {
			return a / x * b
		}
	}
}

// hasResultStream reports whether results are copied on a separate stream.
func (p *Pace) hasResultStream() bool { return p.Results != nil && p.Results != p.Compute }

// resultStream returns the stream whose work ends last.
func (p *Pace) resultStream() device.Stream {
	if p.hasResultStream() {
		return p.Results
	}
	return p.Compute
}

// Events are recorded for a batch in flight: Ready when it is on the device, Done when it is computed, Free when the
// device no longer needs its slot, the memory of one batch in flight. Used is true once Free was recorded.
type Events struct {
	Ready, Done, Free device.Event
	Used              bool
}

// Open makes the events.
func (e *Events) Open(d device.Device) (err error) {
	for _, to := range []*device.Event{&e.Ready, &e.Done, &e.Free} {
		if *to, err = d.NewEvent(); err != nil {
			return err
		}
	}
	return nil
}

// WaitForSlot waits until the device no longer needs the previous batch in a slot, the memory of one batch in flight.
func (p *Pace) WaitForSlot(e *Events, probe workloads.Probe) error {
	if !e.Used {
		return nil
	}
	sp := probe.Begin(p.SlotAt, nil)
	err := e.Free.Wait()
	probe.End(sp)
	return err
}

// WaitForCopy makes the compute stream, and with async_copy=off also the caller, wait for the copies of a batch.
func (p *Pace) WaitForCopy(e *Events, probe workloads.Probe) error {
	if p.Copies != p.Compute {
		if err := p.Copies.Record(e.Ready); err != nil {
			return err
		}
		if err := p.Compute.WaitFor(e.Ready); err != nil {
			return err
		}
	}
	return p.SyncIfBlocking(p.Copies, probe)
}

// Computed makes the result stream wait for the computation.
func (p *Pace) Computed(e *Events) error {
	if !p.hasResultStream() {
		return nil
	}
	if err := p.Compute.Record(e.Done); err != nil {
		return err
	}
	return p.Results.WaitFor(e.Done)
}

// RecordFree records that a slot, the memory of one batch in flight, is free after all work of its batch.
func (p *Pace) RecordFree(e *Events) error {
	e.Used, p.last = true, e.Free
	return p.resultStream().Record(e.Free)
}

// Join implements workloads.Joiner.
func (p *Pace) Join() error {
	if !p.hasResultStream() || p.last == nil {
		return nil
	}
	return p.Compute.WaitFor(p.last)
}

// SyncIfBlocking waits for a copy if async_copy=off.
func (p *Pace) SyncIfBlocking(s device.Stream, probe workloads.Probe) error {
	if !p.Blocking {
		return nil
	}
	return p.Sync(s, probe)
}

// Sync makes the caller wait for a stream, in the stage Sync.
func (p *Pace) Sync(s device.Stream, probe workloads.Probe) error {
	sp := probe.Begin(p.SyncAt, nil)
	err := s.Sync()
	probe.End(sp)
	return err
}

// DevicePool returns the device's memory pool, nil if it does not work, as in wrappers of devices without a pool.
func DevicePool(d device.Device) device.Pool {
	if p, ok := d.(device.Pool); ok && p.ResetPeak() == nil {
		return p
	}
	return nil
}

// Wait ends step i with the waits of the knobs item_reads, reset_stats, pool_trim and sync. It reads p.Items values one
// by one from the first words elements of result, which it repeats if there are fewer.
func (p *Pace) Wait(i int, result device.Buffer, words int, probe workloads.Probe) error {
	for j := range p.Items {
		if _, err := p.Read(result, j%words, probe); err != nil {
			return err
		}
	}
	if err := p.ResetStats(probe); err != nil {
		return err
	}
	if p.Trims > 0 && (i+1)%p.Trims == 0 {
		sp := probe.Begin(p.SyncAt, nil)
		err := p.Pool.TrimPool()
		probe.End(sp)
		if err != nil {
			return err
		}
	}
	if p.Every == 0 || (i+1)%p.Every != 0 {
		return nil
	}
	return p.Sync(p.resultStream(), probe)
}

// Read reads one value of a buffer like .item(): it copies four bytes and waits.
func (p *Pace) Read(from device.Buffer, at int, probe workloads.Probe) (float32, error) {
	sp := probe.Begin(p.SyncAt, nil)
	err := p.Compute.Copy(p.Item, 0, from, 4*at, 4)
	if err == nil {
		err = p.Compute.Sync()
	}
	probe.End(sp)
	return device.Floats(p.Item)[0], err
}

// ResetStats restarts the peak of memory use if reset_stats is on; Wait calls it for a step's last micro-batch.
func (p *Pace) ResetStats(probe workloads.Probe) error {
	if p.Reset == "" || p.Reset == "off" {
		return nil
	}
	if p.Reset == resetSync {
		if err := p.Sync(p.resultStream(), probe); err != nil {
			return err
		}
	}
	return p.Pool.ResetPeak()
}

// WholeCheck returns the check of whole steps. all is the number of items, such as "cells", compared the number of
// compared items.
func WholeCheck(relative, tolerance float64, compared, all int, items string) gpuprof.Check {
	c := CheckOf(gpuprof.WholeStep, relative, tolerance, compared, all)
	c.Rows += " " + items
	return c
}

// CheckOf returns the check of a stage. all is the number of the stage's rows, compared the number of compared rows.
func CheckOf(stage string, relative, tolerance float64, compared, all int) gpuprof.Check {
	rows := fmt.Sprintf("%d of %d", compared, all)
	if compared == all {
		rows = fmt.Sprintf("all %d", all)
	}
	return gpuprof.Check{Stage: stage, RelativeError: gpuprof.Number(relative), Tolerance: tolerance, Pass: relative <= tolerance, Rows: rows}
}
