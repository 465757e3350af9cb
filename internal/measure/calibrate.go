package measure

import (
	"fmt"
	"math"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/stats"
	"github.com/gpuprof/gpuprof/probes/events"
)

// calibrate measures what measuring costs here, in seconds: the smallest step
// of the event clock, an empty event pair, a launch of nothing seen from both
// sides, and a read of the caller's clock.
func calibrate(dev gpuprof.Device, s gpuprof.Stream) (map[string]float64, error) {
	const n = 200
	evs := make([]gpuprof.Event, 2*n)
	for i := range evs {
		e, err := dev.NewEvent()
		if err != nil {
			return nil, fmt.Errorf("calibrating: %w", err)
		}
		evs[i] = e
	}
	f, err := dev.Load(&gpuprof.Kernel{Name: "null", Host: func(*gpuprof.Args, int, int) {}})
	if err != nil {
		return nil, fmt.Errorf("calibrating: %w", err)
	}
	empty, _, err := eventPairs(dev, s, evs, func() error { return nil })
	if err != nil {
		return nil, fmt.Errorf("calibrating: %w", err)
	}
	var args gpuprof.Args
	launch, caller, err := eventPairs(dev, s, evs, func() error { return s.Launch(f, 1, &args) })
	if err != nil {
		return nil, fmt.Errorf("calibrating: %w", err)
	}
	tick := math.Inf(1)
	for _, d := range empty {
		if d > 0 {
			tick = min(tick, d)
		}
	}
	if math.IsInf(tick, 1) {
		tick = 0 // every pair fell into one tick
	}
	h0 := events.Now()
	for range n {
		events.Now()
	}
	return map[string]float64{
		"event_tick":       tick,
		"empty_event_pair": stats.Median(empty),
		"null_launch":      stats.Median(launch),
		"null_launch_host": stats.Median(caller),
		"host_clock_read":  float64(events.Now()-h0) / n * 1e-9,
	}, nil
}

// eventPairs times fn between pairs of events and on the caller's clock.
func eventPairs(dev gpuprof.Device, s gpuprof.Stream, evs []gpuprof.Event, fn func() error) (device, caller []float64, err error) {
	for i := 0; i < len(evs); i += 2 {
		if err := s.Record(evs[i]); err != nil {
			return nil, nil, err
		}
		h0 := events.Now()
		if err := fn(); err != nil {
			return nil, nil, err
		}
		caller = append(caller, float64(events.Now()-h0)*1e-9)
		if err := s.Record(evs[i+1]); err != nil {
			return nil, nil, err
		}
	}
	if err := s.Sync(); err != nil {
		return nil, nil, err
	}
	for i := 0; i < len(evs); i += 2 {
		d, err := dev.ElapsedNS(evs[i], evs[i+1])
		if err != nil {
			return nil, nil, err
		}
		device = append(device, float64(d)*1e-9)
	}
	return device, caller, nil
}
