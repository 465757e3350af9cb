// Package pprof writes runs as a profile for go tool pprof: the stages and kernels in which a step spends its time,
// bytes and flops. Stacks are step > stage > kernel.
//
// Values are per step. They are the medians of the printed tables, so that -top agrees with the tables, and -diff_base
// works with any number of samples. If a median is 0, because fewer than half of the steps have the value, the mean is
// used instead. With several processes, a figure is divided among them in proportion to their means. Counts are equal
// in all processes and have no process label.
//
// device_time and host_time overlap and do not add up to the step. step_time adds up to the step: it is the step's
// median, divided in proportion to the stages' shares. If the stages were timed in a separate pass (Run.ProbedStep),
// the median is from this pass, and a comment in the profile states so. Energy is known only for the whole step, and
// belongs to the step's frame.
//
// Kernel times come from a separate marked pass and differ from the measured steps. Each kernel therefore gets a share
// of its stage's time: the kernel's median divided by the stage's median. If the shares add up to more than 1, they are
// scaled down; if they add up to less, the remainder stays with the stage.
package pprof

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/google/pprof/profile"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/sweep"
	"github.com/gpuprof/gpuprof/report/internal/view"
	"github.com/gpuprof/gpuprof/report/runfile"
)

// Sample types, in the order of a sample's values. Energy is present only if a run has it.
const (
	deviceTime = iota
	hostTime
	stepTime
	bytesMoved
	flops
	launches
	energy
	nValues
)

type values [nValues]int64

// Write writes a gzip-compressed profile.proto of the runs. A run without times has only its comment.
func Write(w io.Writer, runs []*gpuprof.Run) error {
	p, err := Build(runs)
	if err != nil {
		return err
	}
	return p.Write(w)
}

// Build returns the profile in memory.
func Build(runs []*gpuprof.Run) (*profile.Profile, error) {
	runs = view.Compact(runs)
	if len(runs) == 0 {
		return nil, view.ErrNoRun("a profile")
	}
	b := &builder{locations: map[string]*profile.Location{}, p: &profile.Profile{
		SampleType: []*profile.ValueType{
			{Type: "device_time", Unit: "nanoseconds"}, {Type: "host_time", Unit: "nanoseconds"}, {Type: "step_time", Unit: "nanoseconds"},
			{Type: "bytes", Unit: "bytes"}, {Type: "flops", Unit: "count"}, {Type: "launches", Unit: "count"}, {Type: "energy", Unit: "microjoules"},
		},
		// There is no program: pprof shows the mapping as the name of the run.
		Mapping:  []*profile.Mapping{{ID: 1, File: strings.ReplaceAll(view.Subject(runs[0]), "/", " "), HasFunctions: true}},
		Comments: []string{runfile.Marker + " " + view.Cut(runs[0].Tool.Version, 40)},
	}}
	if !runs[0].Started.IsZero() {
		b.p.TimeNanos = runs[0].Started.UnixNano()
	}
	joules := false
	for _, r := range runs {
		b.p.Comments = append(b.p.Comments, describeRun(r)...)
		if view.HasTimes(r) {
			b.addRun(r)
			joules = joules || view.Usable(r.EnergyStep) != nil
		}
	}
	if !joules {
		b.p.SampleType = b.p.SampleType[:energy]
		for _, s := range b.p.Sample {
			s.Value = s.Value[:energy]
		}
	}
	b.p.DefaultSampleType = b.defaultType()
	if err := b.p.CheckValid(); err != nil {
		return nil, fmt.Errorf("building the profile: %w", err)
	}
	return b.p, nil
}

// nameLimit limits names, in runes.
const nameLimit = 200

type builder struct {
	p         *profile.Profile
	locations map[string]*profile.Location
}

// addFrame returns the location of a name at a level: step, stage or kernel. A stage and its kernel of the same name
// are two functions.
func (b *builder) addFrame(level, name string) *profile.Location {
	name = cmp.Or(view.Cut(name, nameLimit), "unnamed "+level)
	key := level + "\x00" + name
	if loc := b.locations[key]; loc != nil {
		return loc
	}
	fn := &profile.Function{ID: uint64(len(b.p.Function) + 1), Name: name, SystemName: name, Filename: level}
	loc := &profile.Location{ID: uint64(len(b.p.Location) + 1), Mapping: b.p.Mapping[0], Line: []profile.Line{{Function: fn}}}
	b.p.Function, b.p.Location = append(b.p.Function, fn), append(b.p.Location, loc)
	b.locations[key] = loc
	return loc
}

func (b *builder) addRun(r *gpuprof.Run) {
	d := divideRun(r)
	b.p.DurationNanos += d.duration
	step := b.addFrame("step", "step")
	stageNames := map[string]bool{}
	for _, s := range view.Stages(r) {
		stageNames[view.Cut(s.Name, nameLimit)] = true
	}
	streams := streamsOf(r)
	for p := range d.countRows() {
		lab := labelsOf(r, d.rowProcess(p))
		b.addSample([]*profile.Location{step}, d.step[p], lab)
		for i, s := range view.Stages(r) {
			if on := streams[s.Name]; len(on) > 0 {
				lab["stream"] = on
			} else {
				delete(lab, "stream")
			}
			own, stack := d.stages[i][p], []*profile.Location{b.addFrame("stage", s.Name), step}
			for _, k := range splitStage(view.Kernels(r, s.Name), s, own) {
				for j := range own {
					own[j] -= k.v[j]
				}
				if stageNames[view.Cut(k.name, nameLimit)] { // pprof sums frames with the same name
					k.name += " (kernel)"
				}
				b.addSample(append([]*profile.Location{b.addFrame("kernel", k.name)}, stack...), k.v, lab)
			}
			b.addSample(stack, own, lab)
		}
	}
}

func (b *builder) addSample(stack []*profile.Location, v values, lab map[string][]string) {
	if v != (values{}) {
		b.p.Sample = append(b.p.Sample, &profile.Sample{Location: stack, Value: slices.Clone(v[:]), Label: maps.Clone(lab)})
	}
}

type kernel struct {
	name string
	v    values
}

// splitStage gives each kernel its part of a stage's totals (see the package comment). Host time stays with the stage,
// since kernels have none.
func splitStage(kernels []gpuprof.StageResult, s view.Stage, stage values) []kernel {
	var parts [nValues]float64
	want := make([][nValues]float64, len(kernels))
	for i, k := range kernels {
		if d := view.Usable(k.Device); d != nil && s.Device != nil && s.Device.Median > 0 && d.Median > 0 {
			want[i][deviceTime] = d.Median / s.Device.Median * float64(stage[deviceTime])
		}
		want[i][bytesMoved] = positiveOrZero(k.Counters["bytes_read"] + k.Counters["bytes_written"])
		want[i][flops] = positiveOrZero(k.Counters["flops"])
		want[i][launches] = positiveOrZero(k.Counters["launches"])
		for j := range parts {
			parts[j] += want[i][j]
		}
	}
	left := stage
	out := make([]kernel, 0, len(kernels))
	for i, k := range kernels {
		one := kernel{name: k.Name}
		for j := range parts {
			scale := 1.0
			if parts[j] > float64(stage[j]) {
				scale = float64(stage[j]) / parts[j]
			}
			one.v[j] = min(roundCount(want[i][j]*scale), left[j])
			left[j] -= one.v[j]
		}
		out = append(out, one)
	}
	return out
}

func positiveOrZero(v float64) float64 {
	if gpuprof.IsFinite(v) && v > 0 {
		return v
	}
	return 0
}

// roundCount rounds a count; invalid values become 0. Its limit keeps sums within int64.
func roundCount(v float64) int64 { return int64(math.Round(min(positiveOrZero(v), 1e17))) }

func secondsToNS(seconds float64) int64 { return roundCount(seconds * 1e9) }

// defaultType returns device_time, or host_time if nothing ran on a device.
func (b *builder) defaultType() string {
	var device, host int64
	for _, s := range b.p.Sample {
		device, host = device+s.Value[deviceTime], host+s.Value[hostTime]
	}
	if device == 0 && host > 0 {
		return b.p.SampleType[hostTime].Type
	}
	return b.p.SampleType[deviceTime].Type
}

// streamsOf lists the streams of each stage in the example step.
func streamsOf(r *gpuprof.Run) map[string][]string {
	out := map[string][]string{}
	for _, s := range r.ExampleStep {
		if lane := view.Cut(s.Lane, 60); lane != "host" && !slices.Contains(out[s.Stage], lane) {
			out[s.Stage] = append(out[s.Stage], lane)
		}
	}
	for _, on := range out {
		slices.Sort(on)
	}
	return out
}

// labelsOf returns the labels of process p, counted from 0. For a negative p there is no process label.
func labelsOf(r *gpuprof.Run, p int) map[string][]string {
	out := map[string][]string{}
	for k, v := range r.Knobs {
		out[view.Cut(k, 60)] = []string{view.Cut(v, 200)}
	}
	// Set these last: a knob may have the same name.
	delete(out, "process")
	for k, v := range map[string]string{"workload": r.Workload, "preset": r.Preset, "device": r.Device.Name, "mode": string(r.Mode)} {
		out[k] = []string{view.Cut(v, 200)}
	}
	if p >= 0 {
		out["process"] = []string{strconv.Itoa(p + 1)}
	}
	return out
}

func describeRun(r *gpuprof.Run) []string {
	out := []string{
		view.Title(r) + ", " + view.Headline(r),
		fmt.Sprintf("cpu %s, %d CPUs, %s %s, %s", view.Cut(r.Device.CPU, 80), r.Device.CPUCores, view.Cut(r.Device.OS, 20), view.Cut(r.Device.Kernel, 60), view.Cut(r.Device.Go, 20)),
		"seed " + strconv.FormatUint(r.Seed, 10) + "; knobs " + sweep.SettingText(r, slices.Sorted(maps.Keys(r.Knobs))),
	}
	var facts []string
	for _, k := range slices.Sorted(maps.Keys(r.Device.DeviceInfo)) {
		facts = append(facts, view.Cut(k, 40)+": "+view.Cut(r.Device.DeviceInfo[k], 200))
	}
	if len(facts) > 0 {
		out = append(out, "device "+strings.Join(facts, "; "))
	}
	if !view.HasTimes(r) {
		return append(out, "no times are reported")
	}
	out = append(out, "values are of one step, medians as the tables print them")
	if note := view.ApartNote(r); note != "" {
		out = append(out, "step_time: "+note)
	}
	return out
}
