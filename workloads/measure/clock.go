package measure

import (
	"math"

	"github.com/gpuprof/gpuprof"
)

// deviceClock returns the clock of the device in hertz when the last sample was taken: the SM clock of a GPU, the
// CPU's on the host. 0 is unknown.
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

// lastReading returns the last known reading taken by the time end; without one, the first known reading after it; 0
// without any.
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
