package nvml

import (
	"context"
	"math"
	"time"

	"github.com/gpuprof/gpuprof"
)

const (
	// capacity is how many readings a track holds: two minutes at 10 Hz. A
	// longer run keeps every second reading and goes on at half the rate.
	capacity = 1200
	// processEvery is how often the process list is read: walking /proc is
	// dearer than all other readings together.
	processEvery = time.Second
)

// track is one quantity while it is sampled.
type track struct {
	name, unit string
	read       func() (float64, bool)
	total      bool    // count from the first reading that worked
	first      float64 // NaN until then
	values     []gpuprof.Number
}

// sampler is one Start to Stop.
type sampler struct {
	tracks []*track
	times  []float64
	start  time.Time
	stop   context.CancelFunc
	done   chan struct{}
}

// Start samples the device in a goroutine of its own until Stop, or until ctx
// ends. While it samples, a second Start does nothing.
func (d *Device) Start(ctx context.Context, every time.Duration) {
	if d.sampler != nil {
		return
	}
	s := &sampler{start: time.Now(), done: make(chan struct{}), times: make([]float64, 0, capacity)}
	d.sampler = s
	s.tracks = d.tracks(s)
	d.sample()
	ctx, s.stop = context.WithCancel(ctx)
	go d.loop(ctx, s, max(every, time.Millisecond))
}

// Pause ends a reading under way and takes none until Resume. It costs a lock.
func (d *Device) Pause() { d.setPaused(true) }

// Resume goes on after Pause.
func (d *Device) Resume() { d.setPaused(false) }

func (d *Device) setPaused(v bool) {
	d.pause.Lock()
	d.paused = v
	d.pause.Unlock()
}

// Stop ends the sampling, takes a last reading and returns the tracks by name:
//
//	gpu_sm_clock, gpu_memory_clock   Hz
//	gpu_power                        W, instant where Facts()["power"] says so
//	gpu_temperature                  C
//	gpu_utilisation                  1, share of time in which a kernel ran
//	gpu_memory_activity              1, share of time in which memory was busy
//	gpu_memory_used                  B
//	gpu_pcie_rx, gpu_pcie_tx         B/s
//	gpu_pcie_gen, gpu_pcie_width     1
//	gpu_clock_event_reasons          1, the bits of nvml.h
//	gpu_throttled_<reason>           s since Start, see ThrottledS
//	gpu_energy                       J since Start
//	gpu_processes, gpu_foreign       1, processes on the GPU, and those not ours
//
// A quantity that is never known is absent; where single readings failed they
// are NaN. Without a Start it returns nil.
func (d *Device) Stop() map[string]gpuprof.Track {
	s := d.sampler
	if s == nil {
		return nil
	}
	s.stop()
	<-s.done
	if len(s.times) < capacity {
		d.sample()
	}
	d.sampler = nil
	out := map[string]gpuprof.Track{}
	for _, tr := range s.tracks {
		if tr.known() {
			out[tr.name] = gpuprof.Track{Unit: tr.unit, TimeS: s.times, Value: tr.values}
		}
	}
	return out
}

func (t *track) known() bool {
	for _, v := range t.values {
		if Known(v) {
			return true
		}
	}
	return false
}

// tracks lists what can be read when the sampling starts: the loop does not ask
// again and again for what there is not.
func (d *Device) tracks(s *sampler) []*track {
	var out []*track
	add := func(name, unit string, total bool, read func() (float64, bool)) {
		out = append(out, &track{name: name, unit: unit, total: total, read: read,
			first: math.NaN(), values: make([]gpuprof.Number, 0, capacity)})
	}
	number := func(name, unit string, total bool, q quantity) {
		add(name, unit, total, func() (float64, bool) { return d.number(q) })
	}
	number("gpu_sm_clock", "Hz", false, smClock)
	number("gpu_memory_clock", "Hz", false, memoryClock)
	add("gpu_power", "W", false, d.PowerW)
	number("gpu_temperature", "C", false, temperature)
	number("gpu_utilisation", "1", false, utilisation)
	number("gpu_memory_activity", "1", false, memoryActivity)
	number("gpu_memory_used", "B", false, memoryUsed)
	number("gpu_pcie_gen", "1", false, pcieGen)
	number("gpu_pcie_width", "1", false, pcieWidth)
	number("gpu_clock_event_reasons", "1", false, eventReasons)
	number("gpu_energy", "J", true, energy)
	d.addThrottles(add)
	d.addProcesses(add)
	// Last: NVML counts 20 ms for each of the two before it answers.
	number("gpu_pcie_rx", "B/s", false, pcieRX)
	number("gpu_pcie_tx", "B/s", false, pcieTX)
	kept := out[:0]
	for _, tr := range out {
		if _, ok := tr.read(); ok {
			kept = append(kept, tr)
		}
	}
	s.start = time.Now() // not before the answers to the first round
	return kept
}

// addThrottles adds the counters that are known; the first of them reads for
// all.
func (d *Device) addThrottles(add func(name, unit string, total bool, read func() (float64, bool))) {
	counters := make([]field, len(throttleReasons))
	for i := range counters {
		counters[i].id = throttleReasons[i].id
	}
	d.whole.fields(counters)
	newer := counters[swThermalAt].ok
	leads := true
	for i, r := range throttleReasons {
		if !counters[i].ok || r.id == fieldThermal && newer {
			continue
		}
		lead := leads
		leads = false
		add("gpu_throttled_"+r.name, "s", true, func() (float64, bool) {
			if lead {
				d.whole.fields(counters)
			}
			return counters[i].value * nanoseconds, counters[i].ok
		})
	}
}

func (d *Device) addProcesses(add func(name, unit string, total bool, read func() (float64, bool))) {
	var when time.Time
	var list []Process
	var known bool
	refresh := func() {
		if when.IsZero() || time.Since(when) >= processEvery {
			list, known = d.Processes()
			when = time.Now()
		}
	}
	add("gpu_processes", "1", false, func() (float64, bool) {
		refresh()
		return float64(len(list)), known
	})
	add("gpu_foreign", "1", false, func() (float64, bool) { return float64(foreign(list)), known })
}

func (d *Device) loop(ctx context.Context, s *sampler, interval time.Duration) {
	defer close(s.done)
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if len(s.times) == capacity {
			s.thin()
			interval *= 2
			tick.Reset(interval)
		}
		d.sample()
	}
}

// sample takes one reading of every track, unless paused.
func (d *Device) sample() {
	d.pause.Lock()
	defer d.pause.Unlock()
	if d.paused {
		return
	}
	s := d.sampler
	s.times = append(s.times, time.Since(s.start).Seconds())
	for _, tr := range s.tracks {
		v, ok := tr.read()
		switch {
		case !ok:
			v = math.NaN()
		case tr.total:
			if math.IsNaN(tr.first) {
				tr.first = v
			}
			v -= tr.first
		}
		tr.values = append(tr.values, gpuprof.Number(v))
	}
}

// thin keeps every second reading, in place.
func (s *sampler) thin() {
	half := len(s.times) / 2
	for i := range half {
		s.times[i] = s.times[2*i]
		for _, tr := range s.tracks {
			tr.values[i] = tr.values[2*i]
		}
	}
	s.times = s.times[:half]
	for _, tr := range s.tracks {
		tr.values = tr.values[:half]
	}
}
