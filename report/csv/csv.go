// Package csv writes runs and histories as comma-separated values, for spreadsheets and data frames. A run has a row
// per metric of the step and of each stage, with its unit. Figures are in base units, with all digits.
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

// columnNames returns the column names. The first column is the number of a run in a sweep, from 1. The stage is empty
// for the whole step; the interval is empty for a metric without one.
func columnNames() []string {
	return []string{runfile.CSVMark, "workload", "preset", "device", "mode", "knobs", "status", "stage", "metric", "value", "unit", "ci95_low", "ci95_high", "samples", "processes"}
}

// Write writes the runs. A run without times has rows for its counters.
func Write(w io.Writer, runs []*gpuprof.Run) error {
	runs = view.Compact(runs)
	if len(runs) == 0 {
		return view.ErrNoRun("comma-separated values")
	}
	out := csv.NewWriter(w)
	if err := out.Write(columnNames()); err != nil {
		return err
	}
	for i, r := range runs {
		t := &rows{first: []string{strconv.Itoa(i + 1), r.Workload, r.Preset, view.DeviceName(r), string(r.Mode), knobText(r), view.Status(r)}}
		t.addStep(r)
		for _, s := range view.Stages(r) {
			t.addStage(s)
		}
		if err := out.WriteAll(t.all); err != nil { // flushes
			return err
		}
	}
	return nil
}

func knobText(r *gpuprof.Run) string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(r.Knobs)) {
		out = append(out, name+"="+r.Knobs[name])
	}
	return strings.Join(out, " ")
}

type rows struct {
	first []string // cells shared by all rows
	all   [][]string
}

func (t *rows) addStep(r *gpuprof.Run) {
	if view.HasTimes(r) {
		t.addSeries("", "step", "s", r.Step)
		t.addSeries("", "bare_step", "s", r.BareStep)
		t.addSeries("", "probed_step", "s", r.ProbedStep)
		if p := r.Throughput; p != nil {
			t.addSeries("", "throughput", p.Unit, p.Series)
		}
		t.addSeries("", "energy_step", "J", r.EnergyStep)
	}
	if r.PeakMemory > 0 {
		t.addValue("", "peak_memory", "B", float64(r.PeakMemory))
	}
	t.addCounters("", r.Counters)
	if r.Requests != nil {
		t.addRequests(r.Requests)
	}
}

// addRequests adds the request rate, and a service's figures as its callers see them, under the names of package
// compare. It omits figures that a late sender distorted.
func (t *rows) addRequests(q *loadtest.Requests) {
	all := q.Sum()
	processes := strconv.Itoa(len(q.Processes))
	for _, p := range q.Latency.Percentiles {
		var low, high string
		if p.CI95 != nil {
			low, high = formatNumber(p.CI95[0]), formatNumber(p.CI95[1])
		}
		t.addRow("", p.Metric(), formatNumber(p.S), "s", low, high, strconv.FormatInt(q.Latency.Count, 10), processes)
	}
	row := func(metric, unit string, v float64) {
		if gpuprof.IsFinite(v) {
			t.addRow("", metric, formatNumber(v), unit, "", "", strconv.FormatInt(all.Scheduled, 10), processes)
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

func (t *rows) addStage(s view.Stage) {
	t.addSeries(s.Name, "exposed", "s", s.Exposed)
	t.addSeries(s.Name, "device", "s", s.Device)
	t.addSeries(s.Name, "host", "s", s.Host)
	if s.BoundS > 0 {
		t.addValue(s.Name, "bound", "s", s.BoundS)
	}
	counters := maps.Clone(s.Counters)
	maps.DeleteFunc(counters, func(_ string, v float64) bool { return v == 0 }) // most stages have few counters
	t.addCounters(s.Name, counters)
}

// addSeries adds a row with the median and its interval, if the series has samples.
func (t *rows) addSeries(stage, metric, unit string, s *gpuprof.Series) {
	if s = view.Usable(s); s == nil {
		return
	}
	var low, high string
	if gpuprof.IsFinite(s.CI95[0]) && gpuprof.IsFinite(s.CI95[1]) && s.CI95 != [2]float64{} {
		low, high = formatNumber(s.CI95[0]), formatNumber(s.CI95[1])
	}
	t.addRow(stage, metric, formatNumber(s.Median), unit, low, high, strconv.Itoa(s.N()), strconv.Itoa(view.Processes(s)))
}

func (t *rows) addValue(stage, metric, unit string, v float64) {
	if gpuprof.IsFinite(v) {
		t.addRow(stage, metric, formatNumber(v), unit, "", "", "", "")
	}
}

// addCounters adds exact counts per step; counters of bytes have unit B.
func (t *rows) addCounters(stage string, all map[string]float64) {
	for _, name := range slices.Sorted(maps.Keys(all)) {
		unit := "1"
		if strings.HasPrefix(name, "bytes_") {
			unit = "B"
		}
		t.addValue(stage, name, unit, all[name])
	}
}

func (t *rows) addRow(cells ...string) {
	t.all = append(t.all, escapeFormulas(slices.Concat(t.first, cells)))
}

// escapeFormulas puts an apostrophe before texts that a spreadsheet would run as formulas.
func escapeFormulas(row []string) []string {
	for i, c := range row {
		if _, err := strconv.ParseFloat(c, 64); err != nil && c != "" && strings.ContainsRune("=+-@\t\r", rune(c[0])) {
			row[i] = "'" + c
		}
	}
	return row
}

func formatNumber(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
