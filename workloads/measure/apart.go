package measure

import (
	"fmt"
	"math"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/stats"
	"github.com/gpuprof/gpuprof/probes/events"
	"github.com/gpuprof/gpuprof/workloads/device"
)

// Names in Run.Calibration of what one span costs, in seconds: the caller's two
// reads of the clock, and those with two event records on the main stream.
const (
	costHostSpan   = "host_span"
	costDeviceSpan = "device_span"
)

// tooDear is the rule by which stage events are kept out of the step's time:
// they stay only where their cost is known to be within the limit, by the upper
// end of the measured interval or by the calibrated share of the step. What is
// measured goes first: a lower end above the limit keeps them out whatever was
// calibrated. Where events cost more than their recording (a GPU's kernels no
// longer follow one another at once), calibrated is +Inf.
func tooDear(o gpuprof.Ratio, limit, calibrated float64) bool {
	return o.CI95[0]-1 > limit || o.CI95[1]-1 > limit && calibrated > limit
}

// overhead is the step with stage events over the step without; nil when there
// were too few pairs of blocks to tell.
func (r *runner) overhead() *gpuprof.Ratio {
	if ratio, ok := stats.MedianRatio(r.samples.probedPairs, r.samples.barePairs); ok {
		return &ratio
	}
	if r.apart {
		return r.stageRung()
	}
	return nil
}

// probeCost is the calibrated cost of the spans of a step of the last probed
// block; nil before there is one.
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

// calibratedShare is the calibrated cost over the bare step: an upper bound of
// the probe's overhead on the host, +Inf where there is none.
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

// decideApart makes the bare step the run's where the probe is too dear; before,
// sampling has taken both sides in turn. On a GPU the ladder decided it earlier.
// Where too few pairs were taken to measure the cost, the calibrated one decides.
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
	if kept, ok := stats.KeepApart(r.run); ok {
		*r.run = *kept
		r.apart = true
		r.apartWarning(fmt.Sprintf("%s, and the limit is %.1f %%", cost, 100*limit))
	}
}

func (r *runner) apartWarning(cost string) {
	r.warn("stages-apart", cost+", so the step was timed without them and stages were timed in a separate pass",
		"make the step longer (a larger batch) to time both at once")
}

// inAStep is how many times longer a span takes in a step than in the row of spans
// that calibrates it: there, code and data are in the cache, and no other stream
// runs. With steps of 4 us on two busy cores it was at most 1.6 times (the lower
// end of the measured overhead over the calibrated cost).
const inAStep = 2

// spanRounds is how often spans are calibrated; the median round counts, since
// any may be interrupted.
const spanRounds = 15

// calibrateSpans measures what a span costs: of the caller alone, and with
// events, whose records take the caller's time and then the stream's.
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

// spanTime is the caller's time of a span, in seconds, over as many as fit some
// steps.
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
	return gpuprof.Seconds(total) / float64(max(spans, 1)), firstError(r.rec.Finish(), r.sess.Main().Sync())
}
