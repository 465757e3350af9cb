package results

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuprof/gpuprof"
)

// googleContext is the head of Google Benchmark's --benchmark_format=json. Times are in time_unit. The repetitions
// of one name are samples of one process. Aggregates (run_type aggregate) are skipped unless the file has nothing
// else (--benchmark_report_aggregates_only): then the median replaces the samples. Every number outside of the
// format's own fields is a user counter.
type googleContext struct {
	Executable string `json:"executable"`
	CPUs       int    `json:"num_cpus"`
	Build      string `json:"library_build_type"`
	Schema     int    `json:"json_schema_version"`
}

type googleRow struct {
	Name      string `json:"name"`
	RunName   string `json:"run_name"`
	RunType   string `json:"run_type"`
	Aggregate string `json:"aggregate_name"`
	Unit      string `json:"time_unit"`
	Real      figure `json:"real_time"`
	CPU       figure `json:"cpu_time"`
	Error     bool   `json:"error_occurred"`
	Message   string `json:"error_message"`
	Skipped   bool   `json:"skipped"`
	SkipWhy   string `json:"skip_message"`
}

func (r *googleRow) benchmarkName() string {
	if r.isAggregate() {
		return cmp.Or(r.RunName, strings.TrimSuffix(r.Name, "_"+r.Aggregate))
	}
	return cmp.Or(r.RunName, r.Name)
}

// isAggregate reports whether the row is a mean, a median or another statistic of other rows.
func (r *googleRow) isAggregate() bool { return r.RunType == "aggregate" || r.Aggregate != "" }

const googleSchema = 1

// googleFields are the members of a row that are not counters.
var googleFields = []string{"name", "run_name", "run_type", "aggregate_name", "aggregate_unit", "family_index", "per_family_instance_index",
	"repetitions", "repetition_index", "threads", "iterations", "real_time", "cpu_time", "time_unit", "label", "error_occurred", "error_message",
	"skipped", "skip_message", "cpu_coefficient", "real_coefficient", "big_o", "rms"}

func isGoogle(d jsonValue) bool {
	return d.hasMembers("benchmarks", "context")
}

func readGoogle(p *parsed, d jsonValue) error {
	var f struct {
		Context    googleContext     `json:"context"`
		Benchmarks []json.RawMessage `json:"benchmarks"`
	}
	if err := d.decode(&f); err != nil {
		return err
	}
	if f.Context.Schema > googleSchema {
		return gpuprof.Errorf(nil, "json_schema_version %d is newer than the %d this gpuprof knows", f.Context.Schema, googleSchema).WithFix("update gpuprof")
	}
	p.setFact("tool", "Google Benchmark")
	if f.Context.CPUs > 0 {
		p.setEnv("cpus", strconv.Itoa(f.Context.CPUs))
	}
	p.setEnv("library_build_type", f.Context.Build)
	if err := d.room.Take(rowBytes * int64(len(f.Benchmarks))); err != nil {
		return err
	}
	rows := make([]googleRow, len(f.Benchmarks))
	repeated := map[string]bool{} // the benchmark has rows besides aggregates
	for i, raw := range f.Benchmarks {
		if err := d.decodeRaw(raw, &rows[i]); err != nil {
			return fmt.Errorf("benchmark %d: %w", i+1, err)
		}
		if !rows[i].isAggregate() {
			repeated[rows[i].benchmarkName()] = true
		}
	}
	for i, raw := range f.Benchmarks {
		if row := &rows[i]; row.isAggregate() {
			if row.Aggregate != "median" || repeated[row.benchmarkName()] {
				continue
			}
			p.addNote("no-samples", "the file has no single repetitions, only medians of them", "run it without --benchmark_report_aggregates_only")
		}
		if err := p.googleRow(&rows[i], jsonValue{raw: raw, room: d.room}, i); err != nil {
			return err
		}
	}
	return nil
}

// Memory for a row and for a series of figures, bytes.
const (
	rowBytes    = 512
	seriesBytes = 512
)

// googleRow adds the figures of one row, each as a sample.
func (p *parsed) googleRow(row *googleRow, d jsonValue, i int) error {
	name := row.benchmarkName()
	switch {
	case name == "":
		return fmt.Errorf("benchmark %d has no name", i+1)
	case row.Error:
		p.addFailure(name, row.Message)
		return nil
	case row.Skipped:
		p.addSkip(name, row.SkipWhy)
		return nil
	case !row.Real.set && !row.CPU.set:
		return fmt.Errorf("benchmark %s has no times", name)
	}
	scale, ok := map[string]float64{"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1, "": 1e-9}[row.Unit]
	if !ok {
		return fmt.Errorf("benchmark %s: time_unit %q is not known", name, row.Unit)
	}
	for _, t := range []struct {
		figure
		name string
	}{{row.Real, name}, {row.CPU, name + ":cpu_time"}} {
		if t.set {
			p.addSample(t.name, "s", lowerBetter, t.value*scale)
		}
	}
	return p.googleCounters(name, d)
}

// googleCounters adds the user's counters. It keeps a counter that is not finite, so that Parse reports it by name.
func (p *parsed) googleCounters(name string, d jsonValue) error {
	if err := d.open(); err != nil {
		return err
	}
	if err := d.room.Take(seriesBytes * int64(len(d.member))); err != nil {
		return err
	}
	for _, k := range slices.Sorted(maps.Keys(d.member)) {
		if slices.Contains(googleFields, k) {
			continue
		}
		v := math.NaN()
		if text := string(d.member[k]); text != "null" {
			f, err := strconv.ParseFloat(strings.Trim(text, `"`), 64)
			if word := text[0] == '"' && gpuprof.IsFinite(f); word || err != nil && !errors.Is(err, strconv.ErrRange) {
				continue // a text is a label, not a counter
			}
			v = f
		}
		is := guessDirection(k)
		p.addSample(name+":"+k, googleUnit(k), is, v).Guessed = is == lowerBetter
	}
	return nil
}

func googleUnit(counter string) string {
	switch counter {
	case "bytes_per_second":
		return "B/s"
	case "items_per_second":
		return "items/s"
	case "max_bytes_used", "total_allocated_bytes", "net_heap_growth": // counters of a memory manager
		return "B"
	}
	return ""
}
