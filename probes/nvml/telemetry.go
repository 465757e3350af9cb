package nvml

import (
	"context"
	"slices"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/probes/sampler"
)

// processEvery is the interval between reads of the process list. To walk /proc costs more than all other readings
// together.
const processEvery = time.Second

// Start samples the device in its own goroutine until Stop, or until ctx ends. A second Start during sampling has
// no effect.
func (d *Device) Start(ctx context.Context, every time.Duration) {
	if d.sampler == nil {
		d.sampler = sampler.Start(ctx, every, d.quantities())
	}
}

// Pause waits for a running reading and stops sampling until Resume. It costs only a lock.
func (d *Device) Pause() {
	if d.sampler != nil {
		d.sampler.Pause()
	}
}

// Resume continues the sampling after Pause.
func (d *Device) Resume() {
	if d.sampler != nil {
		d.sampler.Resume()
	}
}

// Stop ends the sampling, takes a last reading and returns the tracks by name:
//
//	gpu_sm_clock, gpu_memory_clock   Hz
//	gpu_power                        W, an instant reading if Facts()["power"] is "instant", else averaged over 1 s
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
// A quantity without any successful reading is absent; single failed readings are NaN. Without a Start it returns nil.
func (d *Device) Stop() map[string]gpuprof.Track {
	if d.sampler == nil {
		return nil
	}
	defer func() { d.sampler = nil }()
	return d.sampler.Stop()
}

// quantities returns the quantities that can be read when the sampling starts, so that the loop does not repeat reads
// that always fail.
func (d *Device) quantities() []sampler.Quantity {
	var out []sampler.Quantity
	add := func(name, unit string, total bool, read func() (float64, bool)) {
		out = append(out, sampler.Quantity{Name: name, Unit: unit, Total: total, Read: read})
	}
	number := func(name, unit string, total bool, q quantity) {
		add(name, unit, total, func() (float64, bool) { return d.readNumber(q) })
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
	// Read last: NVML measures for 20 ms before it returns each.
	number("gpu_pcie_rx", "B/s", false, pcieRX)
	number("gpu_pcie_tx", "B/s", false, pcieTX)
	return slices.DeleteFunc(out, func(q sampler.Quantity) bool {
		_, ok := q.Read()
		return !ok
	})
}

// addThrottles adds the counters that NVML reports. Reading the first one reads all of them.
func (d *Device) addThrottles(add func(name, unit string, total bool, read func() (float64, bool))) {
	counters := make([]field, len(throttleReasons))
	for i := range counters {
		counters[i].id = throttleReasons[i].id
	}
	d.whole.readFields(counters)
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
				d.whole.readFields(counters)
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
	add("gpu_foreign", "1", false, func() (float64, bool) { return float64(countForeign(list)), known })
}
