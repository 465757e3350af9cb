// Package benchfmt writes runs in the Go benchmark format, for benchstat. Each process has a line per set of metrics,
// with the process's medians, so that benchstat treats processes as replicates.
//
// The line of the step has sec/op, throughput and exact counters. The line of a stage (/stage=NAME) has device-sec/op,
// host-sec/op and exposed-sec/op; these are other units, so that no mean mixes stages with steps. Configuration lines
// have only values that are constant on one machine, because benchstat splits its tables where they differ. So dates,
// load and versions are omitted, and settings are in the name.
package benchfmt

import (
	"cmp"
	"io"
	"maps"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/perf/benchfmt"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/stats"
	"github.com/gpuprof/gpuprof/report/internal/view"
)

// Write writes the runs. A run without times has no line.
func Write(w io.Writer, runs []*gpuprof.Run) error {
	runs = view.Compact(runs)
	if len(runs) == 0 {
		return view.ErrNoRun("benchmark lines")
	}
	out := benchfmt.NewWriter(w)
	for _, m := range unitMetadata(runs) {
		if err := out.Write(m); err != nil {
			return err
		}
	}
	for _, r := range runs {
		for _, res := range resultsOf(r) {
			if err := out.Write(res); err != nil {
				return err
			}
		}
	}
	return nil
}

// unitMetadata marks each unit of throughput as better if higher.
func unitMetadata(runs []*gpuprof.Run) []*benchfmt.UnitMetadata {
	var out []*benchfmt.UnitMetadata
	seen := map[string]bool{}
	for _, r := range runs {
		if r.Throughput == nil || !view.HasTimes(r) || seen[unitName(r.Throughput.Unit)] {
			continue
		}
		u := unitName(r.Throughput.Unit)
		seen[u] = true
		out = append(out, &benchfmt.UnitMetadata{UnitMetadataKey: benchfmt.UnitMetadataKey{Unit: u, Key: "better"}, OrigUnit: u, Value: "higher"})
	}
	return out
}

func resultsOf(r *gpuprof.Run) []*benchfmt.Result {
	if !view.HasTimes(r) {
		return nil
	}
	var out []*benchfmt.Result
	for p, n := range sampleCounts(r) {
		if res := stepResult(r, p, n); len(res.Values) > 0 {
			out = append(out, res)
		}
		for _, s := range view.Stages(r) {
			if res := stageResult(r, s, p, n); len(res.Values) > 0 {
				out = append(out, res)
			}
		}
	}
	return out
}

// sampleCounts returns the number of the step's samples per process.
func sampleCounts(r *gpuprof.Run) []int {
	var out []int
	if r.Step != nil {
		for _, run := range r.Step.Runs {
			out = append(out, len(run))
		}
	}
	return out
}

// medianOf returns the median of process p's finite samples; ok is false if there are none.
func medianOf(s *gpuprof.Series, p int) (v float64, ok bool) {
	if s == nil || p >= len(s.Runs) {
		return 0, false
	}
	v = stats.Medians(s.Runs[p])[0]
	return v, gpuprof.IsFinite(v)
}

func newResult(r *gpuprof.Run, stage string, iters int) *benchfmt.Result {
	return &benchfmt.Result{Config: configOf(r), Name: benchfmt.Name(benchName(r, stage)), Iters: max(iters, 1)}
}

func stepResult(r *gpuprof.Run, p, n int) *benchfmt.Result {
	res := newResult(r, "", n)
	add := func(v float64, u string) { res.Values = append(res.Values, benchfmt.Value{Value: v, Unit: u}) }
	if v, ok := medianOf(r.Step, p); ok {
		add(v, "sec/op")
	} else {
		return res
	}
	if t := r.Throughput; t != nil {
		if v, ok := medianOf(t.Series, p); ok {
			add(v, unitName(t.Unit))
		}
	}
	if v, ok := medianOf(r.EnergyStep, p); ok {
		add(v, "J/op")
	}
	if r.PeakMemory > 0 {
		add(float64(r.PeakMemory), "peak-B")
	}
	for _, c := range []string{"launches", "sync_points", "bytes_h2d_pageable", "allocations"} {
		if v, ok := r.Counters[c]; ok && gpuprof.IsFinite(v) {
			add(v, strings.ReplaceAll(c, "_", "-")+"/op")
		}
	}
	return res
}

func stageResult(r *gpuprof.Run, s view.Stage, p, n int) *benchfmt.Result {
	res := newResult(r, s.Name, n)
	for _, m := range []struct {
		series *gpuprof.Series
		unit   string
	}{{s.Device, "device-sec/op"}, {s.Host, "host-sec/op"}, {s.Exposed, "exposed-sec/op"}} {
		if v, ok := medianOf(m.series, p); ok {
			res.Values = append(res.Values, benchfmt.Value{Value: v, Unit: m.unit})
		}
	}
	return res
}

// configOf returns the configuration keys that are constant from run to run on one machine.
func configOf(r *gpuprof.Run) []benchfmt.Config {
	var out []benchfmt.Config
	for _, kv := range [][2]string{{"goos", r.Device.OS}, {"goarch", goarch(r)}, {"pkg", "gpuprof/" + r.Workload}, {"cpu", r.Device.CPU}, {"device", r.Device.Name}} {
		if v := strings.TrimSpace(view.Cut(kv[1], 80)); v != "" {
			out = append(out, benchfmt.Config{Key: kv[0], Value: []byte(v), File: true})
		}
	}
	return out
}

// goarch returns the host device's architecture; "" for a GPU, whose Arch is not a GOARCH.
func goarch(r *gpuprof.Run) string {
	if r.Device.Kind == "host" {
		return r.Device.Arch
	}
	return ""
}

// benchName formats "E3nn/preset=small/…/device=host/mode=steady". It never ends in "-N", which would be read as a
// number of threads.
func benchName(r *gpuprof.Run, stage string) string {
	parts := []string{exportedName(r.Workload), "preset=" + namePart(r.Preset)}
	for _, k := range slices.Sorted(maps.Keys(r.Knobs)) {
		parts = append(parts, namePart(k)+"="+namePart(r.Knobs[k]))
	}
	if stage != "" {
		parts = append(parts, "stage="+namePart(stage))
	}
	return strings.Join(append(parts, "device="+namePart(r.Device.Kind), "mode="+modeName(r)), "/")
}

func modeName(r *gpuprof.Run) string {
	if slices.Contains(gpuprof.Modes(), r.Mode) {
		return string(r.Mode)
	}
	return "unknown"
}

// exportedName capitalizes a name, as the format requires after "Benchmark".
func exportedName(s string) string {
	out := []rune(namePart(s))
	out[0] = unicode.ToUpper(out[0])
	if !unicode.IsUpper(out[0]) && !unicode.IsDigit(out[0]) {
		return "X" + string(out)
	}
	return string(out)
}

// namePart makes a value a part of a name, without blanks, slashes and quotes.
func namePart(s string) string {
	return cmp.Or(strings.Map(func(c rune) rune {
		if c == '/' || c == '=' || c == '"' || unicode.IsSpace(c) || c == unicode.ReplacementChar {
			return '_'
		}
		return c
	}, view.Cut(s, 60)), "none")
}

// unitName makes one word of a unit of throughput.
func unitName(s string) string {
	return strings.Map(func(c rune) rune {
		if unicode.IsSpace(c) || c == '=' {
			return '_'
		}
		return c
	}, view.Cut(s, 40))
}
