package compare

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/stats"
)

// hardFacts are the device facts that must agree, by name or prefix (power_limit_w, application_sm_clock_hz).
var hardFacts = []string{"driver", "cuda", "compute_capability", "mig", "ecc", "power_limit", "application_", "clock_lock", "locked_", "simulated"}

// codeFacts identify the code that ran.
var codeFacts = []string{"ptx_hash", "binding"}

// FromRun makes a Result of a gpuprof run. Its metrics are step, step/<stage> (exposed times, which add up to the
// step), throughput, peak_memory, energy_step, latencies of requests under load and, exact, the step's counters. An
// invalid run (a check failed) becomes a Result that failed, without times. ErrInput for a run without anything to
// compare.
func FromRun(r *gpuprof.Run) (*Result, error) {
	if r == nil {
		return nil, gpuprof.Errorf(gpuprof.ErrInput, "comparing runs: there is no run").WithFix("give a file written by gpuprof run")
	}
	r = useBareStep(r)
	out := &Result{
		Source: r.Workload, Tool: "gpuprof", Status: r.Status, Reason: r.Reason,
		Workload: r.Workload, Preset: r.Preset, Warnings: slices.Clone(r.Warnings),
		Knobs: map[string]Knob{},
	}
	out.Status = cmp.Or(out.Status, gpuprof.Complete)
	for name, value := range r.Knobs {
		out.Knobs[name] = Knob{Value: value, Model: slices.Contains(r.ModelKnobs, name)}
	}
	out.Env, out.Facts, out.Code = splitFingerprint(r)
	out.addSeries("step", r.Step, false)
	if r.Step != nil {
		for i := range r.Stages {
			s := &r.Stages[i]
			if s.Parent != "step" || s.Exposed == nil || out.Metric("step/"+s.Name) != nil {
				continue
			}
			out.addSeries("step/"+s.Name, s.Exposed, false)
			out.Stages = append(out.Stages, "step/"+s.Name)
		}
		out.Total = "step"
	}
	if r.Throughput != nil {
		out.addSeries("throughput", r.Throughput.Series, true)
	}
	if r.PeakMemory > 0 {
		out.addExact("peak_memory", "B", float64(r.PeakMemory))
	}
	out.addSeries("energy_step", r.EnergyStep, false)
	out.addRequests(r.Requests)
	for _, name := range slices.Sorted(maps.Keys(r.Counters)) {
		out.addExact(name, CounterUnit(name), r.Counters[name])
		out.Metric(name).Sites = stageSites(r, name)
	}
	if r.Status == gpuprof.Invalid {
		out.Failed = append(out.Failed, invalidReason(r))
	}
	if len(out.Metrics) == 0 && len(out.Failed) == 0 {
		why := cmp.Or(r.Reason, "it was stopped before the first sample")
		return nil, gpuprof.Errorf(gpuprof.ErrInput, "comparing run %s/%s: it holds no samples (%s)", r.Workload, r.Preset, why).WithFix("run it again")
	}
	out.RunInfo = runInfo(r)
	return out, nil
}

// useBareStep returns the run. If stage events cost more than the device's limit, its step is replaced by the step
// that was measured without them (BareStep). Older files from a host have this cost in the step, so their step does not
// compare with a newer run's.
func useBareStep(r *gpuprof.Run) *gpuprof.Run {
	if o := r.Overhead; o != nil && o.CI95[0]-1 > r.Device.ProbeLimit() {
		if kept, ok := stats.PreferBareStep(r); ok {
			return kept
		}
	}
	return r
}

func invalidReason(r *gpuprof.Run) string {
	for _, c := range r.Failed() {
		return fmt.Sprintf("%s: check of %s failed (relative error %.3g, allowed %.3g)", r.Workload, c.Stage, float64(c.RelativeError), c.Tolerance)
	}
	if r.Reason != "" {
		return r.Workload + ": " + r.Reason
	}
	return r.Workload + ": the run is marked invalid"
}

func (r *Result) addSeries(name string, s *gpuprof.Series, higher bool) {
	if s.N() == 0 {
		return
	}
	r.Metrics = append(r.Metrics, MetricData{Metric: Metric{Name: name, Unit: s.Unit, HigherIsBetter: higher}, Runs: s.Runs})
}

func (r *Result) addExact(name, unit string, value float64) {
	if r.Metric(name) == nil {
		r.Metrics = append(r.Metrics, MetricData{Metric: Metric{Name: name, Unit: unit, Exact: true}, Runs: [][]float64{{value}}})
	}
}

// stageSites returns the value of a counter in each stage, the largest first.
func stageSites(r *gpuprof.Run, name string) []gpuprof.Site {
	var out []gpuprof.Site
	for i := range r.Stages {
		if s := &r.Stages[i]; s.Parent == "step" && s.Counters[name] > 0 {
			out = append(out, gpuprof.Site{Where: "stage " + s.Name, Count: s.Counters[name]})
		}
	}
	slices.SortStableFunc(out, func(a, b gpuprof.Site) int { return cmp.Compare(b.Count, a.Count) })
	return out
}

// CounterUnit returns the unit of a counter of a run or a trace.
func CounterUnit(name string) string {
	switch {
	case strings.HasPrefix(name, "bytes_"):
		return "B"
	case name == "flops":
		return "flop"
	}
	return "count"
}

// splitFingerprint sorts the facts of a run by the effect of a difference: it forbids a comparison (env), may be a
// cause (facts), or identifies another program (code). It leaves out the load average, which always differs.
func splitFingerprint(r *gpuprof.Run) (env, facts, code map[string]string) {
	d := &r.Device
	env, facts, code = map[string]string{}, map[string]string{}, map[string]string{}
	put := func(into map[string]string, key, value string) {
		if value != "" {
			into[key] = value
		}
	}
	for key, value := range d.DeviceInfo {
		switch {
		case hasPrefix(key, hardFacts):
			put(env, key, value)
		case hasPrefix(key, codeFacts):
			put(code, key, value)
		default:
			put(facts, key, value)
		}
	}
	put(env, "workload", r.Workload)
	put(env, "preset", r.Preset)
	put(env, "mode", string(r.Mode))
	put(env, "device_kind", d.Kind)
	put(env, "device", d.Name)
	put(env, "arch", d.Arch)
	put(env, "cpu", d.CPU)
	put(env, "cpu_cores", formatCount(float64(d.CPUCores)))
	put(env, "os", d.OS)
	put(facts, "device_cores", formatCount(float64(d.Cores)))
	put(facts, "cpu_quota", formatCount(d.CPUQuota))
	put(facts, "memory_bytes", formatCount(float64(d.Memory)))
	put(facts, "kernel", d.Kernel)
	put(facts, "governor", d.Governor)
	put(facts, "seed", strconv.FormatUint(r.Seed, 10))
	put(code, "go", d.Go)
	put(code, "version", r.Tool.Version)
	put(code, "commit", r.Tool.Commit)
	if r.CopiesYield() || r.Renewed {
		put(code, exposedRule, computeFirst)
	}
	return env, facts, code
}

func hasPrefix(key string, prefixes []string) bool {
	return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(key, p) })
}

// formatCount formats a number, "" for an unknown one (0 or NaN).
func formatCount(v float64) string {
	if v == 0 || math.IsNaN(v) {
		return ""
	}
	return strconv.FormatFloat(v, 'f', -1, 64)
}

// runInfo returns each process's start and flags. The samples with stage events carry the flags: runInfo divides them
// among the processes in order, by each process's number of step samples; nil if the numbers do not match.
func runInfo(r *gpuprof.Run) []RunInfo {
	if r.Step == nil {
		return nil
	}
	var probed []int // indices into Order
	for i, o := range r.Order {
		if o.Side == gpuprof.SideProbed {
			probed = append(probed, i)
		}
	}
	if len(probed) != r.Step.N() {
		return nil
	}
	out := make([]RunInfo, 0, len(r.Step.Runs))
	for _, samples := range r.Step.Runs {
		var info RunInfo
		seen := map[string]bool{}
		flagged := 0
		for k, i := range probed[:len(samples)] {
			if k == 0 && !r.Started.IsZero() {
				info.StartS = float64(r.Started.UnixNano())*1e-9 + r.Order[i].StartS
			}
			if i >= len(r.Flags) || len(r.Flags[i]) == 0 {
				continue
			}
			flagged++
			for _, c := range r.Flags[i] {
				seen[c] = true
			}
		}
		if len(samples) > 0 {
			info.Flagged = float64(flagged) / float64(len(samples))
		}
		info.Codes = slices.Sorted(maps.Keys(seen))
		probed = probed[len(samples):]
		out = append(out, info)
	}
	return out
}
