package benchfmt

import (
	"io"
	"strings"

	"golang.org/x/perf/benchfmt"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/compare"
	"github.com/gpuprof/gpuprof/internal/stats"
	"github.com/gpuprof/gpuprof/report/internal/view"
)

// WriteComparison writes both sides of a comparison, a line per process and metric. The name ends in the side, for
// benchstat -col /side FILE. gpuprof gate tests in several stages: a metric has the processes of the stage that decided
// it. A metric without samples has no line.
func WriteComparison(w io.Writer, c *compare.Comparison) error {
	if c == nil {
		return view.ErrNoRun("benchmark lines")
	}
	out := benchfmt.NewWriter(w)
	seen := map[string]bool{}
	for i := range c.Metrics {
		for _, m := range unitOf(&c.Metrics[i], seen) {
			if err := out.Write(m); err != nil {
				return err
			}
		}
	}
	for i := range c.Metrics {
		for _, r := range sideResults(c, &c.Metrics[i]) {
			if err := out.Write(r); err != nil {
				return err
			}
		}
	}
	return nil
}

// unitOf returns the metadata of a metric's unit: the better direction, and whether counts are exact. It is nil if an
// earlier metric had this unit.
func unitOf(m *compare.MetricResult, seen map[string]bool) []*benchfmt.UnitMetadata {
	u := metricUnit(m)
	if seen[u] || m.Samples == nil {
		return nil
	}
	seen[u] = true
	say := func(key, value string) *benchfmt.UnitMetadata {
		return &benchfmt.UnitMetadata{UnitMetadataKey: benchfmt.UnitMetadataKey{Unit: u, Key: key}, OrigUnit: u, Value: value}
	}
	var out []*benchfmt.UnitMetadata
	if m.HigherIsBetter {
		out = append(out, say("better", "higher"))
	}
	if m.Exact {
		out = append(out, say("assume", "exact"))
	}
	return out
}

// metricUnit returns the unit by which benchstat groups. Each counter has a unit of its own, so that counters are not
// mixed.
func metricUnit(m *compare.MetricResult) string {
	switch {
	case m.Unit == "s":
		return "sec/op"
	case m.Exact:
		return strings.ReplaceAll(namePart(m.Name), "_", "-") + "/op"
	case m.Unit == "":
		return "value"
	}
	return unitName(m.Unit)
}

func sideResults(c *compare.Comparison, m *compare.MetricResult) []*benchfmt.Result {
	if m.Samples == nil {
		return nil
	}
	parts := []string{exportedName(m.Name)}
	if c.Workload != "" {
		parts = []string{exportedName(c.Workload), "preset=" + namePart(c.Preset), "metric=" + namePart(m.Name)}
	}
	var out []*benchfmt.Result
	for _, side := range []struct {
		name string
		runs compare.Samples
	}{{"old", m.Samples.Old}, {"new", m.Samples.New}} {
		name := strings.Join(append(parts[:len(parts):len(parts)], "side="+side.name), "/")
		runs := view.Samples(&gpuprof.Series{Runs: side.runs})
		for i, v := range stats.Medians(runs...) {
			out = append(out, &benchfmt.Result{Name: benchfmt.Name(name), Iters: len(runs[i]), Values: []benchfmt.Value{{Value: v, Unit: metricUnit(m)}}})
		}
	}
	return out
}
