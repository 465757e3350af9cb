package events

import (
	"math"

	"github.com/gpuprof/gpuprof/workloads/device"
)

const (
	anchorTries = 16
	goodSlack   = 5_000 // ns: well under any stage worth a row
	// Clocks whose rates differ by more than this are not comparable; the check of periods against the caller's clock
	// then reports it.
	mostDrift = 0.01
	// The rate counts as different from 1 only if it is known to this relative error.
	driftBound = 1e-4
)

// synchroniser relates the device's event clock to the caller's. The anchor of a block falls between two reads of the
// caller's clock, so its time is known to half their distance, the slack. The first anchor is kept as origin: device
// time and caller's time between it and a later anchor give the ratio of the two clocks, known to the sum of both
// slacks over that time. Elapsed times are single precision, a relative error of 6e-8 at any length: enough for a
// rate, but not for a time, so times count from the block's own anchor.
type synchroniser struct {
	origin     device.Event
	started    bool
	host       int64 // the caller's time of the origin
	slack      int64
	measured   float64 // the caller's seconds per device second; 0 if unknown
	bound      float64
	multiplier float64 // 1 while the rate is not known to differ from 1
}

func (c *synchroniser) reset(dev device.Device, s device.Stream, anchor device.Event) (host, slack int64, err error) {
	if !c.started {
		c.multiplier = 1
		if c.host, c.slack, err = recordAnchor(s, c.origin); err != nil {
			return 0, 0, err
		}
		c.started = true
	}
	if host, slack, err = recordAnchor(s, anchor); err != nil {
		return 0, 0, err
	}
	device, err := dev.ElapsedNS(c.origin, anchor)
	if err != nil {
		return 0, 0, err
	}
	c.compareClocks(device, host-c.host, slack)
	return host, slack, nil
}

// compareClocks uses the time between origin and an anchor on both clocks.
func (c *synchroniser) compareClocks(device, host, slack int64) {
	if device <= 0 || host <= 0 {
		return
	}
	rate, bound := float64(host)/float64(device), float64(c.slack+slack)/float64(host)
	if bound > driftBound || math.Abs(rate-1) > mostDrift {
		return
	}
	c.measured, c.bound = rate, bound
	c.multiplier = 1
	if math.Abs(rate-1) > bound {
		c.multiplier = rate
	}
}

// hostTime converts a device time to the caller's nanoseconds.
func (c *synchroniser) hostTime(ns int64) int64 {
	if c.multiplier == 1 || c.multiplier == 0 {
		return ns
	}
	return int64(math.Round(float64(ns) * c.multiplier))
}

// recordAnchor records an event between two reads of the caller's clock, until they are close or the tries are used
// up. The event keeps its last record, so the result is of the last try.
func recordAnchor(s device.Stream, e device.Event) (host, slack int64, err error) {
	for range anchorTries {
		h0 := Now()
		if err := s.Record(e); err != nil {
			return 0, 0, err
		}
		if err := e.Wait(); err != nil {
			return 0, 0, err
		}
		h1 := Now()
		host, slack = h0+(h1-h0)/2, (h1-h0)/2
		if slack < goodSlack {
			break
		}
	}
	return host, slack, nil
}
