package measure

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"gonum.org/v1/gonum/stat"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/stats"
	"github.com/gpuprof/gpuprof/workloads"
	"github.com/gpuprof/gpuprof/workloads/device"
)

// summarise turns the samples into the result, for complete and for interrupted runs.
func (r *runner) summarise(err error) {
	r.plan.report("summarise", 0, 1, "")
	r.run.PeakMemory = r.dev.Memory().Peak
	if o, ok := r.sess.(workloads.Observer); ok {
		figures, tracks := o.Observed(r.started)
		maps.Copy(r.run.Input, figures)
		maps.Copy(r.run.Telemetry, tracks)
	}
	if err != nil {
		r.run.Status, r.run.Reason = gpuprof.Partial, reasonOf(err)
		if errors.Is(err, gpuprof.ErrCheck) {
			r.run.Status = gpuprof.Invalid
			return // no times
		}
		r.salvageWarmUp()
	}
	s := r.samples
	if len(s.step) == 0 {
		return
	}
	// An upper bound of the difference between device times and host clock.
	r.run.Calibration["clock_anchor"] = gpuprof.Seconds(r.anchorSlack)
	if rate, uncertainty, ok := r.rec.Drift(); ok {
		r.run.Calibration["clock_drift"], r.run.Calibration["clock_drift_error"] = rate-1, uncertainty // seconds per second
	}
	if l, ok := r.dev.Device.(interface {
		LoadTime() (modules, carried int, took time.Duration)
	}); ok {
		_, _, took := l.LoadTime()
		r.run.Calibration["kernel_loading"] = took.Seconds() // by the driver's compiler or from its cache
	}
	r.stepSeries()
	r.run.Stages = s.stageResults()
	r.addKernels()
	r.keepCeilings()
	r.addBounds()
	r.addLatencyFloor()
	r.run.DeviceClockHz = r.deviceClock()
	r.run.ExampleStep = r.exampleStep()
	r.rateOfSteps()
	r.addWarnings()
	r.rememberProcess()
}

func (r *runner) stepSeries() {
	s := r.samples
	r.run.Step, r.run.BareStep, r.run.ProbedStep = stats.Summarise("s", s.step), stats.Summarise("s", s.bare), stats.Summarise("s", s.probed)
}

// rateOfSteps computes the throughput, from bare steps if probes cost too much.
func (r *runner) rateOfSteps() {
	s := r.samples
	r.run.Order, r.run.Flags = r.fromRunStart(s.order), s.flags
	amount, unit := r.sess.Work()
	// Rates are per block: if long and short steps alternate, no single step has the mean rate.
	rate := make([]float64, len(s.rates))
	for i, steps := range s.rates {
		rate[i] = amount * steps
	}
	r.run.Throughput = &gpuprof.Throughput{Unit: unit + "/s", Series: stats.Summarise(unit+"/s", rate)}
	r.run.Overhead, r.run.ProbeCost = r.overhead(), r.probeCost()
	r.decideApart()
}

// throughputSoFar returns the throughput by the samples so far, 0 without steps. It does not change the run.
func (r *runner) throughputSoFar() float64 {
	if len(r.samples.rates) == 0 {
		return 0
	}
	run, apart := *r.run, r.apart
	r.run.Warnings = slices.Clone(run.Warnings)
	r.stepSeries()
	r.rateOfSteps()
	rate := r.run.Throughput.Series.Median
	*r.run, r.apart = run, apart
	return rate
}

// fromRunStart converts sample times to seconds since the start of the run.
func (r *runner) fromRunStart(order []gpuprof.Order) []gpuprof.Order {
	out := slices.Clone(order)
	for i := range out {
		out[i].StartS -= gpuprof.Seconds(r.startNS)
	}
	return out
}

func (r *runner) addWarnings() {
	s, steps := r.samples, slices.Concat(r.run.Step.Runs...)
	if n := len(steps); n < minSamples {
		r.warn("few-samples", fmt.Sprintf("%d samples are too few for an interval of the median", n), fmt.Sprintf("take at least %d with --samples or a longer --max-time", minSamples))
	}
	if mean, median := stat.Mean(steps, nil), r.run.Step.Median; max(mean/median, median/mean) > 1+unevenSteps {
		r.warn("uneven-steps", fmt.Sprintf("steps take %s in the mean and %s in the median, so the median does not stand for a sequence of steps", gpuprof.FormatSeconds(mean), gpuprof.FormatSeconds(median)),
			"read the throughput, which is over whole blocks; look at the distribution for steps that alternate, and stop other programs on the machine")
	}
	if d, yes := s.clocksDiffer(); yes {
		r.warn("clock-mismatch", fmt.Sprintf("in half of the blocks the steps' periods and the host thread's clock differ by %.1f %% or more", 100*d),
			"do not trust times of this run; if it happens again, report it with the run.json")
	}
	// decideApart could not decide: no measurement, and a calibrated cost that is unbounded or above the limit.
	if !r.apart && !r.turns && !warmedOnly(r.run) && r.run.Overhead == nil && r.calibratedShare() > r.run.Device.ProbeLimit() {
		r.warn("overhead-unmeasured", "there were too few pairs of probed and bare blocks to measure the probe's overhead", "run longer with --min-time")
	}
	r.disturbedWarnings()
	if cpus := float64(r.run.Device.CPUCores); r.run.Device.Load > cpus && cpus > 0 {
		r.warn("busy-machine", fmt.Sprintf("the load average was %.1f on %d CPUs when the run began", r.run.Device.Load, r.run.Device.CPUCores), "wait until other work is done")
	}
}

// clocksDiffer compares the device's clock with the host's. It takes the median of the blocks: a wrong clock shows in
// most of them, while in a single block the caller may have been woken late.
func (s *samples) clocksDiffer() (share float64, yes bool) {
	share = stats.Median(s.mismatches)
	return share, share > clockMismatch
}

// exampleStep returns the spans of the typical step of the last probed block (see typicalStep), and the launches of one
// step of the kernel pass. It includes all spans of neighbouring steps that overlap the step. The caller enqueues a
// step, and may copy its data, while the device still runs earlier steps. So the example begins with the step's first
// span on the host, but no more steps earlier than the pipeline is deep.
func (r *runner) exampleStep() []gpuprof.Span {
	out := []gpuprof.Span{}
	if r.example == nil {
		return out
	}
	b, stages := r.example.rec, r.sess.Stages()
	mid := r.example.typicalStep()
	t0, t1 := b.Begin[mid], b.Begin[mid+1]
	from := t0
	for _, sp := range b.Spans {
		if sp.Step == mid {
			from = min(from, sp.HostStart)
		}
	}
	from = max(from, b.Begin[max(0, mid-r.sess.Depth())])
	for _, sp := range b.Spans {
		name, step := stages[sp.Stage].Name, sp.Step-mid
		add := func(lane string, start, end int64) {
			if start < t1 && (end > from || step == 0) {
				out = append(out, gpuprof.Span{Stage: name, Lane: lane, Step: step, StartS: gpuprof.Seconds(start - t0), DurS: gpuprof.Seconds(end - start)})
			}
		}
		if sp.OnDevice {
			add(laneName(sp.Stream), sp.DevStart, sp.DevEnd)
		}
		add("host", sp.HostStart, sp.HostEnd)
	}
	if k := r.kernels; k != nil {
		mid := (k.first + k.last) / 2
		t0, t1 := k.rec.Begin[mid], k.rec.Begin[mid+1]
		for _, l := range k.rec.Launches {
			if l.Start >= t0 && l.Start < t1 {
				out = append(out, gpuprof.Span{Stage: stages[l.Stage].Name, Kernel: l.Kernel, Lane: laneName(l.Stream), StartS: gpuprof.Seconds(l.Start - t0), DurS: gpuprof.Seconds(l.End - l.Start)})
			}
		}
	}
	return out
}

// typicalStep returns the step with the period closest to the block's median; of several, the middle one.
func (b *block) typicalStep() int {
	var periods []float64
	for i := b.first; i < b.last; i++ {
		periods = append(periods, float64(b.rec.Begin[i+1]-b.rec.Begin[i]))
	}
	middle := (b.first + b.last) / 2
	if len(periods) == 0 {
		return middle
	}
	median, best := stats.Median(periods), b.first
	rank := func(i int) (float64, float64) {
		return math.Abs(periods[i-b.first] - median), math.Abs(float64(i - middle))
	}
	for i := b.first; i < b.last; i++ {
		off, away := rank(i)
		if o, a := rank(best); off < o || off == o && away < a {
			best = i
		}
	}
	return best
}

func laneName(s device.Stream) string {
	if n, ok := s.(fmt.Stringer); ok {
		return n.String()
	}
	return "stream"
}
