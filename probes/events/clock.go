package events

import (
	"math"

	"github.com/gpuprof/gpuprof/workloads/device"
)

const (
	anchorTries = 16
	goodSlack   = 5_000 // ns: well under any stage worth a row
	// Clocks that differ by more than this are no clocks of one world; the
	// check of periods against the caller's clock then says so.
	mostDrift = 0.01
	// A rate is told from 1 once it is known this well.
	driftBound = 1e-4
)

// synchroniser ties the device's event clock to the caller's. The anchor of a
// block lies between two reads of the caller's clock, so its place is known to
// half their distance, the slack. The first anchor is kept as origin: device
// and caller's time between it and a later anchor give the rate of the two
// clocks, known to the sum of both slacks over that time. Elapsed times are
// single precision, which is 6e-8 of them at any length: enough for a rate,
// not for a place, so places count from the block's own anchor.
type synchroniser struct {
	origin     device.Event
	started    bool
	host       int64 // the origin's place
	slack      int64
	measured   float64 // the caller's time in one of the device; 0 is not yet known
	bound      float64
	multiplier float64 // 1 as long as the rate cannot be told from 1
}

func (c *synchroniser) reset(dev device.Device, s device.Stream, anchor device.Event) (host, slack int64, err error) {
	if !c.started {
		c.multiplier = 1
		if c.host, c.slack, err = tie(s, c.origin); err != nil {
			return 0, 0, err
		}
		c.started = true
	}
	if host, slack, err = tie(s, anchor); err != nil {
		return 0, 0, err
	}
	device, err := dev.ElapsedNS(c.origin, anchor)
	if err != nil {
		return 0, 0, err
	}
	c.compare(device, host-c.host, slack)
	return host, slack, nil
}

// compare takes in the time between origin and an anchor on both clocks.
func (c *synchroniser) compare(device, host, slack int64) {
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

// onHost is a device time in the caller's nanoseconds.
func (c *synchroniser) onHost(ns int64) int64 {
	if c.multiplier == 1 || c.multiplier == 0 {
		return ns
	}
	return int64(math.Round(float64(ns) * c.multiplier))
}

// tie records an event between two reads of the caller's clock, until they are
// close or the tries are used up. The last try is the one whose event stands,
// so it is the one reported.
func tie(s device.Stream, e device.Event) (host, slack int64, err error) {
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
