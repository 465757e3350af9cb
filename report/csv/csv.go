// Package csv writes runs and histories as rows of comma-separated values, for spreadsheets
// and data frames. A run has one row for each metric of the step and of each stage, its
// unit beside it.
// Figures are in base units and carry every digit.
package csv

import (
	"encoding/csv"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/loadtest"
	"github.com/gpuprof/gpuprof/report/internal/view"
	"github.com/gpuprof/gpuprof/report/runfile"
)

// head names the columns. The first tells the runs of a sweep apart, counted from 1; stage
// is empty for the step as a whole; the interval is empty where a metric has none.
func head() []string {
	return []string{runfile.CSVMark, "workload", "preset", "device", "mode", "knobs", "status", "stage", "metric", "value", "unit", "ci95_low", "ci95_high", "samples", "processes"}
}

// Write writes the runs. A run without times has the rows of its counters.
func Write(w io.Writer, runs []*gpuprof.Run) error {
	runs = view.Compact(runs)
	if len(runs) == 0 {
		return view.ErrNoRun("comma-separated values")
	}
	out := csv.NewWriter(w)
	if err := out.Write(head()); err != nil {
		return err
	}
	for i, r := range runs {
		t := &rows{first: []string{strconv.Itoa(i + 1), r.Workload, r.Preset, view.DeviceName(r), string(r.Mode), knobs(r), view.Status(r)}}
		t.step(r)
		for _, s := range view.Stages(r) {
			t.stage(s)
		}
		if err := out.WriteAll(t.all); err != nil { // flushes
			return err
		}
	}
	return nil
}

func knobs(r *gpuprof.Run) string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(r.Knobs)) {
		out = append(out, name+"="+r.Knobs[name])
	}
	return strings.Join(out, " ")
}

// rows gathers the rows of a run.
type rows struct {
	first []string // what all rows share
	all   [][]string
}

func (t *rows) step(r *gpuprof.Run) {
	if view.HasTimes(r) {
		t.series("", "step", "s", r.Step)
		t.series("", "bare_step", "s", r.BareStep)
		t.series("", "probed_step", "s", r.ProbedStep)
		if p := r.Throughput; p != nil {
			t.series("", "throughput", p.Unit, p.Series)
		}
		t.series("", "energy_step", "J", r.EnergyStep)
	}
	if r.PeakMemory > 0 {
		t.value("", "peak_memory", "B", float64(r.PeakMemory))
	}
	t.counters("", r.Counters)
	if r.Requests != nil {
		t.requests(r.Requests)
	}
}

// requests are what callers saw of a service, by the names that compare gives it, and the rate that it goes with. What a
// late sender made its own is left out.
func (t *rows) requests(q *loadtest.Requests) {
	all := q.Sum()
	processes := strconv.Itoa(len(q.Processes))
	for _, p := range q.Latency.Percentiles {
		var low, high string
		if p.CI95 != nil {
			low, high = number(p.CI95[0]), number(p.CI95[1])
		}
		t.row("", p.Metric(), number(p.S), "s", low, high, strconv.FormatInt(q.Latency.Count, 10), processes)
	}
	row := func(metric, unit string, v float64) {
		if view.Finite(v) {
			t.row("", metric, number(v), unit, "", "", strconv.FormatInt(all.Scheduled, 10), processes)
		}
	}
	if q.Rate > 0 {
		row("request_rate", "requests/s", q.Rate)
	}
	if q.Told() > 0 {
		row("goodput", "requests/s", q.Goodput)
	}
	row("refused", "share", float64(all.Refused)/float64(all.Scheduled))
}

func (t *rows) stage(s view.Stage) {
	t.series(s.Name, "exposed", "s", s.Exposed)
	t.series(s.Name, "device", "s", s.Device)
	t.series(s.Name, "host", "s", s.Host)
	if s.BoundS > 0 {
		t.value(s.Name, "bound", "s", s.BoundS)
	}
	counters := maps.Clone(s.Counters)
	maps.DeleteFunc(counters, func(_ string, v float64) bool { return v == 0 }) // most stages lack most of them
	t.counters(s.Name, counters)
}

// series is a row of a median with its interval; none for a series without samples.
func (t *rows) series(stage, metric, unit string, s *gpuprof.Series) {
	if s = view.Usable(s); s == nil {
		return
	}
	var low, high string
	if view.Finite(s.CI95[0]) && view.Finite(s.CI95[1]) && s.CI95 != [2]float64{} {
		low, high = number(s.CI95[0]), number(s.CI95[1])
	}
	t.row(stage, metric, number(s.Median), unit, low, high, strconv.Itoa(s.N()), strconv.Itoa(view.Processes(s)))
}

func (t *rows) value(stage, metric, unit string, v float64) {
	if view.Finite(v) {
		t.row(stage, metric, number(v), unit, "", "", "", "")
	}
}

// counters are exact counts per step; those of bytes are in bytes.
func (t *rows) counters(stage string, all map[string]float64) {
	for _, name := range slices.Sorted(maps.Keys(all)) {
		unit := "1"
		if strings.HasPrefix(name, "bytes_") {
			unit = "B"
		}
		t.value(stage, name, unit, all[name])
	}
}

func (t *rows) row(cells ...string) { t.all = append(t.all, plain(slices.Concat(t.first, cells))) }

// plain marks the texts of a row that a spreadsheet would take for a formula; figures
// begin with a digit or a minus.
func plain(row []string) []string {
	for i, c := range row {
		if _, err := strconv.ParseFloat(c, 64); err != nil && c != "" && strings.ContainsRune("=+-@\t\r", rune(c[0])) {
			row[i] = "'" + c
		}
	}
	return row
}

func number(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
