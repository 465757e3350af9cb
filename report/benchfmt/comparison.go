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

// WriteComparison writes both sides of a comparison, a line a process and
// metric, the side as the last part of the name: benchstat -col /side FILE
// puts them side by side. Of a gate's metrics they are the processes of the
// stage that decided. A metric whose samples are not known has no lines.
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
		for _, r := range sides(c, &c.Metrics[i]) {
			if err := out.Write(r); err != nil {
				return err
			}
		}
	}
	return nil
}

// unitOf says of a unit, once, which direction is better and whether it counts.
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

// metricUnit is what benchstat compares by: counters have units of their own, so
// that none is taken for another's.
func metricUnit(m *compare.MetricResult) string {
	switch {
	case m.Unit == "s":
		return "sec/op"
	case m.Exact:
		return strings.ReplaceAll(word(m.Name), "_", "-") + "/op"
	case m.Unit == "":
		return "value"
	}
	return unit(m.Unit)
}

func sides(c *compare.Comparison, m *compare.MetricResult) []*benchfmt.Result {
	if m.Samples == nil {
		return nil
	}
	parts := []string{exported(m.Name)}
	if c.Workload != "" {
		parts = []string{exported(c.Workload), "preset=" + word(c.Preset), "metric=" + word(m.Name)}
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
