package results

import (
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/compare"
	"github.com/gpuprof/gpuprof/internal/memsnap"
)

// FromMemory returns peaks and ends of memory snapshots, bytes, as exact metrics: each the largest of all devices.
func FromMemory(a *memsnap.Analysis) *compare.Result {
	r := &compare.Result{Tool: "memory", Status: gpuprof.Complete, Env: map[string]string{"format": "memory snapshot"}, Facts: map[string]string{}, Code: map[string]string{}, Knobs: map[string]compare.Knob{}}
	var paths []string
	for _, in := range a.Inputs {
		paths = append(paths, in.Path)
		if in.Settings != "" {
			join(r.Facts, "allocator settings", in.Settings)
		}
	}
	r.Source = strings.Join(paths, ", ")
	most := map[string]int64{}
	for i := range a.Devices {
		d := &a.Devices[i]
		for name, v := range map[string]int64{"peak_bytes": d.Peak.Requested, "peak_reserved_bytes": d.PeakReserved, "end_bytes": d.End.Requested, "end_reserved_bytes": d.End.Reserved, "oom_errors": int64(len(d.OOMs) + d.MoreOOMs)} {
			most[name] = max(most[name], v)
		}
		if d.Events == 0 { // the end is no peak, so a limit on the peak must not pass because of it
			r.Status, r.Reason = gpuprof.Partial, "a snapshot without events does not show its peak"
		}
	}
	for _, name := range []string{"peak_bytes", "peak_reserved_bytes", "end_bytes", "end_reserved_bytes", "oom_errors"} {
		unit := "B"
		if name == "oom_errors" {
			unit = "count"
		}
		r.Metrics = append(r.Metrics, compare.MetricData{Metric: compare.Metric{Name: name, Unit: unit, Exact: true}, Runs: [][]float64{{float64(most[name])}}})
	}
	r.Warnings = append(r.Warnings, a.Warnings...)
	return r
}
