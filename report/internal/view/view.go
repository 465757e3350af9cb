package view

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/sweep"
)

// Stage is a row of the stage table.
type Stage struct {
	Name, Role            string          // Role of StageResult
	Device, Host, Exposed *gpuprof.Series // nil if it does not apply
	// Share is the stage's part of the exposed time of all samples. A part of the medians would be 0 for a rare stage.
	Share float64
	// BytesPerS and FlopsPerS are the counted bytes and flops, divided by the median device time; 0 without counts.
	BytesPerS, FlopsPerS float64
	Intensity            float64 // flops per byte; 0 if unknown
	BoundS               float64 // roofline bound, s; 0 if there is none
	OfBound              float64 // bound divided by median device time, at most 1; 0 if unknown
	NoBound              string  // why there is no bound
	Counters             map[string]float64
}

// Order of the rows: the step's work, the host's launches, its waits, then the time outside of all stages.
const (
	rankWork = iota
	rankLaunch
	rankWait
	rankGap
)

func (s Stage) rowRank() int {
	switch {
	case s.Name == gpuprof.StageLaunch:
		return rankLaunch
	case s.Name == gpuprof.StageGap:
		return rankGap
	case s.Waits():
		return rankWait
	}
	return rankWork
}

// Waits reports whether the host thread waits for the device in this stage.
func (s Stage) Waits() bool {
	return s.Role == gpuprof.RoleSync.String() || s.Role == gpuprof.RoleSlot.String()
}

// Stages returns the step's stages without their kernels, in order, with launch, waits and gap last.
func Stages(r *gpuprof.Run) []Stage {
	var out []Stage
	shares := map[string]float64{}
	for _, s := range r.StageShares() {
		shares[s.Name] = s.Value
	}
	for _, s := range r.Stages {
		if s.Parent != "step" {
			continue
		}
		v := Stage{Name: s.Name, Role: s.Role, Device: Usable(s.Device), Host: Usable(s.Host), Exposed: Usable(s.Exposed), Counters: s.Counters}
		v.Share = shares[s.Name]
		bound := gpuprof.Bound{S: s.BoundS, By: s.BoundBy, Missing: s.NoBound}
		if bound.S > 0 && !r.CopiesYield() {
			bound = gpuprof.Bound{Missing: "the run was recorded before bounds were by precision and kind of traffic"}
		}
		deriveRates(&v, bound)
		out = append(out, v)
	}
	slices.SortStableFunc(out, func(a, b Stage) int { return a.rowRank() - b.rowRank() })
	return out
}

func deriveRates(v *Stage, bound gpuprof.Bound) {
	bytes, flops := v.Counters["bytes_read"]+v.Counters["bytes_written"], v.Counters["flops"]
	if bytes > 0 && flops > 0 {
		v.Intensity = flops / bytes
	}
	if v.Device != nil {
		bound = bound.Beside(v.Device.Median)
	}
	if v.NoBound = bound.Missing; gpuprof.IsFinite(bound.S) && bound.S > 0 {
		v.BoundS = bound.S
	}
	if v.Device == nil || v.Device.Median <= 0 {
		return
	}
	v.BytesPerS, v.FlopsPerS = bytes/v.Device.Median, flops/v.Device.Median
	v.OfBound = v.BoundS / v.Device.Median
}

// Kernels returns a stage's kernels, from the pass that marks kernels.
func Kernels(r *gpuprof.Run, stage string) []gpuprof.StageResult {
	var out []gpuprof.StageResult
	for _, s := range r.Stages {
		if s.Parent == stage && stage != "step" {
			out = append(out, s)
		}
	}
	return out
}

// HasTimes reports whether the run has times to show. The times of an invalid run are not shown.
func HasTimes(r *gpuprof.Run) bool {
	if r.Status == gpuprof.Invalid {
		return false
	}
	if Usable(r.Step) != nil {
		return true
	}
	return slices.ContainsFunc(Stages(r), func(s Stage) bool { return s.Device != nil || s.Host != nil || s.Exposed != nil })
}

// Status returns the run's status, or a word for a missing one.
func Status(r *gpuprof.Run) string {
	if r.Status == "" {
		return "unknown status"
	}
	return string(r.Status)
}

// Title returns the first line of a report, without the status.
func Title(r *gpuprof.Run) string {
	if how := HowMeasured(r); how != "" {
		return Subject(r) + ", " + DeviceName(r) + ", " + how
	}
	return Subject(r) + ", " + DeviceName(r)
}

// HowMeasured returns mode and sample count: "steady mode, 40 samples x 1 process".
func HowMeasured(r *gpuprof.Run) string {
	var parts []string
	if r.Mode != "" {
		parts = append(parts, string(r.Mode)+" mode")
	}
	if n := r.Step.N(); n > 0 {
		parts = append(parts, SampleCount(r))
	}
	return strings.Join(parts, ", ")
}

// Subject returns workload and preset.
func Subject(r *gpuprof.Run) string {
	if r.Workload == "" {
		return "unnamed workload"
	}
	return strings.TrimSpace(Cut(r.Workload, 40) + " " + Cut(r.Preset, 24))
}

// DeviceName returns the device with its kind.
func DeviceName(r *gpuprof.Run) string {
	switch {
	case r.Device.Name == "" && r.Device.Kind == "":
		return "unknown device"
	case r.Device.Name == "" || r.Device.Name == r.Device.Kind:
		return Cut(r.Device.Kind, 24)
	}
	return Cut(r.Device.Name, 48) + " [" + Cut(r.Device.Kind, 12) + "]"
}

// SampleCount returns text such as "40 samples x 3 processes".
func SampleCount(r *gpuprof.Run) string {
	var sizes []int
	if r.Step != nil {
		for _, run := range r.Step.Runs {
			if len(run) > 0 {
				sizes = append(sizes, len(run))
			}
		}
	}
	if len(sizes) == 0 {
		return "no samples"
	}
	n := gpuprof.Plural(len(sizes), "process")
	if slices.Min(sizes) == slices.Max(sizes) {
		return gpuprof.Plural(sizes[0], "sample") + " x " + n
	}
	return gpuprof.Plural(r.Step.N(), "sample") + " over " + n
}

// Tool returns the program's name and version.
func Tool(r *gpuprof.Run) string {
	return strings.TrimSpace("gpuprof " + Cut(r.Tool.Version, 40))
}

// ModelKnob reports whether a knob changes the computed result.
func ModelKnob(r *gpuprof.Run, name string) bool { return slices.Contains(r.ModelKnobs, name) }

// Compact drops nil runs, so that renderers need not check.
func Compact(runs []*gpuprof.Run) []*gpuprof.Run {
	return slices.DeleteFunc(slices.Clone(runs), func(r *gpuprof.Run) bool { return r == nil })
}

// ErrNoRun returns the error of a renderer that has no run to show.
func ErrNoRun(what string) error {
	return gpuprof.Errorf(gpuprof.ErrInput, "writing %s: there is no run to show", what).WithFix("give a file written by gpuprof run")
}

// Value formats an evidence or input value on one line.
func Value(v any) string {
	switch x := v.(type) {
	case float64:
		if !gpuprof.IsFinite(x) {
			return "unknown"
		}
		return strconv.FormatFloat(x, 'g', 5, 64)
	case string:
		return Cut(x, 60)
	}
	return Cut(fmt.Sprint(v), 60)
}

// SweepHead returns the swept settings, and the device with its mode.
func SweepHead(runs []*gpuprof.Run) (head, where string) {
	vary := sweep.Vary(runs)
	head = Subject(runs[0])
	if slices.Contains(vary, "preset") || slices.Contains(vary, "workload") {
		head = "several workloads or presets"
	}
	head += ": " + gpuprof.Plural(len(runs), "run")
	if len(vary) == 0 {
		head += " at the same setting"
	} else {
		head += " over " + Cut(strings.Join(vary, ", "), 60)
	}
	where = "several devices"
	if !slices.Contains(vary, "device") {
		where = DeviceName(runs[0])
	}
	if runs[0].Mode != "" && !slices.Contains(vary, "mode") {
		where += ", " + string(runs[0].Mode) + " mode"
	}
	return head, where
}

// Headline returns the status with its reason: "PARTIAL: interrupted".
func Headline(r *gpuprof.Run) string {
	word := strings.ToUpper(Status(r))
	if r.Status == gpuprof.Complete {
		return string(gpuprof.Complete)
	}
	if r.Reason == "" {
		return word
	}
	return word + ": " + Cut(r.Reason, 300)
}

// Pairs formats a map as "a=1, b=2", sorted by key.
func Pairs[V any](m map[string]V) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		parts = append(parts, Cut(k, 32)+"="+Value(m[k]))
	}
	return strings.Join(parts, ", ")
}

// ApartNote explains why exposed times and shares do not sum to the step; "" if they do.
func ApartNote(r *gpuprof.Run) string {
	if Usable(r.ProbedStep) == nil {
		return ""
	}
	return "stages were timed in a pass of their own, whose step took " + Median(r.ProbedStep) + "; exposed times and shares are of that one"
}
