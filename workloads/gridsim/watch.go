package gridsim

import (
	"math"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/loop"
)

// watch records the allocator's counters over time. Recording allocates nothing.
type watch struct {
	began  time.Time
	points loop.Points[watchPoint]
}

type watchPoint struct {
	at time.Duration
	counts
}

func (w *watch) recordPoint(m memory) {
	if w.points.Due() {
		w.points.Keep(watchPoint{at: time.Since(w.began), counts: m.counts()})
	}
}

// Observed implements workloads.Observer: the allocator's counters at the end of steps, over all steps since the
// session was opened (check and warm-up included). The first map, for Run.Input, has the mean and peak of each counter
// in bytes, the frames and bytes shown, and the driver calls per step. With a pool it also has the peak reservations in
// replays of the pool's requests.
func (s *session) Observed(since time.Time) (map[string]any, map[string]gpuprof.Track) {
	w := &s.watch
	last := s.memory.counts()
	figures := map[string]any{
		"bytes_shown": int64(s.shownAll) * int64(4*len(s.slots[0].picture)), "frames_shown": s.shownAll,
		"memory_in_use_peak": last.peakInUse, "memory_reserved_peak": last.peakReserved,
	}
	tracks := map[string]gpuprof.Track{}
	points, every := w.points.All()
	shift := w.began.Sub(since).Seconds()
	for _, q := range []struct {
		name, unit string
		of         func(watchPoint) float64
	}{
		{"memory_in_use", "B", func(p watchPoint) float64 { return float64(p.inUse) }},
		{"memory_reserved", "B", func(p watchPoint) float64 { return float64(p.reserved) }},
		{"memory_idle", "B", func(p watchPoint) float64 { return float64(p.reserved - p.inUse) }},
		{"largest_idle_block", "B", func(p watchPoint) float64 { return float64(p.largestIdle) }},
		{"driver_allocs", "1", func(p watchPoint) float64 { return float64(p.allocs) }},
		{"driver_frees", "1", func(p watchPoint) float64 { return float64(p.frees) }},
	} {
		if len(points) == 0 {
			continue
		}
		t := gpuprof.Track{Unit: q.unit}
		sum, peak := 0.0, math.Inf(-1)
		for _, p := range points {
			v := q.of(p)
			sum, peak = sum+v, max(peak, v)
			t.TimeS, t.Value = append(t.TimeS, shift+p.at.Seconds()), append(t.Value, gpuprof.Number(v))
		}
		tracks[q.name] = t
		if q.unit == "B" {
			figures[q.name+"_mean"] = sum / float64(len(points))
			if _, known := figures[q.name+"_peak"]; !known {
				figures[q.name+"_peak"] = peak
			}
		}
	}
	if p, ok := s.memory.(*pooled); ok {
		p.addReplays(s.k.MaxSplit, s.Trims > 0, figures)
	}
	if n := len(points) - 1; n > 0 {
		first, final, steps := points[0], points[n], float64(n*every)
		figures["driver_calls_per_step"] = float64(final.allocs-first.allocs+final.frees-first.frees) / steps
	}
	return figures, tracks
}
