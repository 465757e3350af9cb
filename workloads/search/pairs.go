package search

import (
	"cmp"
	"context"
	"errors"
	"math"
	"runtime"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/stats"
	"github.com/gpuprof/gpuprof/internal/tune"
)

// Protocol of a comparison in one process.
const (
	blockTime    = 40 * time.Millisecond
	energyBlock  = 2 * time.Second // a GPU's energy counter changes every 20 to 100 ms
	leastPairs   = 4
	decidePairs  = 8 // no stop before: the interval of fewer pairs depends on luck
	mostPairs    = 120
	leastSteps   = 3
	mostSteps    = 4096
	firstPairs   = 8     // in the first look at a change: every change gets one before any gets more
	settledP     = 1e-4  // p-value below which no more pairs are needed; small, since it is tested after every pair
	clearlyWorse = 1.1   // cost ratio above which an alternative gets no more time
	sittingWidth = 0.003 // half-width of an interval, in logarithms, below which a sitting needs no more blocks
)

// measureBlocks runs pairs of blocks until the result is clear or the time is used up.
func (p *InProcess) measureBlocks(ctx context.Context, a, b *bench, l Limits, spent func() time.Duration, out *tune.Outcome) error {
	a.seen, b.seen = tune.Seen{}, tune.Seen{} // side A may be kept from another comparison
	order := stats.MirroredOrder(mostPairs, l.Seed)
	target := blockTime
	if l.Goal == tune.Energy {
		target = cmp.Or(p.energyBlock, energyBlock)
	}
	for pair := 0; pair < mostPairs && ctx.Err() == nil; pair++ {
		turns := [2]*bench{a, b}
		if order[pair] {
			turns = [2]*bench{b, a}
		}
		for _, s := range turns {
			cost, seconds, err := p.blockCost(ctx, s, l.Goal, target)
			if err != nil {
				return err
			}
			if s == b {
				out.B, out.TimeB = append(out.B, []float64{cost}), append(out.TimeB, []float64{seconds})
			} else {
				out.A, out.TimeA = append(out.A, []float64{cost}), append(out.TimeA, []float64{seconds})
			}
		}
		if isEnough(pair+1, spent(), l, out) {
			break
		}
	}
	out.CountA, out.CountB = a.counts, b.counts
	if l.Goal == tune.Latency {
		seen := [2]tune.Seen{a.seen, b.seen}
		out.SeenA, out.SeenB = &seen[0], &seen[1]
	}
	return nil
}

// isEnough reports whether to end the comparison after this number of pairs. It ends only after an even number, because
// two pairs mirror each other, unless the comparison takes far too long.
func isEnough(pairs int, spent time.Duration, l Limits, out *tune.Outcome) bool {
	most := cmp.Or(l.Most, 2*l.Time)
	if pairs%2 == 1 && spent < most {
		return false
	}
	if spent > l.Time && (pairs >= leastPairs || spent > most) || l.Pairs > 0 && pairs >= l.Pairs {
		return true
	}
	if l.Sitting { // an end that depends on the result would bias it
		return pairs >= decidePairs && halfWidth(ratioOf(out.A, out.B)) < sittingWidth
	}
	return pairs >= decidePairs && isSettled(out) || pairs >= leastPairs && isHopeless(out)
}

func halfWidth(d ratioEstimate) float64 {
	if !d.ok {
		return math.Inf(1)
	}
	return math.Log(d.ci[1]/d.ci[0]) / 2
}

// isHopeless reports whether B is so much worse that its exact cost does not matter.
func isHopeless(out *tune.Outcome) bool {
	d := ratioOf(out.A, out.B)
	return d.ok && d.interval(settledP)[0] > clearlyWorse
}

// isSettled reports whether more pairs would not change the verdict.
func isSettled(out *tune.Outcome) bool {
	d := ratioOf(out.A, out.B)
	if !d.ok {
		return false
	}
	if ci := d.interval(settledP); ci[0] >= 1-equivalence && ci[1] <= 1+equivalence {
		return true
	}
	return d.pValue() < settledP && d.ci[1]-d.ci[0] < 0.06*d.ratio
}

// blockCost returns the cost per unit of work over one block, and its seconds.
func (p *InProcess) blockCost(ctx context.Context, s *bench, g tune.Goal, target time.Duration) (cost, seconds float64, err error) {
	runtime.GC() // so that no collection starts inside the block
	var before float64
	if g == tune.Energy {
		var ok bool
		if p.EnergyJ == nil {
			return 0, 0, NoEnergy()
		}
		if before, ok = p.EnergyJ(); !ok {
			return 0, 0, NoEnergy()
		}
	}
	restore := s.setEnvironment()
	seconds, err = s.timeBlock(target)
	restore()
	if err != nil {
		return 0, 0, &sideError{s, err}
	}
	seconds /= s.work
	switch g {
	case tune.Energy:
		after, ok := p.EnergyJ()
		if !ok || after <= before {
			return 0, 0, NoEnergy()
		}
		return (after - before) / (s.work * float64(s.probe.seen)), seconds, nil
	case tune.Memory:
		return float64(s.memory), seconds, nil
	case tune.Latency:
		restore := s.setEnvironment()
		cost, err = p.load(ctx, s, p.rate)
		restore()
		if few := (*tooFew)(nil); err == nil || errors.As(err, &few) {
			return cost, seconds, err
		}
		return 0, 0, &sideError{s, err}
	}
	return seconds, seconds, nil
}

// NoEnergy is the error of the goal energy on a device without an energy counter.
func NoEnergy() error {
	return gpuprof.Errorf(gpuprof.ErrDevice, "tuning for energy: this device has no energy counter that can be read").WithFix("use --goal time")
}

type sideError struct {
	side *bench
	err  error
}

func (e *sideError) Error() string { return e.err.Error() }
func (e *sideError) Unwrap() error { return e.err }
