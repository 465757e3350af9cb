package measure

import (
	"cmp"
	"fmt"
	"math"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/stats"
	"github.com/gpuprof/gpuprof/probes/events"
	"github.com/gpuprof/gpuprof/workloads/device"
)

// Names in Run.Calibration for the seconds per span: two reads of the host clock, without and with two event records.
const (
	costHostSpan   = "host_span"
	costDeviceSpan = "device_span"
)

// tooDear reports whether stage events must be excluded from the timed step because they may cost more than limit, a
// share of the step. o is the measured ratio of the step with events to the step without. The events are excluded if
// the interval of o is above the limit, or extends above it and the calibrated share is above it too. calibrated is
// +Inf on a GPU: its events also separate back-to-back kernels, so calibration gives no upper bound of their cost.
func tooDear(o gpuprof.Ratio, limit, calibrated float64) bool {
	return o.CI95[0]-1 > limit || o.CI95[1]-1 > limit && calibrated > limit
}

// overhead returns the ratio of the step with stage events to the step without; nil without enough pairs of blocks.
func (r *runner) overhead() *gpuprof.Ratio {
	if ratio, ok := stats.MedianRatio(r.samples.probedPairs, r.samples.barePairs); ok {
		return &ratio
	}
	if r.apart {
		return r.stageRung()
	}
	return nil
}

// probeCost returns the calibrated cost per step of the spans in the last probed block, nil without a probed block.
func (r *runner) probeCost() *gpuprof.ProbeCost {
	if r.example == nil {
		return nil
	}
	rec := r.example.rec
	steps, device := float64(len(rec.Begin)-1), 0.0
	for _, sp := range rec.Spans {
		if sp.OnDevice {
			device++
		}
	}
	c := &gpuprof.ProbeCost{Spans: float64(len(rec.Spans)) / steps, DeviceSpans: device / steps}
	c.Seconds = (c.Spans-c.DeviceSpans)*r.run.Calibration[costHostSpan] + c.DeviceSpans*r.run.Calibration[costDeviceSpan]
	return c
}

// calibratedShare returns the calibrated cost of the stage events of a step, as a share of the step without them (or
// of the measured step if there is none). It is an upper bound of the overhead on the host; +Inf on a GPU, or before
// a probed block.
func (r *runner) calibratedShare() float64 {
	c := r.probeCost()
	if c == nil || r.run.Device.Kind == "cuda" {
		return math.Inf(1)
	}
	steps := r.samples.bare
	if len(steps) == 0 {
		steps = r.samples.step
	}
	return c.Seconds / stats.Median(steps)
}

// decideApart excludes stage events from the timed steps if the events cost too much: the run then reports the step
// times of the bare blocks, which have no stage events. Without enough pairs of bare and probed blocks, the calibrated
// cost decides. On a GPU the ladder may have decided before.
func (r *runner) decideApart() {
	o, dear := r.run.Overhead, r.calibratedShare()
	limit := r.run.Device.ProbeLimit()
	if r.apart || r.run.BareStep.N() < minSamples {
		return
	}
	var cost string
	switch {
	case o == nil && dear > limit && !math.IsInf(dear, 1):
		cost = fmt.Sprintf("stage events may cost up to %.2f %% of a step by calibration", 100*dear)
	case o == nil || !tooDear(*o, limit, dear):
		return
	case o.CI95[0]-1 > limit:
		cost = fmt.Sprintf("stage events cost %.2f %% to %.2f %% of a step", 100*(o.CI95[0]-1), 100*(o.CI95[1]-1))
	default:
		cost = fmt.Sprintf("stage events may cost up to %.2f %% of a step", 100*min(o.CI95[1]-1, max(dear, limit)))
	}
	if kept, ok := stats.PreferBareStep(r.run); ok {
		*r.run = *kept
		r.apart = true
		r.warnApart(fmt.Sprintf("%s, and the limit is %.1f %%", cost, 100*limit))
	}
}

func (r *runner) warnApart(cost string) {
	r.warn("stages-apart", cost+", so the step was timed without them and stages were timed in a separate pass",
		"make the step longer (a larger batch) to time both at once")
}

// inAStep is the assumed ratio of a span's cost inside a step to its calibrated cost. Calibration runs spans in
// sequence, with code and data in the cache and no other stream. With steps of 4 us on two busy cores the ratio was at
// most 1.6 (lower end of the measured overhead, divided by the calibrated cost).
const inAStep = 2

// spanRounds is the number of calibration rounds. The median counts, because a round may be interrupted.
const spanRounds = 15

// calibrateSpans measures the cost of a span that only reads the host clock, and of a span that also records events.
func (r *runner) calibrateSpans() error {
	costs := map[string]float64{}
	for name, s := range map[string]device.Stream{costHostSpan: nil, costDeviceSpan: r.sess.Main()} {
		var rounds []float64
		for range spanRounds {
			t, err := r.spanTime(s)
			if err != nil {
				return fmt.Errorf("calibrating spans: %w", err)
			}
			rounds = append(rounds, t)
		}
		costs[name] = stats.Median(rounds)
	}
	costs[costDeviceSpan] += 2 * r.run.Calibration["empty_event_pair"]
	for name, c := range costs {
		r.run.Calibration[name] = inAStep * c
	}
	return nil
}

// spanTime records spans on stream s (host spans if s is nil), as many as several steps can have. It returns the
// caller's seconds per span.
func (r *runner) spanTime(s device.Stream) (float64, error) {
	if _, _, err := r.rec.Reset(events.Probed); err != nil {
		return 0, err
	}
	perStep, spans, total := 0, 0, int64(0)
	for _, st := range r.sess.Stages() {
		perStep += st.MaxSpans
	}
	for step := range min(8, r.rec.Capacity()) {
		if err := r.rec.Start(step); err != nil {
			return 0, err
		}
		t0 := events.Now()
		for range perStep {
			r.rec.End(r.rec.Begin(0, s))
		}
		total += events.Now() - t0
		spans += perStep
	}
	return gpuprof.Seconds(total) / float64(max(spans, 1)), cmp.Or(r.rec.Finish(), r.sess.Main().Sync())
}
