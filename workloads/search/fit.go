package search

import (
	"cmp"
	"errors"
	"math"
	"slices"

	"github.com/gpuprof/gpuprof/internal/tune"
)

func (e *engine) limits() Limits {
	return Limits{Goal: e.Goal, Rate: e.out.Rate, MaxError: e.MaxError, MaxMemory: e.MaxMemory, Seed: e.Seed}
}

// exceededLimit names the limit that the default exceeds in the comparisons so far, or "".
func (e *engine) exceededLimit(alts []alternative) string {
	for _, a := range alts {
		if a.out == nil {
			continue
		}
		def := &tune.Outcome{Error: a.out.ErrorA, MemoryB: a.out.MemoryA}
		if e.limits().refuseAbove(def) {
			return def.Reason
		}
	}
	return ""
}

// fitLimits runs when the default exceeds a limit: it finds the fastest setting within all limits, even a slower one.
func (e *engine) fitLimits(alts []alternative) ([]Change, error) {
	ranked := rankAlternatives(alts)
	best, err := e.firstFit(ranked)
	if err != nil || len(best) == 0 {
		return nil, err
	}
	return e.improveBest(ranked, best, []phase{e.addAll, e.tryPairs, e.dropUseless})
}

// firstFit returns the fastest change that alone is within the limits. If there is none, it combines changes, those
// closest to the limits first, until the set is within the limits.
func (e *engine) firstFit(ranked []alternative) ([]Change, error) {
	var above []alternative
	for _, a := range ranked {
		if a.out == nil || a.v == tune.Failed {
			continue
		}
		if a.v != tune.Refused {
			if a.d.ok {
				return []Change{a.Change}, nil
			}
			continue
		}
		if e.limitExcess(a.out) > 0 { // a limit refused it, not the device
			above = append(above, a)
		}
	}
	slices.SortStableFunc(above, func(a, b alternative) int { return cmp.Compare(e.limitExcess(a.out), e.limitExcess(b.out)) })
	var best []Change
	least := math.Inf(1)
	for _, a := range above {
		if hasKnob(best, a.Knob) {
			continue
		}
		next := replaceChange(best, a.Change)
		o := a.out
		if len(next) > 1 {
			var err error
			if o, err = e.compare("searching", e.base, With(e.base, next...), e.timeLeft(searchUntil), firstPairs); err != nil {
				if errors.Is(err, errSpent) {
					err = nil
				}
				return nil, err
			}
		}
		if o.Verdict == "" {
			return next, nil
		}
		if x := e.limitExcess(o); x > 0 && x < least {
			best, least = next, x
		}
	}
	return nil, nil
}

// limitExcess returns the largest ratio of memory or error to its limit; 0 within both, or if not measured.
func (e *engine) limitExcess(o *tune.Outcome) float64 {
	x := 0.0
	if e.MaxMemory > 0 {
		x = float64(o.MemoryB) / float64(e.MaxMemory)
	}
	if e.MaxError > 0 {
		x = max(x, o.Error/e.MaxError)
	}
	if x <= 1 {
		return 0
	}
	return x
}
