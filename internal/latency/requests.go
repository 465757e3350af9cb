package latency

import (
	"fmt"
	"slices"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/loadtest"
)

// Summarise sets the summaries of a result, over all its processes.
func Summarise(r *loadtest.Requests, seed uint64) error {
	for _, part := range []struct {
		name string
		of   func(*loadtest.Served) *loadtest.Recorded
		into func(loadtest.LatencySummary)
	}{
		{"latency", func(s *loadtest.Served) *loadtest.Recorded { return &s.Latency }, func(l loadtest.LatencySummary) { r.Latency = l }},
		{"queue_time", func(s *loadtest.Served) *loadtest.Recorded { return &s.Queue }, func(l loadtest.LatencySummary) { r.Queue = l }},
		{"service_time", func(s *loadtest.Served) *loadtest.Recorded { return &s.Service }, func(l loadtest.LatencySummary) { r.Service = l }},
		{"late", func(s *loadtest.Served) *loadtest.Recorded { return &s.Late }, func(l loadtest.LatencySummary) { r.Late = l }},
		{"from_send", func(s *loadtest.Served) *loadtest.Recorded { return s.FromSent }, func(l loadtest.LatencySummary) { r.FromSent = &l }},
		{"decode_time", decodeRecord, func(l loadtest.LatencySummary) { r.Decode = &l }},
	} {
		sum, err := summariseField(r, part.of, part.name == "latency", seed)
		if err != nil {
			return fmt.Errorf("summarising %s: %w", part.name, err)
		}
		if sum != nil {
			part.into(*sum)
		}
	}
	total := r.Sum()
	if total.Seconds > 0 {
		r.Goodput = float64(total.InTime) / total.Seconds
	}
	return judgeSender(r)
}

func decodeRecord(s *loadtest.Served) *loadtest.Recorded {
	if s.Outside == nil {
		return nil
	}
	return &s.Outside.Decode
}

func summariseField(r *loadtest.Requests, of func(*loadtest.Served) *loadtest.Recorded, withBlocks bool, seed uint64) (*loadtest.LatencySummary, error) {
	var processes, blocks []*Histogram
	all := New()
	for i := range r.Processes {
		part := of(&r.Processes[i])
		if part == nil {
			return nil, nil
		}
		h, err := Decode(*part)
		if err != nil {
			return nil, err
		}
		processes = append(processes, h)
		all.Merge(h)
	}
	if withBlocks && len(processes) == 1 {
		for _, b := range r.Processes[0].Blocks {
			if b.Latency.Count == 0 {
				continue
			}
			h, err := Decode(b.Latency)
			if err != nil {
				return nil, err
			}
			blocks = append(blocks, h)
		}
	}
	sum := Summary(all, processes, blocks, seed)
	if len(blocks) > 0 {
		dropUncertain(&sum, r)
	}
	return &sum, nil
}

// leastBeyond is the measured time beyond a percentile, in relaxation times, that an interval of the percentile
// requires.
const leastBeyond = 4

// dropUncertain removes the intervals of percentiles that too few excursions of the queue exceed. An excursion lasts
// about one relaxation time. For an M/D/1 queue at a load of 0.9, 88 % of the intervals cover p99 if the time beyond
// p99 is two or three relaxation times. It is 91 % for four relaxation times, and 50 % for a fifth of one.
func dropUncertain(sum *loadtest.LatencySummary, r *loadtest.Requests) {
	if !(r.Throughput > 0) || r.Rate == 0 {
		return
	}
	least := leastBeyond * Relaxation(r.Throughput, r.Rate)
	for i := range sum.Percentiles {
		if p := &sum.Percentiles[i]; (1-p.Share)*r.Processes[0].Seconds < least {
			p.CI95 = nil
		}
	}
}

// Merge joins the requests of processes with equal settings and rate. It skips nil; without any other it returns nil.
func Merge(rs []*loadtest.Requests, seed uint64) (*loadtest.Requests, error) {
	rs = slices.DeleteFunc(slices.Clone(rs), func(r *loadtest.Requests) bool { return r == nil })
	if len(rs) < 2 {
		if len(rs) == 1 {
			return rs[0], nil
		}
		return nil, nil
	}
	out := *rs[0]
	out.Processes = slices.Clone(out.Processes)
	var beside []*loadtest.Requests
	for _, r := range rs {
		beside = append(beside, r.OnSchedule.Requests())
	}
	onSchedule, err := Merge(beside, seed)
	if err != nil {
		return nil, err
	}
	out.OnSchedule = onSchedule.AsOnSchedule()
	for _, r := range rs[1:] {
		if r.Rate != out.Rate || r.Arrivals != out.Arrivals {
			return nil, gpuprof.Errorf(gpuprof.ErrInput, "merging processes: they served %g and %g requests per second", out.Rate, r.Rate)
		}
		out.Processes = append(out.Processes, r.Processes...)
	}
	return &out, Summarise(&out, seed)
}

// PerProcess returns a percentile of each process, s; ok is false if too few requests of a process exceed it.
func PerProcess(r *loadtest.Requests, share float64) ([]float64, bool) {
	var out []float64
	for i := range r.Processes {
		h, err := Decode(r.Processes[i].Latency)
		if err != nil || !Enough(share, h.Count()) {
			return nil, false
		}
		out = append(out, h.At(share))
	}
	return out, len(out) > 0
}
