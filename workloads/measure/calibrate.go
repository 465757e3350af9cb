package measure

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/stats"
	"github.com/gpuprof/gpuprof/probes/events"
	"github.com/gpuprof/gpuprof/workloads/device"
)

// calibrate measures the costs of measuring in seconds: the tick of the event clock, an empty event pair, an empty
// launch on the device and on the host, a read of the host clock, and a read of four bytes from the device, like
// PyTorch's .item(). If the device can spin, events and launches queue up behind a blocking kernel, so device figures
// exclude the caller's pace; host figures are the times of the same calls.
func calibrate(dev *events.Tracer, s device.Stream, in Instruments) (map[string]float64, error) {
	const n = 200
	evs := make([]device.Event, 2*n)
	for i := range evs {
		e, err := dev.NewEvent()
		if err != nil {
			return nil, fmt.Errorf("calibrating: %w", err)
		}
		evs[i] = e
	}
	f, err := dev.Load(&device.Kernel{Name: "null", Host: func(*device.Args, int, int) {}})
	if err != nil {
		return nil, fmt.Errorf("calibrating: %w", err)
	}
	empty, _, err := eventPairs(dev, s, evs, func() error { return nil })
	if err != nil {
		return nil, fmt.Errorf("calibrating: %w", err)
	}
	var args device.Args
	launch, caller, err := eventPairs(dev, s, evs, func() error { return s.Launch(f, 1, &args) })
	if err != nil {
		return nil, fmt.Errorf("calibrating: %w", err)
	}
	read, err := itemRead(dev, s, n)
	if err != nil {
		return nil, fmt.Errorf("calibrating: %w", err)
	}
	out := map[string]float64{
		"event_tick":       smallestStep(slices.Concat(empty, launch)),
		"empty_event_pair": stats.Median(empty),
		"null_launch":      stats.Median(launch),
		"null_launch_host": stats.Median(caller),
		"item_read":        read,
		"host_clock_read":  clockRead(),
	}
	if in != nil {
		if d, ok := in.Latency(); ok {
			out["nvml_call"] = d.Seconds()
		}
	}
	return out, nil
}

// itemBytes is the size of a value read by .item().
const itemBytes = 4

// itemRead returns the caller's seconds to copy four bytes from an idle device and wait. It is the third quartile of n
// reads, so that n times this figure is at least the time of n reads.
func itemRead(dev *events.Tracer, s device.Stream, n int) (_ float64, err error) {
	from, err := dev.Alloc(itemBytes, device.OnDevice)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, from.Free()) }()
	to, err := dev.Alloc(itemBytes, device.Pinned)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, to.Free()) }()
	took := make([]float64, n)
	for i := range took {
		h0 := events.Now()
		if err := s.Copy(to, 0, from, 0, itemBytes); err != nil {
			return 0, err
		}
		if err := s.Sync(); err != nil {
			return 0, err
		}
		took[i] = gpuprof.Seconds(events.Now() - h0)
	}
	slices.Sort(took)
	return took[3*n/4], nil
}

// clockRead returns the seconds per read of the host clock, a median over rounds, since a round may be interrupted.
func clockRead() float64 {
	const n = 200
	var rounds []float64
	for range spanRounds {
		h0 := events.Now()
		for range n {
			events.Now()
		}
		rounds = append(rounds, gpuprof.Seconds(events.Now()-h0)/n)
	}
	return stats.Median(rounds)
}

// smallestStep returns the smallest difference above zero between two of the times, or between a time and zero; 0 if
// all are zero. Differences up to half a nanosecond are rounding.
func smallestStep(times []float64) float64 {
	sorted := append([]float64{0}, times...)
	slices.Sort(sorted)
	step := math.Inf(1)
	for i := 1; i < len(sorted); i++ {
		if d := sorted[i] - sorted[i-1]; d > 0.5e-9 {
			step = min(step, d)
		}
	}
	if math.IsInf(step, 1) {
		return 0 // all pairs within one tick
	}
	return step
}

// calibrationBlockNS is much longer than the caller's time for a round's events and launches, about 10 us each.
const calibrationBlockNS = 10_000_000

// eventPairs times fn in two ways: between pairs of events, and on the caller's clock.
func eventPairs(dev *events.Tracer, s device.Stream, evs []device.Event, fn func() error) (device, caller []float64, err error) {
	if dev.CanSpin() {
		if err := dev.Spin(s, calibrationBlockNS); err != nil {
			return nil, nil, err
		}
	}
	for i := 0; i < len(evs); i += 2 {
		if err := s.Record(evs[i]); err != nil {
			return nil, nil, err
		}
		h0 := events.Now()
		if err := fn(); err != nil {
			return nil, nil, err
		}
		caller = append(caller, gpuprof.Seconds(events.Now()-h0))
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
		device = append(device, gpuprof.Seconds(d))
	}
	return device, caller, nil
}
