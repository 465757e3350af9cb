package measure

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/stats"
	"github.com/gpuprof/gpuprof/probes/events"
)

// warmUpOnly is the code of the warning that a result's samples are warm-up steps.
const warmUpOnly = "warm-up-only"

// warmUp runs probed steps, like sampling. They are kept only for a run that ends before it has samples.
func (r *runner) warmUp() error {
	// The first step gives the size of the later blocks.
	if err := r.runWindow(1); err != nil || r.ctx.Err() != nil {
		return err
	}
	w := r.plan.Warmup
	began := time.Now()
	switch {
	case w.Auto:
		return r.settleWarmUp(began)
	case w.Time > 0:
		for time.Since(began) < w.Time && r.mayWarmUp() {
			r.plan.report("warm-up", time.Since(began).Seconds(), w.Time.Seconds(), "")
			if err := r.runWindow(r.blockSteps(r.windowTime())); err != nil {
				return err
			}
		}
	case w.Steps > 0:
		for begin := r.next; r.next-begin < w.Steps && r.mayWarmUp(); {
			r.plan.report("warm-up", float64(r.next-begin), float64(w.Steps), "")
			if err := r.runWindow(min(r.blockSteps(r.windowTime()), w.Steps)); err != nil {
				return err
			}
		}
	}
	return nil
}

// mayWarmUp reports whether the run may warm up further: it is not interrupted and has time left. If its time is
// over, it gets the warning warm-up-cut.
func (r *runner) mayWarmUp() bool {
	if r.ctx.Err() != nil {
		return false
	}
	if time.Since(r.started) < r.plan.MaxTime {
		return true
	}
	r.warn("warm-up-cut", "the time budget ended before the requested warm-up", "give more time with --max-time, or a shorter --warmup")
	return false
}

// warmBlock runs one block of the warm-up and keeps all finished steps, even after an error.
func (r *runner) warmBlock(keep int) (*block, error) {
	b, err := r.runBlock(events.Probed, keep)
	if b != nil && b.rec != nil {
		whole := *b
		whole.first, whole.last = 0, b.done
		r.warm.add(&whole, r.plan.Mode, math.MaxInt, false)
	}
	return b, err
}

// salvageWarmUp gives a run that ended before sampling the finished steps of its warm-up, with a warning.
func (r *runner) salvageWarmUp() {
	if len(r.samples.step) > 0 || len(r.warm.step) == 0 {
		return
	}
	n := len(r.warm.step)
	r.samples = r.warm
	r.warn(warmUpOnly, fmt.Sprintf("the run ended before sampling began, so its samples are the %d steps that the warm-up had finished, including the first ones and those that filled the pipeline", n),
		"fix the failure and rerun; warm-up samples are not a result, and no baseline takes them")
}

// warmedOnly reports whether a run's samples are steps of its warm-up.
func warmedOnly(run *gpuprof.Run) bool {
	return slices.ContainsFunc(run.Warnings, func(w gpuprof.Warning) bool { return w.Code == warmUpOnly })
}

// runWindow runs one warm-up block and updates the estimates of step times.
func (r *runner) runWindow(keep int) error {
	b, err := r.warmBlock(keep)
	if err != nil || b.rec == nil {
		return err
	}
	r.updateEstimates(b)
	return nil
}

// updateEstimates updates the times from which block sizes are computed.
func (r *runner) updateEstimates(b *block) {
	if b.rec == nil {
		return
	}
	if m := stats.Median(b.periods(r.plan.Mode)); !math.IsNaN(m) {
		r.stepNS = int64(m * 1e9)
	}
	if n := b.enqueueTime(r.sess.Stages()); n > 0 {
		r.enqueueNS = n
	}
}

// windowTime returns the minimum duration of a warm-up window.
func (r *runner) windowTime() time.Duration {
	if r.run.Device.Kind == "cuda" {
		return gpuWindow
	}
	return windowTarget
}

// wideWindow runs one window of the warm-up, in one or more blocks, and reads clock and power meanwhile.
func (r *runner) wideWindow() (periods []float64, s *sensor, err error) {
	s = watchSensor(r.plan.Instruments)
	defer s.end()
	for began := time.Now(); len(periods) == 0 || r.run.Device.Kind == "cuda" && time.Since(began) < r.windowTime(); {
		b, err := r.warmBlock(r.blockSteps(r.windowTime()))
		if err != nil || r.ctx.Err() != nil {
			return nil, s, err
		}
		periods = append(periods, b.periods(r.plan.Mode)...)
		r.updateEstimates(b)
	}
	return periods, s, nil
}

// settleWarmUp warms up until the medians of five windows agree: within 1 % of the step time, or within the scatter
// of the steps if that is larger.
func (r *runner) settleWarmUp(began time.Time) error {
	limit := min(warmupCap, r.plan.MaxTime/3)
	step, clock, power := level{name: "the step time", limit: settleSpread}, level{name: "the SM clock", limit: settleClock}, level{name: "the power", limit: settlePower}
	levels := []*level{&step, &clock, &power}
	for {
		periods, s, err := r.wideWindow()
		if err != nil || r.ctx.Err() != nil {
			return err
		}
		step.add(periods)
		if s != nil {
			clock.add(s.clock)
			power.add(s.power)
		}
		open, spread, allowed := unsettledLevel(levels)
		if open == nil {
			return nil
		}
		spent := time.Since(began)
		if spent > limit {
			text := fmt.Sprintf("after %.1f s of warm-up, only %d windows were measured", spent.Seconds(), len(step.medians))
			if len(open.medians) >= settleWindows {
				text = fmt.Sprintf("after %.1f s of warm-up %s of the last %d windows still differs by %.1f %% (%.1f %% allowed)", spent.Seconds(), open.name, settleWindows, 100*spread, 100*allowed)
			}
			r.warn("not-settled", text, "give a longer warm-up (--warmup 30s), or stop the other programs on the machine")
			return nil
		}
		r.plan.report("warm-up", spent.Seconds(), limit.Seconds(), "")
	}
}

// unsettledLevel returns the first quantity whose windows disagree, or nil.
func unsettledLevel(levels []*level) (open *level, spread, allowed float64) {
	for _, l := range levels {
		if spread, allowed, ok := l.isSettled(); !ok {
			return l, spread, allowed
		}
	}
	return nil, 0, 0
}

// agreement compares the range of the last five window medians with a limit. The range of five normal values is under
// 4 sigma in 95 of 100 cases (studentised range, 3.86).
func agreement(medians, errors []float64, limit float64) (spread, allowed float64, ok bool) {
	if len(medians) < settleWindows {
		return 0, 0, false
	}
	m, e := medians[len(medians)-settleWindows:], errors[len(errors)-settleWindows:]
	mid := stats.Median(m)
	spread = (slices.Max(m) - slices.Min(m)) / mid
	allowed = limit
	if scatter := 4 * stats.Median(e) / mid; scatter > limit { // unknown if a window has one reading
		allowed = scatter
	}
	return spread, allowed, spread <= allowed
}
