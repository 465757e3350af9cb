// Package pprof writes runs as a profile that go tool pprof reads: where the
// time, the bytes and the flops of all measured steps went.
//
// Values are sums over every instrumented step, so that the total of a stage
// is the sum of its samples and counts are the counts of all steps. Stacks
// are workload > step > stage > kernel. The step's own frame holds nothing:
// device and host time overlap, so neither adds up to the step's period.
//
// Kernel times come from a separate marked pass and are shorter or longer
// than in the measured steps. Each kernel gets the part of its stage's total
// that its median has of the stage's median; when the parts exceed the
// stage they are scaled to it, and what they leave stays with the stage
// itself. So children always sum to the stage.
package pprof

import (
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/google/pprof/profile"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/report/internal/view"
	"github.com/gpuprof/gpuprof/report/runfile"
)

// The sample types, in the order of a sample's values.
const (
	deviceTime = iota
	hostTime
	bytesMoved
	flops
	launches
	nValues
)

type values [nValues]int64

// Write writes a gzip-compressed profile.proto of the runs. A run without
// times adds nothing but its comment.
func Write(w io.Writer, runs []*gpuprof.Run) error {
	p, err := Build(runs)
	if err != nil {
		return err
	}
	return p.Write(w)
}

// Build makes the profile in memory, for viewers that take one.
func Build(runs []*gpuprof.Run) (*profile.Profile, error) {
	runs = view.Compact(runs)
	if len(runs) == 0 {
		return nil, view.ErrNoRun("a profile")
	}
	b := &builder{locations: map[string]*profile.Location{}, p: &profile.Profile{
		SampleType: []*profile.ValueType{
			{Type: "device_time", Unit: "nanoseconds"}, {Type: "host_time", Unit: "nanoseconds"},
			{Type: "bytes", Unit: "bytes"}, {Type: "flops", Unit: "count"}, {Type: "launches", Unit: "count"},
		},
		Comments: []string{runfile.Marker + " " + view.Clean(runs[0].Tool.Version, 40)},
	}}
	if !runs[0].Started.IsZero() {
		b.p.TimeNanos = runs[0].Started.UnixNano()
	}
	for _, r := range runs {
		b.p.Comments = append(b.p.Comments, fingerprint(r)...)
		if view.HasTimes(r) {
			b.run(r)
		}
	}
	b.p.DefaultSampleType = b.defaultType()
	if err := b.p.CheckValid(); err != nil {
		return nil, fmt.Errorf("building the profile: %w", err)
	}
	return b.p, nil
}

type builder struct {
	p         *profile.Profile
	locations map[string]*profile.Location
}

// frame is the location of a name at one level; the same name at two levels
// (a stage and its only kernel) is two functions.
func (b *builder) frame(level, name string) *profile.Location {
	name = view.Clean(name, 200)
	if name == "" {
		name = "unnamed " + level
	}
	key := level + "\x00" + name
	if loc := b.locations[key]; loc != nil {
		return loc
	}
	fn := &profile.Function{ID: uint64(len(b.p.Function) + 1), Name: name, SystemName: name, Filename: level}
	loc := &profile.Location{ID: uint64(len(b.p.Location) + 1), Line: []profile.Line{{Function: fn}}}
	b.p.Function, b.p.Location = append(b.p.Function, fn), append(b.p.Location, loc)
	b.locations[key] = loc
	return loc
}

func (b *builder) run(r *gpuprof.Run) {
	root := []*profile.Location{b.frame("step", "step"), b.frame("workload", r.Workload)}
	for p := range stepLists(r) {
		lab := labels(r, p)
		b.p.DurationNanos += nanos(total(r.Step, p))
		for _, s := range view.Stages(r) {
			b.stage(r, s, p, root, lab)
		}
	}
}

// stepLists are the processes: the step's lists, or one when only stages have samples.
func stepLists(r *gpuprof.Run) [][]float64 {
	if r.Step != nil && len(r.Step.Runs) > 0 {
		return r.Step.Runs
	}
	for _, s := range r.Stages {
		for _, series := range []*gpuprof.Series{s.Device, s.Host} {
			if series != nil && s.Parent == "step" {
				return series.Runs
			}
		}
	}
	return nil
}

func (b *builder) stage(r *gpuprof.Run, s view.Stage, p int, root []*profile.Location, lab map[string][]string) {
	steps := float64(count(r.Step, p))
	if r.Step == nil {
		steps = float64(max(count(s.Device, p), count(s.Host, p)))
	}
	own := values{nanos(total(s.Device, p)), nanos(total(s.Host, p)),
		whole((s.Counters["bytes_read"] + s.Counters["bytes_written"]) * steps), whole(s.Counters["flops"] * steps), whole(s.Counters["launches"] * steps)}
	stack := append([]*profile.Location{b.frame("stage", s.Name)}, root...)
	for _, k := range split(view.Kernels(r, s.Name), s, own, steps) {
		for i := range own {
			own[i] -= k.v[i]
		}
		b.sample(append([]*profile.Location{b.frame("kernel", k.name)}, stack...), k.v, lab)
	}
	b.sample(stack, own, lab)
}

func (b *builder) sample(stack []*profile.Location, v values, lab map[string][]string) {
	if v != (values{}) {
		b.p.Sample = append(b.p.Sample, &profile.Sample{Location: stack, Value: slices.Clone(v[:]), Label: maps.Clone(lab)})
	}
}

type kernel struct {
	name string
	v    values
}

// split gives each kernel its part of a stage's totals (see the package's
// comment), never more than the stage has left. Host time stays with the
// stage: a kernel has none.
func split(kernels []gpuprof.StageResult, s view.Stage, stage values, steps float64) []kernel {
	var parts [nValues]float64
	want := make([][nValues]float64, len(kernels))
	for i, k := range kernels {
		if d := view.Usable(k.Device); d != nil && s.Device != nil && s.Device.Median > 0 && d.Median > 0 {
			want[i][deviceTime] = d.Median / s.Device.Median * float64(stage[deviceTime])
		}
		want[i][bytesMoved] = positive(k.Counters["bytes_read"]+k.Counters["bytes_written"]) * steps
		want[i][flops] = positive(k.Counters["flops"]) * steps
		want[i][launches] = positive(k.Counters["launches"]) * steps
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
			one.v[j] = min(whole(want[i][j]*scale), left[j])
			left[j] -= one.v[j]
		}
		out = append(out, one)
	}
	return out
}

func positive(v float64) float64 {
	if view.Finite(v) && v > 0 {
		return v
	}
	return 0
}

// whole rounds a count that may not be a number; the bound keeps sums inside int64.
func whole(v float64) int64 { return int64(math.Round(min(positive(v), 1e17))) }

func nanos(seconds float64) int64 { return whole(seconds * 1e9) }

// total adds process p's finite, positive samples.
func total(s *gpuprof.Series, p int) float64 {
	sum := 0.0
	if s != nil && p < len(s.Runs) {
		for _, v := range s.Runs[p] {
			sum += positive(v)
		}
	}
	return sum
}

func count(s *gpuprof.Series, p int) int {
	if s == nil || p >= len(s.Runs) {
		return 0
	}
	return len(s.Runs[p])
}

// defaultType is device_time, unless nothing ran on a device.
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

func labels(r *gpuprof.Run, process int) map[string][]string {
	out := map[string][]string{}
	for k, v := range r.Knobs {
		out[view.Clean(k, 60)] = []string{view.Clean(v, 200)}
	}
	// After the knobs: a knob cannot take these names over.
	out["device"], out["preset"] = []string{view.Clean(r.Device.Name, 200)}, []string{view.Clean(r.Preset, 60)}
	out["mode"], out["process"] = []string{view.Clean(string(r.Mode), 20)}, []string{strconv.Itoa(process + 1)}
	return out
}

func fingerprint(r *gpuprof.Run) []string {
	out := []string{
		view.Title(r) + ", " + view.Headline(r),
		fmt.Sprintf("cpu %s, %d CPUs, %s %s, %s", view.Clean(r.Device.CPU, 80), r.Device.CPUCores, view.Clean(r.Device.OS, 20), view.Clean(r.Device.Kernel, 60), view.Clean(r.Device.Go, 20)),
	}
	for _, k := range slices.Sorted(maps.Keys(r.Knobs)) {
		out = append(out, view.SettingText(r, []string{k}))
	}
	for _, k := range slices.Sorted(maps.Keys(r.Device.DeviceInfo)) {
		out = append(out, view.Clean(k, 40)+": "+view.Clean(r.Device.DeviceInfo[k], 200))
	}
	return out
}
