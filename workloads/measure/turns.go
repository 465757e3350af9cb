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

// Turn is the result of one turn of RunTurns: the numbers of new samples, at the ends of the run's series.
type Turn struct {
	Samples int     `json:"samples"` // of the step
	Stages  int     `json:"stages"`  // of every stage
	Rates   int     `json:"rates"`   // of the throughput
	Seconds float64 `json:"seconds"` // of the whole turn, including steps before the samples
	// ClockHz is a GPU's multiprocessor clock at the end of the turn, 0 if unknown.
	ClockHz float64 `json:"clock_hz,omitempty"`
	// Serves is set before the first turn if the session takes requests; see LastLoad.
	Serves bool `json:"serves,omitempty"`
}

// LastLoad is an error that the argument next of RunTurns returns to end the turns, like io.EOF, and to have RunTurns
// then apply a load to the serving session. Rate is in requests per second; 0 means the rate of the settings.
type LastLoad struct {
	Rate             float64
	MinTime, MaxTime time.Duration // see workloads.Load
}

// Error implements error.
func (LastLoad) Error() string { return "the turns are over, and a load is to come" }

// RunTurns is Run for a caller that decides when steps run, so that two processes can take turns. After check and
// warm-up it calls next with a Turn without samples, and after each turn with its result. next returns the duration
// of the coming turn, or io.EOF or LastLoad after the last turn. Any other error ends the run as partial.
// Between turns the run does no work, and a session that works ahead is paused (workloads.Pauser).
//
// A turn first warms the caches with at least one step. Then it runs bare blocks for samples of the step and probed
// blocks for samples of the stages: at least 3 samples of each, or 1 if steps exceed 200 ms, at most 500. Samples of
// the step always come from bare blocks, because the steps of two compared processes must be of one kind. The probe's
// cost is not measured and may exceed the limit. The plan's MinTime, MaxTime and Samples have no effect. The run has
// no telemetry, ladder, energy or ceilings; counters come from a kernel pass after the last turn.
func RunTurns(ctx context.Context, dev device.Device, plan Plan, next func(Turn) (time.Duration, error)) (*gpuprof.Run, error) {
	plan.MinTime, plan.MaxTime, plan.Samples, plan.NoRequests = 0, math.MaxInt64, 0, true
	if plan.Instruments != nil && !plan.OwnDevice {
		plan.Instruments = besideAPeer{plan.Instruments}
	}
	r := newRunner(ctx, dev, plan)
	r.turns, r.apart, r.least, r.long = true, true, turnSteps, turnLong
	return r.runSession(func() error {
		return r.runPhases(r.checkStages, r.prepareProbes, r.warmUp, func() error { return r.serveTurns(next) }, r.serveLoad, r.kernelPass)
	})
}

// besideAPeer wraps instruments for a process that takes turns with another one on the same device: Foreign does not
// count that other process.
type besideAPeer struct{ Instruments }

// Foreign implements Instruments.
func (p besideAPeer) Foreign() (n int, ok bool) {
	n, ok = p.Instruments.Foreign()
	return max(n-1, 0), ok
}

// serveTurns measures turns until next ends them.
func (r *runner) serveTurns(next func(Turn) (time.Duration, error)) error {
	_, serves := r.sess.(workloads.Server)
	last := Turn{Serves: serves}
	for {
		if err := r.pauseSession(); err != nil {
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
			return nil // runPhases reports the failure
		case err != nil:
			return fmt.Errorf("taking turns with another process: %w", err)
		}
		if last, err = r.measureTurn(target); err != nil || r.ctx.Err() != nil {
			return err
		}
		r.warm = nil // no longer needed: there are samples
	}
}

// pauseSession stops all work until the next step and sets lead, the steps needed to work fully ahead again.
func (r *runner) pauseSession() error {
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

// measureTurn measures for the duration target, or until it has enough samples: three quarters of the time for samples
// of the step, the last quarter for samples of the stages.
func (r *runner) measureTurn(target time.Duration) (Turn, error) {
	got, began := r.samples, events.Now()
	steps, stages, rates := len(got.step), len(got.probed), len(got.rates)
	until := func(part time.Duration) func() time.Duration {
		return func() time.Duration { return part - time.Duration(events.Now()-began) }
	}
	if err := r.measureBlocks(events.Bare, until(target*3/4), func() int { return len(got.step) - steps }); err != nil || r.ctx.Err() != nil {
		return Turn{}, err
	}
	if err := r.measureBlocks(events.Probed, until(target), func() int { return len(got.probed) - stages }); err != nil || r.ctx.Err() != nil {
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

// measureBlocks runs blocks of a turn until it has samples and no time is left, or the samples are enough
// (enoughInTurn). The function left returns the remaining time, the function have the number of samples. Short steps
// need several blocks, because the number of events limits a block.
func (r *runner) measureBlocks(pass events.Pass, left func() time.Duration, have func() int) error {
	for {
		rest, n := left(), have()
		if n >= enoughInTurn || n > 0 && rest <= 0 {
			return nil
		}
		b, err := r.runBlock(pass, r.blockSteps(max(rest, 0)))
		if b != nil { // completed steps count even if a later one failed
			r.samples.add(b, r.plan.Mode, math.MaxInt, r.apart)
			r.updateEstimates(b)
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
