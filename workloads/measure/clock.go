package measure

import (
	"math"

	"github.com/gpuprof/gpuprof"
)

// deviceClock returns the clock in hertz at the last sample, of a GPU's multiprocessors or of the CPU; 0 if unknown.
func (r *runner) deviceClock() float64 {
	end := math.Inf(1)
	if n := len(r.run.Order); n > 0 {
		end = r.run.Order[n-1].StartS
	}
	if r.run.Device.Kind != "host" {
		return lastReading(r.run.Telemetry["gpu_sm_clock"], end)
	}
	if v := lastReading(r.run.Telemetry["cpu_frequency"], end); v > 0 {
		return v
	}
	v, _ := r.machine.Clock()
	return v
}

// lastReading returns the last known reading that is not later than the time end, or else the first one after it; 0
// without a reading.
func lastReading(t gpuprof.Track, end float64) float64 {
	last := 0.0
	for i, n := range t.Value {
		v := float64(n)
		if !(v > 0) || math.IsInf(v, 0) || i >= len(t.TimeS) {
			continue
		}
		if t.TimeS[i] > end && last > 0 {
			break
		}
		last = v
		if t.TimeS[i] > end {
			break
		}
	}
	return last
}
