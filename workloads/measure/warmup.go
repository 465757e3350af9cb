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

// warmUpOnly marks a result whose samples are steps of the warm-up.
const warmUpOnly = "warm-up-only"

// warmUp runs probed steps, as sampling will. They are no samples, and are
// kept aside only for a run that ends before it has any.
func (r *runner) warmUp() error {
	// The first step sizes everything after it.
	if err := r.window(1); err != nil || r.ctx.Err() != nil {
		return err
	}
	w := r.plan.Warmup
	began := time.Now()
	switch {
	case w.Auto:
		return r.settle(began)
	case w.Time > 0:
		for time.Since(began) < w.Time && r.mayWarmUp() {
			r.plan.report("warm-up", time.Since(began).Seconds(), w.Time.Seconds(), "")
			if err := r.window(r.blockSteps(r.windowTime())); err != nil {
				return err
			}
		}
	case w.Steps > 0:
		for begin := r.next; r.next-begin < w.Steps && r.mayWarmUp(); {
			r.plan.report("warm-up", float64(r.next-begin), float64(w.Steps), "")
			if err := r.window(min(r.blockSteps(r.windowTime()), w.Steps)); err != nil {
				return err
			}
		}
	}
	return nil
}

// mayWarmUp is false once the run is interrupted or its time budget is spent.
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

// warmBlock runs one block of the warm-up. Its steps are put aside whole, also
// when one of them failed: what fills and drains the pipeline is finished work.
func (r *runner) warmBlock(keep int) (*block, error) {
	b, err := r.runBlock(events.Probed, keep)
	if b != nil && b.rec != nil {
		whole := *b
		whole.first, whole.last = 0, b.done
		r.warm.add(&whole, r.plan.Mode, math.MaxInt, false)
	}
	return b, err
}

// salvage gives a run that ended before sampling did the steps its warm-up
// finished, and says what they are.
func (r *runner) salvage() {
	if len(r.samples.step) > 0 || len(r.warm.step) == 0 {
		return
	}
	n := len(r.warm.step)
	r.samples = r.warm
	r.warn(warmUpOnly, fmt.Sprintf("the run ended before sampling began, so its samples are the %d steps that the warm-up had finished, including the first ones and those that filled the pipeline", n),
		"fix the failure and rerun; warm-up samples are not a result, and no baseline takes them")
}

// warmedOnly says that a run's samples are steps of its warm-up.
func warmedOnly(run *gpuprof.Run) bool {
	return slices.ContainsFunc(run.Warnings, func(w gpuprof.Warning) bool { return w.Code == warmUpOnly })
}

// window runs one warm-up block and keeps the step estimate fresh.
func (r *runner) window(keep int) error {
	b, err := r.warmBlock(keep)
	if err != nil || b.rec == nil {
		return err
	}
	r.estimate(b)
	return nil
}

// estimate keeps what blocks are sized by.
func (r *runner) estimate(b *block) {
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

// windowTime is how long a window of the warm-up is at least.
func (r *runner) windowTime() time.Duration {
	if r.run.Device.Kind == "cuda" {
		return gpuWindow
	}
	return windowTarget
}

// wideWindow is one window of the warm-up: as many blocks as it takes, because
// a block of tiny steps is as long as its events last. Clock and power are read
// meanwhile.
func (r *runner) wideWindow() (periods []float64, s *sensor, err error) {
	s = watchSensor(r.plan.Instruments)
	defer s.end()
	for began := time.Now(); len(periods) == 0 || r.run.Device.Kind == "cuda" && time.Since(began) < r.windowTime(); {
		b, err := r.warmBlock(r.blockSteps(r.windowTime()))
		if err != nil || r.ctx.Err() != nil {
			return nil, s, err
		}
		periods = append(periods, b.periods(r.plan.Mode)...)
		r.estimate(b)
	}
	return periods, s, nil
}

// settle warms up until five windows agree. Agreement is 1 % of the step
// time or, on a machine whose steps scatter so much that window medians
// cannot agree that closely, what their own scatter allows.
func (r *runner) settle(began time.Time) error {
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
		open, spread, allowed := unsettled(levels)
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

// unsettled is the first quantity whose windows do not agree, or nil.
func unsettled(levels []*level) (open *level, spread, allowed float64) {
	for _, l := range levels {
		if spread, allowed, ok := l.settled(); !ok {
			return l, spread, allowed
		}
	}
	return nil, 0, 0
}

// agreement compares the last five window medians with a limit on their range. The range of five normal
// values is under 4 sigma in 95 of 100 cases (studentised range, 3.86).
func agreement(medians, errors []float64, limit float64) (spread, allowed float64, ok bool) {
	if len(medians) < settleWindows {
		return 0, 0, false
	}
	m, e := medians[len(medians)-settleWindows:], errors[len(errors)-settleWindows:]
	mid := stats.Median(m)
	spread = (slices.Max(m) - slices.Min(m)) / mid
	allowed = limit
	if scatter := 4 * stats.Median(e) / mid; scatter > limit { // unknown with one reading per window
		allowed = scatter
	}
	return spread, allowed, spread <= allowed
}
