package search

import (
	"errors"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads"
	"github.com/gpuprof/gpuprof/workloads/device"
)

// edgeProbe records the start of two steps on the main stream and nothing else: the cheapest way to time a block of
// steps with the device's clock. Start is called once per step and allocates nothing.
type edgeProbe struct {
	events      [2]device.Event
	main        device.Stream
	first, last int // numbers of the steps whose start is recorded
	seen        int
}

// Start implements workloads.Probe.
func (p *edgeProbe) Start(int) error {
	var err error
	switch p.seen {
	case p.first:
		err = p.main.Record(p.events[0])
	case p.last:
		err = p.main.Record(p.events[1])
	}
	p.seen++
	return err
}

// Begin implements workloads.Probe.
func (*edgeProbe) Begin(int, device.Stream) int { return 0 }

// End implements workloads.Probe.
func (*edgeProbe) End(int) {}

// timeBlock runs steps for about target and returns the seconds per step. It measures from the start of a step after
// the pipeline has filled to the start of a step before it drains, over whole cycles of the session.
func (s *bench) timeBlock(target time.Duration) (float64, error) {
	n := leastSteps
	if s.stepS > 0 {
		n = max(n, min(mostSteps, int(target.Seconds()/s.stepS)+1))
	}
	if c := s.sess.Cycle(); c > 1 {
		n = (n + c - 1) / c * c
	}
	// Input that was prepared while the session was idle would make the first steps too fast.
	head := max(s.sess.Depth()-1, s.ahead)
	s.probe.main, s.probe.first, s.probe.last, s.probe.seen = s.main, head, head+n, 0
	tail := max(1, s.sess.Depth()-1)
	if err := s.main.Sync(); err != nil {
		return 0, err
	}
	before := s.dev.Meter()
	for range head + n + tail {
		if err := s.sess.Step(s.next, &s.probe); err != nil {
			return 0, err
		}
		s.next++
	}
	s.addCounts(before, s.dev.Meter(), float64(head+n+tail))
	if err := errors.Join(workloads.Join(s.sess), s.main.Sync()); err != nil {
		return 0, err
	}
	ns, err := s.dev.ElapsedNS(s.probe.events[0], s.probe.events[1])
	if err != nil {
		return 0, err
	}
	s.stepS = gpuprof.Seconds(max(ns, 1)) / float64(n)
	return s.stepS, nil
}

func (s *bench) addCounts(a, b device.Meter, steps float64) {
	if s.counts == nil {
		s.counts = map[string]float64{}
	}
	for name, v := range map[string]int64{
		"launches": b.Launches - a.Launches, "copies": b.CopiesH2D - a.CopiesH2D + b.CopiesD2H - a.CopiesD2H,
		"copied_bytes": b.BytesH2D - a.BytesH2D + b.BytesD2H - a.BytesD2H, "sync_points": b.SyncPoints - a.SyncPoints + b.EventWaits - a.EventWaits,
		"allocations": b.Allocations - a.Allocations,
	} {
		s.counts[name] = float64(v) / steps
	}
}
