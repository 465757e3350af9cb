package measure

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/probes/events"
)

// Turn is what a turn of RunTurns gave: the latest of the result's samples.
type Turn struct {
	Samples int     `json:"samples"` // of the step and of every stage
	Rates   int     `json:"rates"`   // of the throughput
	Seconds float64 `json:"seconds"` // the whole turn, with what came before its samples
}

// RunTurns is Run for a caller that says when steps run, so that two processes
// can take turns. Once the check has passed and the steps are warm it calls next
// with the zero Turn, and after each turn with what that gave. next returns how
// long the turn to come shall be, or io.EOF when there have been enough; any
// other error of its ends the run as partial. Between turns nothing of the run is
// at work: a session that works ahead is paused (gpuprof.Pauser).
//
// A turn has at least 3 samples, or 1 of steps over 200 ms, and ends early with
// 500. Each has its stages' times; the steps before them, at least one, warm the caches that the other
// process has used. The plan's MinTime, MaxTime and Samples say nothing here.
// There is no telemetry, ladder, energy or ceiling; counters come from a kernel
// pass after the last turn.
func RunTurns(ctx context.Context, dev gpuprof.Device, plan Plan, next func(Turn) (time.Duration, error)) (*gpuprof.Run, error) {
	plan.MinTime, plan.MaxTime, plan.Samples = 0, math.MaxInt64, 0
	if plan.Instruments != nil {
		plan.Instruments = besideAPeer{plan.Instruments}
	}
	r := newRunner(ctx, dev, plan)
	r.turns, r.least, r.long = true, turnSteps, turnLong
	return r.within(func() error {
		return r.phases(r.check, r.prepare, r.warmUp, func() error { return r.serve(next) }, r.kernelPass)
	})
}

// besideAPeer are instruments that do not count the other process as foreign.
type besideAPeer struct{ Instruments }

// Foreign implements Instruments.
func (p besideAPeer) Foreign() (n int, ok bool) {
	n, ok = p.Instruments.Foreign()
	return max(n-1, 0), ok
}

// serve measures turns for as long as next asks for them.
func (r *runner) serve(next func(Turn) (time.Duration, error)) error {
	var last Turn
	for {
		if err := r.rest(); err != nil {
			return err
		}
		target, err := next(last)
		switch {
		case errors.Is(err, io.EOF):
			r.lead = 0
			return nil
		case r.ctx.Err() != nil:
			return nil // phases says so
		case err != nil:
			return fmt.Errorf("taking turns with another process: %w", err)
		}
		if last, err = r.turn(target); err != nil || r.ctx.Err() != nil {
			return err
		}
		r.warm = nil // there are samples
	}
}

// rest leaves nothing at work until the next step, and says how many steps that
// costs.
func (r *runner) rest() error {
	r.lead = 1
	if s, ok := r.sess.(gpuprof.Pauser); ok {
		lead, err := s.Pause()
		if err != nil {
			return fmt.Errorf("pausing %s between turns: %w", r.plan.Workload.Name(), err)
		}
		r.lead = max(r.lead, lead)
	}
	return nil
}

// turn measures samples for as long as target, or enough of them. It takes
// several blocks where steps are tiny: one is as long as its events last.
func (r *runner) turn(target time.Duration) (Turn, error) {
	samples, rates, began := len(r.samples.step), len(r.samples.rates), events.Now()
	for left := target; ; left = target - time.Duration(events.Now()-began) {
		if n := len(r.samples.step) - samples; n >= enoughInTurn || n > 0 && left <= 0 {
			return Turn{n, len(r.samples.rates) - rates, sec(events.Now() - began)}, nil
		}
		b, err := r.runBlock(events.Probed, r.blockSteps(max(left, 0)))
		if b != nil { // what was finished counts, also when a step failed
			r.samples.add(b, r.plan.Mode, math.MaxInt, false)
			r.estimate(b)
			if b.rec != nil && b.last > b.first {
				r.example = b
			}
		}
		if err != nil || r.ctx.Err() != nil {
			return Turn{}, err
		}
		r.lead = 0
	}
}
