package tune

import (
	"context"
	"errors"
	"fmt"
	"maps"
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
	finalists := [][]Change{}
	if len(best) > 0 {
		finalists = append(finalists, best)
	}
	for _, a := range alts {
		if a.v.Better() && len(best) > 1 && slices.Contains(best, a.Change) {
			finalists = append(finalists, []Change{a.Change})
		}
	}
	if len(finalists) > 2 { // the winner, and the best change by itself
		single := slices.MinFunc(finalists[1:], func(x, y []Change) int { return strings.Compare(byRatio(alts, x), byRatio(alts, y)) })
		finalists = [][]Change{best, single}
	}
	e.defaultPoint(alts, nil)
	for _, f := range finalists {
		c, err := e.confirm(f)
		if err != nil {
			return err
		}
		if c == nil { // no time, or no way, to confirm
			e.unconfirmed(alts, f)
			return nil
		}
		if d := ratioOf(e.bs, c.A, c.B); d.judge(e.Goal).Better() {
			e.defaultPoint(nil, c.A)
			e.recommend(f, d, c, len(c.B))
			return nil
		}
	}
	e.keepDefault(len(finalists) > 0)
	return nil
}

func byRatio(alts []alternative, f []Change) string {
	for _, a := range alts {
		if a.Change == f[0] {
			return fmt.Sprintf("%020.9f", a.d.ratio)
		}
	}
	return ""
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
// until the interval excludes the default or the processes are spent; nil
// where it cannot.
func (e *engine) confirm(f []Change) (*Outcome, error) {
	if e.Fresh == nil {
		return nil, nil
	}
	set := With(e.base, f...)
	order := stats.MirroredOrder(mostProcesses, e.Seed)
	c := &Outcome{}
	for k, bFirst := range order {
		if k >= leastProcesses {
			d := ratioOf(e.bs, c.A, c.B)
			if v := d.judge(e.Goal); v != Inconclusive && v != None || e.left(1) < 0 {
				break
			}
		}
		limit := min(mostProcess, max(leastProcess, e.left(1)/time.Duration(2*(mostProcesses-k))))
		turns := []gpuprof.Settings{e.base, set}
		if bFirst {
			slices.Reverse(turns)
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
	key := fmt.Sprintf("process %d | %s", k+1, Side{Workload: e.Workload, Preset: e.Preset, Knobs: set}.key())
	note := "default"
	if d := difference(e.base, set); len(d) > 0 {
		note = describe(d)
	}
	return e.once("confirming", key, fmt.Sprintf("process %d, %s", k+1, note), limit, func() (*Outcome, error) {
		began := e.Now()
		run, err := e.Fresh(e.ctx, difference(e.base, set), limit)
		if e.ctx.Err() != nil || errors.Is(err, context.Canceled) {
			return nil, context.Canceled
		}
		o := &Outcome{Seconds: e.Now().Sub(began).Seconds()}
		if err == nil {
			err = o.read(run, e.Goal)
		}
		if err != nil {
			o.fail(err)
		}
		return o, nil
	})
}

// read takes one process's run as side B.
func (o *Outcome) read(r *gpuprof.Run, g Goal) error {
	if r == nil || r.Throughput == nil || r.Throughput.Series.N() == 0 || r.Step == nil {
		return gpuprof.Errorf(gpuprof.ErrDevice, "confirming a setting: the process measured nothing; run it by itself to see why")
	}
	var per []float64
	for _, v := range thin(r.Throughput.Series.Runs[0]) {
		if v > 0 {
			per = append(per, 1/v)
		}
	}
	o.Unit, _, _ = strings.Cut(r.Throughput.Unit, "/")
	o.WorkB = r.Throughput.Series.Median * r.Step.Median
	o.TimeB, o.B, o.MemoryB = [][]float64{per}, [][]float64{per}, r.PeakMemory
	for _, c := range r.Checks {
		o.Error = max(o.Error, finite(float64(c.RelativeError)))
	}
	o.OneTime = map[string]float64{}
	for k, v := range r.Input {
		if f, ok := v.(float64); ok && strings.HasSuffix(k, "_s") {
			o.OneTime[k] = f
		}
	}
	switch g {
	case Memory:
		o.B = [][]float64{{float64(r.PeakMemory)}}
	case Energy:
		if r.EnergyStep.N() == 0 || o.WorkB <= 0 {
			return errNoEnergy()
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
