package gridsim

import (
	"math"
	"time"

	"github.com/gpuprof/gpuprof"
)

// watch is the allocator's account over time. Noting allocates nothing.
type watch struct {
	began  time.Time
	points [watchPoints]watchPoint
	used   int
	every  int // steps between points
	seen   int // steps seen
}

// watchPoints is how many points of a series are kept: when they are full, every
// other one goes and the rest come half as often.
const watchPoints = 2048

// watchPoint is the end of a step.
type watchPoint struct {
	at time.Duration
	counts
}

// note keeps the counters at the end of a step.
func (w *watch) note(m memory) {
	w.every = max(w.every, 1)
	if w.seen++; w.seen%w.every != 0 {
		return
	}
	if w.used == watchPoints {
		for i := range watchPoints / 2 {
			w.points[i] = w.points[2*i+1]
		}
		w.used, w.every = watchPoints/2, 2*w.every
		if w.seen%w.every != 0 {
			return
		}
	}
	w.points[w.used] = watchPoint{at: time.Since(w.began), counts: m.counts()}
	w.used++
}

// Observed implements gpuprof.Observer: the allocator's counters at the end of
// steps, over all steps since the session was opened (check and warm-up too), with
// mean and peak of each for Run.Input.
func (s *session) Observed(since time.Time) (map[string]any, map[string]gpuprof.Track) {
	w := &s.watch
	last := s.memory.counts()
	figures := map[string]any{
		"bytes_shown": int64(s.shownAll) * int64(4*len(s.slots[0].picture)), "frames_shown": s.shownAll,
		"memory_in_use_peak": last.peakInUse, "memory_reserved_peak": last.peakReserved,
	}
	tracks := map[string]gpuprof.Track{}
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
		if w.used == 0 {
			continue
		}
		t := gpuprof.Track{Unit: q.unit}
		sum, peak := 0.0, math.Inf(-1)
		for _, p := range w.points[:w.used] {
			v := q.of(p)
			sum, peak = sum+v, max(peak, v)
			t.TimeS, t.Value = append(t.TimeS, shift+p.at.Seconds()), append(t.Value, gpuprof.Number(v))
		}
		tracks[q.name] = t
		if q.unit == "B" {
			figures[q.name+"_mean"] = sum / float64(w.used)
			if _, known := figures[q.name+"_peak"]; !known {
				figures[q.name+"_peak"] = peak
			}
		}
	}
	if first, final := w.points[0], w.points[max(w.used-1, 0)]; w.used > 1 {
		steps := float64((w.used - 1) * max(w.every, 1))
		figures["driver_calls_per_step"] = float64(final.allocs-first.allocs+final.frees-first.frees) / steps
	}
	return figures, tracks
}
