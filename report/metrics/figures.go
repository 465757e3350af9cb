// Package metrics writes figures of results for programs that store them: Bencher's Metric Format (BMF), and
// OpenMetrics for Prometheus. A figure is the median over processes, with the lowest and the highest median of a
// process.
package metrics

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/compare"
	"github.com/gpuprof/gpuprof/internal/stats"
	"github.com/gpuprof/gpuprof/report/internal/view"
)

type figure struct {
	benchmark, metric, unit string
	value, low, high        float64
}

// runFigures returns the figures of the runs that have times.
func runFigures(runs []*gpuprof.Run) ([]figure, error) {
	var out []figure
	for _, run := range view.Compact(runs) {
		if !view.HasTimes(run) || view.Usable(run.Step) == nil {
			continue
		}
		r, err := compare.FromRun(run)
		if err != nil {
			return nil, err
		}
		for _, m := range r.Metrics {
			out = appendFigure(out, figure{benchmark: benchmarkName(run), metric: m.Name, unit: m.Unit, value: m.Median()}, m.Runs)
		}
	}
	if len(out) == 0 {
		return nil, view.ErrNoRun("metrics")
	}
	return out, nil
}

// comparisonFigures returns the figures of the new side.
func comparisonFigures(c *compare.Comparison) ([]figure, error) {
	if c == nil {
		return nil, view.ErrNoRun("metrics")
	}
	name := ""
	if c.Workload != "" {
		name = nameWord(c.Workload) + "/preset=" + nameWord(c.Preset)
	}
	var out []figure
	for i := range c.Metrics {
		m := &c.Metrics[i]
		var runs [][]float64
		if m.Samples != nil {
			runs = m.Samples.New
		}
		out = appendFigure(out, figure{benchmark: name, metric: m.Name, unit: m.Unit, value: float64(m.New)}, runs)
	}
	if len(out) == 0 {
		return nil, gpuprof.Errorf(gpuprof.ErrInput, "writing metrics: the new side of the comparison has no figure").WithFix("measure it again")
	}
	return out, nil
}

// appendFigure appends a finite figure, with the least and the largest median of a process.
func appendFigure(to []figure, f figure, runs [][]float64) []figure {
	if !gpuprof.IsFinite(f.value) {
		return to
	}
	f.low, f.high = f.value, f.value
	for _, v := range stats.Medians(view.Samples(&gpuprof.Series{Runs: runs})...) {
		f.low, f.high = min(f.low, v), max(f.high, v)
	}
	f.metric = view.Cut(f.metric, 200)
	return append(to, f)
}

// benchmarkName formats a run's settings: "e3nn/preset=small/batch=512/device=host/mode=steady".
func benchmarkName(r *gpuprof.Run) string {
	parts := []string{nameWord(r.Workload), "preset=" + nameWord(r.Preset)}
	for _, k := range slices.Sorted(maps.Keys(r.Knobs)) {
		parts = append(parts, nameWord(k)+"="+nameWord(r.Knobs[k]))
	}
	return strings.Join(append(parts, "device="+nameWord(r.Device.Kind), "mode="+nameWord(string(r.Mode))), "/")
}

// nameWord formats a part of a name: "/" becomes "_", "" becomes "none".
func nameWord(s string) string {
	return cmp.Or(strings.ReplaceAll(view.Cut(s, 60), "/", "_"), "none")
}
