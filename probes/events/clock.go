package events

import (
	"math"

	"github.com/gpuprof/gpuprof/workloads/device"
)

const (
	anchorTries = 16
	goodSlack   = 5_000 // ns: far below any stage that is reported
	// mostDrift is the largest relative difference between the two clock rates that is corrected. A larger one is left
	// for the check of step periods to report.
	mostDrift = 0.01
	// driftBound is the largest relative error of a measured rate; a less precise measurement is ignored.
	driftBound = 1e-4
)

// synchroniser relates the device's event clock to the caller's clock. Each block records an anchor event between two
// reads of the caller's clock. Half the time between the reads (slack) bounds the error of the anchor's time. The first
// anchor is the origin. The time from the origin to a later anchor, on both clocks, gives the ratio of the clock rates;
// its relative error is the sum of both slacks divided by this time. The device returns elapsed times in single
// precision (relative error 6e-8), which is precise enough for the ratio, but not for long times in ns. Times in a
// block are therefore relative to the block's own anchor.
type synchroniser struct {
	origin     device.Event
	started    bool
	host       int64   // the origin on the caller's clock, ns
	slack      int64   // of the origin, ns
	measured   float64 // the caller's seconds per device second; 0 if unknown
	bound      float64 // relative error of measured
	multiplier float64 // measured if it differs from 1 by more than bound, else 1
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

// compareClocks updates the rate from the time between the origin and an anchor, in ns on each clock.
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

// recordAnchor records an event between two reads of the caller's clock. It repeats this until the reads are close
// enough, at most anchorTries times. It returns the last try's time and slack, since the event keeps its last record.
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
