package events

import (
	"math"

	"github.com/gpuprof/gpuprof/workloads/device"
)

const (
	anchorTries = 16
	goodSlack   = 5_000 // ns: far below any stage that is reported
	// mostDrift is the largest relative difference of comparable clocks; the check of step periods reports a larger one.
	mostDrift = 0.01
	// driftBound is the relative error to which the rate must be known before it replaces 1.
	driftBound = 1e-4
)

// synchroniser relates the device's event clock to the caller's clock. Each block records an anchor event between two
// reads of the caller's clock, whose distance (slack) bounds the error of the anchor's time. The first anchor is the
// origin. The time from origin to a later anchor on both clocks gives the ratio of their rates, with an error of both
// slacks over that time. Elapsed times between events are single precision, with a relative error of 6e-8: enough for
// the ratio, not for a long time. So times in a block count from the block's own anchor.
type synchroniser struct {
	origin     device.Event
	started    bool
	host       int64 // the origin on the caller's clock
	slack      int64
	measured   float64 // the caller's seconds per device second; 0 if unknown
	bound      float64
	multiplier float64 // measured, or 1 unless the rate is known to differ from 1
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

// compareClocks updates the rate from the time between origin and an anchor on both clocks.
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

// hostTime converts device nanoseconds to the caller's nanoseconds.
func (c *synchroniser) hostTime(ns int64) int64 {
	if c.multiplier == 1 || c.multiplier == 0 {
		return ns
	}
	return int64(math.Round(float64(ns) * c.multiplier))
}

// recordAnchor records an event between two reads of the caller's clock, until the reads are close or the tries are
// used up. The result is of the last try, since the event keeps only its last record.
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
