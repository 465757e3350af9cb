package search

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"gonum.org/v1/gonum/stat"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/stats"
	"github.com/gpuprof/gpuprof/internal/tune"
)

// Number and duration of the processes that confirm. Each process compares both settings by paired blocks: a slow
// process slows both, and their ratio stays. Processes are the replicates.
const (
	leastProcesses = 3
	mostProcesses  = 8
	leastProcess   = 1500 * time.Millisecond
	mostProcess    = 6 * time.Second
	mostFinalists  = 2
	// falseConfirmRate is the probability of confirming a finalist that has no effect. Each test before the last process uses
	// up earlyLook of it.
	falseConfirmRate = 0.005
	earlyLook        = 0.0015
)

// decideFinalists confirms the winner of the search in fresh processes or, failing that, its best single change.
// Settings that are not confirmed are reported with their ratios.
func (e *engine) decideFinalists(best []Change) error {
	e.defaultPoint()
	for _, f := range listFinalists(e.alts, best) {
		c, o, err := e.confirm(f)
		if err != nil {
			return err
		}
		e.out.Confirmations = append(e.out.Confirmations, c)
		if c.Confirmed {
			e.recommendSettings(f, c, o)
			return nil
		}
		if c.Processes < leastProcesses && c.Reason != "" { // no time for another finalist
			break
		}
	}
	e.conclude()
	return nil
}

// listFinalists returns the winner of the search and, if the winner is a combination, the best of its changes alone.
func listFinalists(alts []alternative, best []Change) [][]Change {
	if len(best) == 0 {
		return nil
	}
	out := [][]Change{best}
	var singles []alternative
	for _, a := range alts {
		if isPromising(a) && len(best) > 1 && slices.Contains(best, a.Change) {
			singles = append(singles, a)
		}
	}
	if len(singles) > 0 {
		first := slices.MinFunc(singles, func(x, y alternative) int { return cmp.Compare(x.d.ratio, y.d.ratio) })
		out = append(out, []Change{first.Change})
	}
	return out[:min(len(out), mostFinalists)]
}

// defaultPoint reports the default's cost over all blocks in which it was compared.
func (e *engine) defaultPoint() {
	var blocks [][]float64
	for _, a := range e.alts {
		if a.out != nil {
			blocks = append(blocks, a.out.A...)
		}
	}
	m, ci := medianOf(e.Goal, blocks)
	e.out.Default = &tune.Point{Knobs: e.base, Median: m, CI95: ci}
}

// confirm compares a finalist with the default in separate processes until the result is clear, or the processes or
// the budget are used up. The outcome holds one block per process.
func (e *engine) confirm(f []Change) (tune.Confirmation, *tune.Outcome, error) {
	set := With(e.base, f...)
	c := tune.Confirmation{Knobs: changedSettings(e.base, set)}
	sum := &tune.Outcome{}
	var logs, times []float64
	spent, alpha := 0.0, falseConfirmRate
	for k := range mostProcesses {
		limit := e.processTime(mostProcesses - k)
		if e.Fresh == nil || !e.isMeasured(k, set) && e.timeLeft(1) < e.processNeed(k, limit) {
			c.Reason = e.outOfBudget(k, limit)
			break
		}
		o, err := e.measureProcess(k, set, limit)
		if err != nil {
			return c, nil, err
		}
		if o.Verdict != "" {
			c.Reason = "a fresh process could not run it: " + o.Reason
			e.addFailure(set, o.Reason)
			return c, sum, nil
		}
		d, t := ratioOf(o.A, o.B), ratioOf(o.TimeA, o.TimeB)
		if !d.ok || !t.ok {
			c.Reason = "a fresh process had no time for enough blocks; give more with --budget"
			return c, sum, nil
		}
		logs, times = append(logs, d.e.Theta), append(times, t.e.Theta)
		takeOutcome(sum, o)
		if n := len(logs); n >= leastProcesses && n < mostProcesses && n%2 == 0 {
			spent += earlyLook
			if ratio := newDrawn(trimmedMean(logs, 0)); e.isAccepted(f, ratio, sum, earlyLook) {
				alpha = earlyLook
				break
			} else if e.over == "" && ratio.interval(errorRate)[0] > 1-equivalence {
				break // the possible gain is too small
			}
			alpha = falseConfirmRate - spent
		}
	}
	e.concludeOn(f, &c, sum, logs, times, alpha)
	return c, sum, nil
}

// concludeOn stores the result of the processes for a finalist, with the interval that decides.
func (e *engine) concludeOn(f []Change, c *tune.Confirmation, sum *tune.Outcome, logs, times []float64, alpha float64) {
	c.Processes, c.Level = len(logs), 1-2*alpha
	d, t := newDrawn(trimmedMean(logs, 0)), newDrawn(trimmedMean(times, 0))
	if !d.ok {
		if len(logs) > 0 {
			c.Ratio, _ = goalRatio(e.Goal, math.Exp(stat.Mean(logs, nil)), [2]float64{})
		}
		return
	}
	c.Ratio, c.Interval = goalRatio(e.Goal, d.ratio, d.interval(2*alpha))
	c.TimeRatio = tune.FiniteOrZero(t.ratio)
	_, c.CI95 = goalRatio(e.Goal, d.ratio, d.ci)
	switch {
	case len(logs) < leastProcesses:
		return
	case e.isAccepted(f, d, sum, alpha):
		c.Confirmed, c.Reason = true, ""
	case c.Reason == "" && e.exceededBy(sum) != "":
		c.Reason = e.exceededBy(sum)
	case c.Reason == "" && d.ratio > 1-equivalence:
		c.Reason = "it is not better by 2 % in fresh processes"
	case c.Reason == "":
		c.Reason = "fresh processes differ too much to exclude the default"
	}
}

// isAccepted reports whether to recommend a setting. It must be within the limits. It must also be better than the
// default, significantly and by the equivalence margin, unless the default itself exceeds a limit.
func (e *engine) isAccepted(f []Change, d ratioEstimate, o *tune.Outcome, alpha float64) bool {
	if !d.ok {
		return false
	}
	if reason := e.exceededBy(o); reason != "" {
		e.addFailure(With(e.base, f...), reason)
		return false
	}
	return e.over != "" || d.ratio <= 1-equivalence && d.pBetter() <= alpha
}

// exceededBy names the limit that side B of an outcome exceeds, or "".
func (e *engine) exceededBy(o *tune.Outcome) string {
	measured := &tune.Outcome{Error: o.Error, MemoryB: o.MemoryB}
	e.limits().refuseAbove(measured)
	return measured.Reason
}

// processTime returns the time limit of the next process; left is the number of processes still to run.
func (e *engine) processTime(left int) time.Duration {
	return min(mostProcess, max(leastProcess, e.openingTime()+time.Second, e.timeLeft(1)/time.Duration(left)-e.overhead))
}

func (e *engine) openingTime() time.Duration {
	return time.Duration(e.comparisonSeconds() / 2 * float64(time.Second))
}

// processNeed returns the time needed: for one more process, or for all missing ones until leastProcesses have run.
func (e *engine) processNeed(k int, limit time.Duration) time.Duration {
	return time.Duration(max(1, leastProcesses-k)) * (limit + e.overhead)
}

// outOfBudget returns the reason why no further process fits the budget, or "".
func (e *engine) outOfBudget(k int, limit time.Duration) string {
	if e.Fresh == nil {
		return "no fresh process can be started here"
	}
	if k >= leastProcesses {
		return ""
	}
	return fmt.Sprintf("confirming it takes about %s more, and the budget had %s left", gpuprof.FormatSeconds(e.processNeed(k, limit).Seconds()),
		gpuprof.FormatSeconds(max(0, e.timeLeft(1).Seconds())))
}

func (e *engine) processKey(k int, set gpuprof.Settings) string {
	return fmt.Sprintf("process %d | %s | %s", k+1, e.side(e.base).key(), e.side(set).key())
}

func (e *engine) isMeasured(k int, set gpuprof.Settings) bool {
	return e.journal[e.processKey(k, set)] != nil
}

// takeOutcome adds the medians of one process as one block of o.
func takeOutcome(o *tune.Outcome, p *tune.Outcome) {
	o.Unit, o.WorkA, o.WorkB = p.Unit, p.WorkA, p.WorkB
	o.A, o.B = append(o.A, []float64{stats.MedianOfRuns(p.A)}), append(o.B, []float64{stats.MedianOfRuns(p.B)})
	o.TimeA, o.TimeB = append(o.TimeA, []float64{stats.MedianOfRuns(p.TimeA)}), append(o.TimeB, []float64{stats.MedianOfRuns(p.TimeB)})
	o.MemoryA, o.MemoryB, o.Error = max(o.MemoryA, p.MemoryA), max(o.MemoryB, p.MemoryB), max(o.Error, p.Error)
	o.OneTime = p.OneTime
}

// measureProcess compares a setting with the default in process k, or returns the result in the journal.
func (e *engine) measureProcess(k int, set gpuprof.Settings, limit time.Duration) (*tune.Outcome, error) {
	note := fmt.Sprintf("process %d, %s", k+1, tune.DescribeSettings(changedSettings(e.base, set)))
	return e.measureOnce("confirming", e.processKey(k, set), note, limit, func() (*tune.Outcome, error) {
		began := e.Now()
		l := e.limitsOf(limit, 0, 1000+k)
		l.Sitting, l.Most = true, e.timeLeft(1)/time.Duration(max(1, leastProcesses-k))
		o, err := e.Fresh(e.ctx, e.side(e.base), e.side(set), l)
		if e.ctx.Err() != nil || errors.Is(err, context.Canceled) {
			return nil, context.Canceled
		}
		took := e.Now().Sub(began)
		e.overhead = max(e.overhead, took-limit)
		if err != nil {
			o = &tune.Outcome{}
			failOutcome(o, err)
		}
		o.Seconds = took.Seconds()
		return o, nil
	})
}
