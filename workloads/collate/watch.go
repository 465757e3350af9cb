package collate

import (
	"slices"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/loop"
)

// watch records figures that only the pipeline's producers and consumers can measure. Recording allocates nothing.
type watch struct {
	began   time.Time
	batches int64
	bytes   int64
	cost    batchCost
	waiting int64 // sum over steps of the batches that were ready

	points loop.Points[watchPoint]
	last   int64
}

type watchPoint struct {
	at    time.Duration
	ready int64 // batches made and not taken when the step requested one
	bytes int64 // bytes taken so far
}

// recordQueue records the number of batches that were ready when the step requested one.
func (w *watch) recordQueue(ready int64) {
	w.last = max(ready, 0)
	w.waiting += w.last
}

func (w *watch) recordBatch(sl *slot) {
	w.batches++
	w.bytes += int64(sl.byteSize())
	w.cost.Sample += sl.cost.Sample
	w.cost.Collate += sl.cost.Collate
	w.cost.Serialise += sl.cost.Serialise
	if w.points.Due() {
		w.points.Keep(watchPoint{time.Since(w.began), w.last, w.bytes})
	}
}

// Observed reports measurements of the pipeline over all steps since the session was opened (check and warm-up
// included). The first map, for Run.Input, has means per batch and the median input rate. The second has series over
// time, counted from since.
func (s *session) Observed(since time.Time) (map[string]any, map[string]gpuprof.Track) {
	w := &s.watch
	n := float64(max(w.batches, 1))
	figures := map[string]any{
		"batches_made": w.batches, "bytes_per_batch_mean": float64(w.bytes) / n,
		"make_sample_s": float64(w.cost.Sample) * 1e-9 / n, "make_collate_s": float64(w.cost.Collate) * 1e-9 / n,
	}
	if s.pool != nil {
		figures["queue_depth_mean"], figures["workers_started"] = float64(w.waiting)/n, s.pool.hired
		if s.k.WorkerKind == kindProcess {
			figures["make_serialise_s"] = float64(w.cost.Serialise) * 1e-9 / n
		}
	}
	shift := w.began.Sub(since).Seconds()
	depths, rates := gpuprof.Track{Unit: "batches"}, gpuprof.Track{Unit: "B/s"}
	points, _ := w.points.All()
	for i, p := range points {
		at := shift + p.at.Seconds()
		depths.TimeS, depths.Value = append(depths.TimeS, at), append(depths.Value, gpuprof.Number(p.ready))
		if i > 0 && p.at > points[i-1].at {
			rate := float64(p.bytes-points[i-1].bytes) / (p.at - points[i-1].at).Seconds()
			rates.TimeS, rates.Value = append(rates.TimeS, at), append(rates.Value, gpuprof.Number(rate))
		}
	}
	if n := len(rates.Value); n > 0 {
		figures["input_bytes_per_s"] = float64(slices.Sorted(slices.Values(rates.Value))[n/2])
	}
	tracks := map[string]gpuprof.Track{"input_rate": rates}
	if s.pool != nil {
		tracks["queue_depth"] = depths
	}
	return figures, tracks
}
