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

// Processes of the confirmation, and how long one runs. Each compares both
// settings by paired blocks: what slows a process slows both, and their ratio
// stays. The process is the replicate.
const (
	leastProcesses = 3
	mostProcesses  = 8
	leastProcess   = 1500 * time.Millisecond
	mostProcess    = 6 * time.Second
	mostFinalists  = 2
	// wrongly is the chance of a confirmation with nothing behind it, for one
	// finalist: earlyLook of it is spent at each look before the last.
	wrongly   = 0.005
	earlyLook = 0.0015
)

// decide confirms the winner of the search in fresh processes, failing that the
// best single change. What it could not confirm is stated with its ratio.
func (e *engine) decide(best []Change) error {
	e.defaultPoint()
	for _, f := range finalists(e.alts, best) {
		c, o, err := e.confirm(f)
		if err != nil {
			return err
		}
		e.out.Confirmations = append(e.out.Confirmations, c)
		if c.Confirmed {
			e.recommend(f, c, o)
			return nil
		}
		if c.Processes < leastProcesses && c.Reason != "" { // no time for another either
			break
		}
	}
	e.conclude()
	return nil
}

// finalists are the winner of the search and, where it is a combination, the
// best of its changes by itself.
func finalists(alts []alternative, best []Change) [][]Change {
	if len(best) == 0 {
		return nil
	}
	out := [][]Change{best}
	var singles []alternative
	for _, a := range alts {
		if promising(a) && len(best) > 1 && slices.Contains(best, a.Change) {
			singles = append(singles, a)
		}
	}
	if len(singles) > 0 {
		first := slices.MinFunc(singles, func(x, y alternative) int { return cmp.Compare(x.d.ratio, y.d.ratio) })
		out = append(out, []Change{first.Change})
	}
	return out[:min(len(out), mostFinalists)]
}

// defaultPoint states the cost of the default from all the blocks that it was
// compared in.
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

// confirm compares a finalist with the default in processes of their own until
// the answer is clear, the processes are spent, or the budget is. The outcome
// holds the ratio of each process as one block.
func (e *engine) confirm(f []Change) (tune.Confirmation, *tune.Outcome, error) {
	set := With(e.base, f...)
	c := tune.Confirmation{Knobs: difference(e.base, set)}
	sum := &tune.Outcome{}
	var logs, times []float64
	spent, alpha := 0.0, wrongly
	for k := range mostProcesses {
		limit := e.processTime(mostProcesses - k)
		if e.Fresh == nil || !e.known(k, set) && e.left(1) < e.needs(k, limit) {
			c.Reason = e.starved(k, limit)
			break
		}
		o, err := e.process(k, set, limit)
		if err != nil {
			return c, nil, err
		}
		if o.Verdict != "" {
			c.Reason = "a fresh process could not run it: " + o.Reason
			e.fail(set, o.Reason)
			return c, sum, nil
		}
		d, t := ratioOf(e.bs, o.A, o.B), ratioOf(e.bs, o.TimeA, o.TimeB)
		if !d.ok || !t.ok {
			c.Reason = "a fresh process had no time for enough blocks; give more with --budget"
			return c, sum, nil
		}
		logs, times = append(logs, d.e.Theta), append(times, t.e.Theta)
		takeOutcome(sum, o)
		if n := len(logs); n >= leastProcesses && n < mostProcesses && n%2 == 0 {
			spent += earlyLook
			if ratio := newDrawn(meanOf(logs, 0)); e.accepted(f, ratio, sum, earlyLook) {
				alpha = earlyLook
				break
			} else if e.over == "" && ratio.at(confidence)[0] > 1-equivalence {
				break // too little is to be won
			}
			alpha = wrongly - spent
		}
	}
	e.concludeOn(f, &c, sum, logs, times, alpha)
	return c, sum, nil
}

// concludeOn states the result of the processes for a finalist, with the interval that decides.
func (e *engine) concludeOn(f []Change, c *tune.Confirmation, sum *tune.Outcome, logs, times []float64, alpha float64) {
	c.Processes, c.Level = len(logs), 1-2*alpha
	d, t := newDrawn(meanOf(logs, 0)), newDrawn(meanOf(times, 0))
	if !d.ok {
		if len(logs) > 0 {
			c.Ratio, _ = shown(e.Goal, math.Exp(stat.Mean(logs, nil)), [2]float64{})
		}
		return
	}
	c.Ratio, c.Interval = shown(e.Goal, d.ratio, d.at(2*alpha))
	c.TimeRatio = finite(t.ratio)
	_, c.CI95 = shown(e.Goal, d.ratio, d.ci)
	switch {
	case len(logs) < leastProcesses:
		return
	case e.accepted(f, d, sum, alpha):
		c.Confirmed, c.Reason = true, ""
	case c.Reason == "" && e.refused(sum) != "":
		c.Reason = e.refused(sum)
	case c.Reason == "" && d.ratio > 1-equivalence:
		c.Reason = "it is not better by 2 % in fresh processes"
	case c.Reason == "":
		c.Reason = "fresh processes differ too much to exclude the default"
	}
}

// accepted reports whether to recommend a setting: it is within the limits, and it is better than the default,
// significantly and by the equivalence margin, or the default is not within the limits.
func (e *engine) accepted(f []Change, d drawn, o *tune.Outcome, alpha float64) bool {
	if !d.ok {
		return false
	}
	if reason := e.refused(o); reason != "" {
		e.fail(With(e.base, f...), reason)
		return false
	}
	return e.over != "" || d.ratio <= 1-equivalence && d.pBetter() <= alpha
}

// refused names the limit that side B of an outcome exceeds; empty for none.
func (e *engine) refused(o *tune.Outcome) string {
	measured := &tune.Outcome{Error: o.Error, MemoryB: o.MemoryB}
	e.limits().refuses(measured)
	return measured.Reason
}

// processTime returns the time that one of the remaining processes may take.
func (e *engine) processTime(left int) time.Duration {
	return min(mostProcess, max(leastProcess, e.opening()+time.Second, e.left(1)/time.Duration(left)-e.overhead))
}

// opening is about what it takes to open both sides of a comparison.
func (e *engine) opening() time.Duration {
	return time.Duration(e.dear() / 2 * float64(time.Second))
}

// needs is the time that must be left for one more process, or before the first
// for as many as a confirmation takes.
func (e *engine) needs(k int, limit time.Duration) time.Duration {
	return time.Duration(max(1, leastProcesses-k)) * (limit + e.overhead)
}

// starved gives the reason if the budget holds no further process; empty otherwise.
func (e *engine) starved(k int, limit time.Duration) string {
	if e.Fresh == nil {
		return "no fresh process can be started here"
	}
	if k >= leastProcesses {
		return ""
	}
	return fmt.Sprintf("confirming it takes about %s more, and the budget had %s left", gpuprof.FormatSeconds(e.needs(k, limit).Seconds()),
		gpuprof.FormatSeconds(max(0, e.left(1).Seconds())))
}

func (e *engine) processKey(k int, set gpuprof.Settings) string {
	return fmt.Sprintf("process %d | %s | %s", k+1, e.side(e.base).key(), e.side(set).key())
}

// known reports whether the journal has a process already.
func (e *engine) known(k int, set gpuprof.Settings) bool {
	return e.journal[e.processKey(k, set)] != nil
}

// takeOutcome adds what one process measured: each is one block.
func takeOutcome(o *tune.Outcome, p *tune.Outcome) {
	o.Unit, o.WorkA, o.WorkB = p.Unit, p.WorkA, p.WorkB
	o.A, o.B = append(o.A, []float64{stats.MedianOfRuns(p.A)}), append(o.B, []float64{stats.MedianOfRuns(p.B)})
	o.TimeA, o.TimeB = append(o.TimeA, []float64{stats.MedianOfRuns(p.TimeA)}), append(o.TimeB, []float64{stats.MedianOfRuns(p.TimeB)})
	o.MemoryA, o.MemoryB, o.Error = max(o.MemoryA, p.MemoryA), max(o.MemoryB, p.MemoryB), max(o.Error, p.Error)
	o.OneTime = p.OneTime
}

// process compares a setting with the default in a process of its own, or looks
// that up.
func (e *engine) process(k int, set gpuprof.Settings, limit time.Duration) (*tune.Outcome, error) {
	note := fmt.Sprintf("process %d, %s", k+1, describe(difference(e.base, set)))
	return e.once("confirming", e.processKey(k, set), note, limit, func() (*tune.Outcome, error) {
		began := e.Now()
		l := e.limitsOf(limit, 0, 1000+k)
		l.Sitting, l.Most = true, e.left(1)/time.Duration(max(1, leastProcesses-k))
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
