package tune

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/stats"
)

// Processes a side for the confirmation, and how long one runs.
const (
	leastProcesses = 3
	mostProcesses  = 6
	leastProcess   = 1500 * time.Millisecond
	mostProcess    = 10 * time.Second
	keptSamples    = 64 // of a process, in the journal
)

// decide confirms the winner of the search in fresh processes; failing that
// the best single change; failing that the default is best.
func (e *engine) decide(alts []alternative, best []Change) error {
	finalists := finalists(alts, best)
	e.defaultPoint(alts, nil)
	for i, f := range finalists {
		c, err := e.confirm(f)
		if err != nil {
			return err
		}
		if c == nil { // no time, or no way, to confirm
			return e.unconfirmed(alts, finalists[i:])
		}
		if d := ratioOf(e.bs, c.A, c.B); e.accepted(f, d, c) {
			e.defaultPoint(nil, c.A)
			e.recommend(f, d, c, len(c.B))
			return nil
		}
	}
	e.keepDefault()
	return nil
}

// accepted says that a setting is to be recommended: it keeps to the limits and
// is better than the default, or the default does not keep to them.
func (e *engine) accepted(f []Change, d drawn, o *Outcome) bool {
	if o.Verdict != "" || !d.ok {
		return false
	}
	measured := &Outcome{Error: o.Error, MemoryB: o.MemoryB}
	if e.limits().refuses(measured) {
		e.fail(With(e.base, f...), measured.Reason)
		return false
	}
	return e.over != "" || worthwhile(d, e.Goal)
}

// worthwhile says that a setting is better by more than what does not matter:
// a smaller gain may be gone in the next run.
func worthwhile(d drawn, g Goal) bool {
	return d.judge(g).Better() && d.ratio <= 1-equivalence
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
		if a.v.Better() && len(best) > 1 && slices.Contains(best, a.Change) {
			singles = append(singles, a)
		}
	}
	if len(singles) > 0 {
		first := slices.MinFunc(singles, func(x, y alternative) int { return cmp.Compare(x.d.ratio, y.d.ratio) })
		out = append(out, []Change{first.Change})
	}
	return out
}

// defaultPoint states the cost of the default, from fresh processes where
// there are some, else from all the blocks that it was compared in.
func (e *engine) defaultPoint(alts []alternative, blocks [][]float64) {
	for _, a := range alts {
		if a.out != nil {
			blocks = append(blocks, a.out.A...)
		}
	}
	m, ci := medianOf(e.Goal, blocks)
	e.out.Default = &Point{Knobs: e.base, Median: m, CI95: ci}
}

// confirm measures default and finalist in processes of their own, in turn,
// until the answer is clear, the processes are spent, or the budget is; nil
// where it cannot, or where too few fit into the budget.
func (e *engine) confirm(f []Change) (*Outcome, error) {
	if e.Fresh == nil {
		return nil, nil
	}
	set := With(e.base, f...)
	order := stats.MirroredOrder(mostProcesses, e.Seed)
	c := &Outcome{}
	for k, bFirst := range order {
		if k >= leastProcesses && e.clear(c) {
			break
		}
		turns := []gpuprof.Settings{e.base, set}
		if bFirst {
			slices.Reverse(turns)
		}
		limit := min(mostProcess, max(leastProcess, e.left(1)/time.Duration(2*(mostProcesses-k))-e.overhead))
		if !e.known(k, turns) && e.left(1) < 2*(limit+e.overhead) {
			if k < leastProcesses {
				return nil, nil
			}
			break
		}
		for _, s := range turns {
			o, err := e.process(k, s, limit)
			if err != nil {
				return nil, err
			}
			if o.Verdict != "" {
				e.fail(s, o.Reason)
				return &Outcome{}, nil // nothing is confirmed of a setting that fails
			}
			c.take(o, maps.Equal(s, e.base))
		}
	}
	return c, nil
}

// clear says that more processes would not change the answer. It asks for more
// than 95 % of a difference, since it is looked at again and again.
func (e *engine) clear(c *Outcome) bool {
	d := ratioOf(e.bs, c.A, c.B)
	return d.judge(e.Goal) == None || d.ok && math.Abs(math.Log(d.ratio)) > decideWidth*halfWidth(d)
}

func processKey(e *engine, k int, set gpuprof.Settings) string {
	return fmt.Sprintf("process %d | %s", k+1, Side{Workload: e.Workload, Preset: e.Preset, Knobs: set}.key())
}

// known says that both processes are in the journal already.
func (e *engine) known(k int, turns []gpuprof.Settings) bool {
	for _, s := range turns {
		if e.journal[processKey(e, k, s)] == nil {
			return false
		}
	}
	return true
}

// take adds what one process measured.
func (o *Outcome) take(p *Outcome, isDefault bool) {
	o.Unit = p.Unit
	if isDefault {
		o.A, o.TimeA, o.WorkA, o.MemoryA = append(o.A, p.B...), append(o.TimeA, p.TimeB...), p.WorkB, max(o.MemoryA, p.MemoryB)
		o.CountA = p.OneTime
		return
	}
	o.B, o.TimeB, o.WorkB, o.MemoryB = append(o.B, p.B...), append(o.TimeB, p.TimeB...), p.WorkB, max(o.MemoryB, p.MemoryB)
	o.Error, o.OneTime = max(o.Error, p.Error), extra(o.CountA, p.OneTime)
}

// process measures one setting in a process of its own, or looks it up.
func (e *engine) process(k int, set gpuprof.Settings, limit time.Duration) (*Outcome, error) {
	note := "default"
	if d := difference(e.base, set); len(d) > 0 {
		note = describe(d)
	}
	return e.once("confirming", processKey(e, k, set), fmt.Sprintf("process %d, %s", k+1, note), limit, func() (*Outcome, error) {
		began := e.Now()
		run, err := e.Fresh(e.ctx, difference(e.base, set), limit)
		if e.ctx.Err() != nil || errors.Is(err, context.Canceled) {
			return nil, context.Canceled
		}
		took := e.Now().Sub(began)
		e.overhead = max(e.overhead, took-limit)
		o := &Outcome{Seconds: took.Seconds()}
		if err == nil {
			err = o.read(run, e.Goal)
		}
		if err != nil {
			o.fail(err)
		}
		return o, nil
	})
}

func errNothing() error {
	return gpuprof.Errorf(gpuprof.ErrDevice, "confirming a setting: the process measured nothing; run it by itself to see why")
}

// read takes one process's run as side B.
func (o *Outcome) read(r *gpuprof.Run, g Goal) error {
	if r == nil || r.Throughput == nil || r.Throughput.Series.N() == 0 || r.Step == nil {
		return errNothing()
	}
	var per []float64
	for _, v := range thin(r.Throughput.Series.Runs[0]) {
		if v > 0 {
			per = append(per, 1/v)
		}
	}
	if len(per) == 0 {
		return errNothing()
	}
	o.Unit, _, _ = strings.Cut(r.Throughput.Unit, "/")
	o.WorkB = r.Throughput.Series.Median * r.Step.Median
	o.TimeB, o.B, o.MemoryB = [][]float64{per}, [][]float64{per}, r.PeakMemory
	for _, c := range r.Checks {
		o.Error = max(o.Error, finite(float64(c.RelativeError)))
	}
	o.OneTime = oneTimeOf(r.Input)
	switch g {
	case Memory:
		o.B = [][]float64{{float64(r.PeakMemory)}}
	case Energy:
		if r.EnergyStep.N() == 0 || o.WorkB <= 0 {
			return NoEnergy()
		}
		o.B = [][]float64{nil}
		for _, v := range thin(r.EnergyStep.Runs[0]) {
			o.B[0] = append(o.B[0], v/o.WorkB)
		}
	}
	return nil
}

// thin keeps at most keptSamples, evenly spread.
func thin(xs []float64) []float64 {
	if len(xs) <= keptSamples {
		return xs
	}
	out := make([]float64, keptSamples)
	for i := range out {
		out[i] = xs[i*len(xs)/keptSamples]
	}
	return out
}
