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
	"github.com/gpuprof/gpuprof/workloads"
	"github.com/gpuprof/gpuprof/workloads/device"
)

// Turn is what a turn of RunTurns gave: the latest of the result's samples.
type Turn struct {
	Samples int     `json:"samples"` // of the step
	Stages  int     `json:"stages"`  // of every stage
	Rates   int     `json:"rates"`   // of the throughput
	Seconds float64 `json:"seconds"` // the whole turn, with what came before its samples
	// ClockHz is that of a GPU's multiprocessors when the turn had ended, 0 unknown.
	ClockHz float64 `json:"clock_hz,omitempty"`
	// Serves, before the first turn: the session takes requests, see LastLoad.
	Serves bool `json:"serves,omitempty"`
}

// LastLoad ends the turns like io.EOF does where it is the error of a RunTurns' next, and has a
// session that serves take a load behind them, at a rate in requests per second or, where
// that is 0, as its settings say.
type LastLoad struct {
	Rate             float64
	MinTime, MaxTime time.Duration // as of workloads.Load
}

// Error implements error.
func (LastLoad) Error() string { return "the turns are over, and a load is to come" }

// RunTurns is Run for a caller that says when steps run, so that two processes
// can take turns. Once the check has passed and the steps are warm it calls next
// with a Turn without samples, and after each turn with what that gave. next returns how
// long the turn to come shall be, or io.EOF or a LastLoad when there have been enough; any
// other error of its ends the run as partial. Between turns nothing of the run is
// at work: a session that works ahead is paused (workloads.Pauser).
//
// A turn has bare blocks, which give samples of the step, and then probed ones,
// which give those of the stages: at least 3 of either, or 1 where steps are over
// 200 ms, and 500 at most. What the probe costs is not measured, so it is not known
// to be within the limit, and is kept out of the step whatever a side's own would
// cost: both sides' steps must be of one kind. The steps before a turn's samples, at
// least one, warm the caches that the other process has used. The plan's MinTime,
// MaxTime and Samples say nothing here. There is no telemetry, ladder, energy or
// ceiling; counters come from a kernel pass after the last turn.
func RunTurns(ctx context.Context, dev device.Device, plan Plan, next func(Turn) (time.Duration, error)) (*gpuprof.Run, error) {
	plan.MinTime, plan.MaxTime, plan.Samples, plan.NoRequests = 0, math.MaxInt64, 0, true
	if plan.Instruments != nil && !plan.OwnDevice {
		plan.Instruments = besideAPeer{plan.Instruments}
	}
	r := newRunner(ctx, dev, plan)
	r.turns, r.apart, r.least, r.long = true, true, turnSteps, turnLong
	return r.within(func() error {
		return r.phases(r.check, r.prepare, r.warmUp, func() error { return r.serve(next) }, r.requests, r.kernelPass)
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
	_, serves := r.sess.(workloads.Server)
	last := Turn{Serves: serves}
	for {
		if err := r.rest(); err != nil {
			return err
		}
		target, err := next(last)
		load, hasLoad := errors.AsType[LastLoad](err)
		switch {
		case errors.Is(err, io.EOF):
			r.lead = 0
			return nil
		case hasLoad:
			r.lead = 0
			r.plan.Rate, r.plan.MinTime, r.plan.MaxTime, r.plan.NoRequests = load.Rate, load.MinTime, load.MaxTime, false
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
	if s, ok := r.sess.(workloads.Pauser); ok {
		lead, err := s.Pause()
		if err != nil {
			return fmt.Errorf("pausing %s between turns: %w", r.plan.Workload.Name(), err)
		}
		r.lead = max(r.lead, lead)
	}
	return nil
}

// turn measures samples for as long as target, or enough of them: of the step in
// three quarters of the time, of the stages in the last.
func (r *runner) turn(target time.Duration) (Turn, error) {
	got, began := r.samples, events.Now()
	steps, stages, rates := len(got.step), len(got.probed), len(got.rates)
	until := func(part time.Duration) func() time.Duration {
		return func() time.Duration { return part - time.Duration(events.Now()-began) }
	}
	if err := r.blocks(events.Bare, until(target*3/4), func() int { return len(got.step) - steps }); err != nil || r.ctx.Err() != nil {
		return Turn{}, err
	}
	if err := r.blocks(events.Probed, until(target), func() int { return len(got.probed) - stages }); err != nil || r.ctx.Err() != nil {
		return Turn{}, err
	}
	out := Turn{Samples: len(got.step) - steps, Stages: len(got.probed) - stages, Rates: len(got.rates) - rates, Seconds: gpuprof.Seconds(events.Now() - began)}
	if in := r.plan.Instruments; in != nil {
		if hz, ok := in.ClockHz(); ok && hz > 0 {
			out.ClockHz = hz
		}
	}
	return out, nil
}

// blocks measures blocks of a turn while there is time left, and samples, which have
// says the number of, are not enough. It takes several where steps are tiny: one is as
// long as its events last.
func (r *runner) blocks(pass events.Pass, left func() time.Duration, have func() int) error {
	for {
		rest, n := left(), have()
		if n >= enoughInTurn || n > 0 && rest <= 0 {
			return nil
		}
		b, err := r.runBlock(pass, r.blockSteps(max(rest, 0)))
		if b != nil { // what was finished counts, also when a step failed
			r.samples.add(b, r.plan.Mode, math.MaxInt, r.apart)
			r.estimate(b)
			if pass == events.Probed && b.rec != nil && b.last > b.first {
				r.example = b
			}
		}
		if err != nil || r.ctx.Err() != nil {
			return err
		}
		r.lead = 0
	}
}
