package search

import (
	"cmp"
	"errors"
	"math"
	"slices"

	"github.com/gpuprof/gpuprof/internal/tune"
)

// limits are what a setting must keep to, whatever it is compared with.
func (e *engine) limits() Limits {
	return Limits{Goal: e.Goal, Rate: e.out.Rate, MaxError: e.MaxError, MaxMemory: e.MaxMemory, Seed: e.Seed}
}

// exceeded says which limit the default itself is above, as far as something
// was compared with it; empty where it keeps to them.
func (e *engine) exceeded(alts []alternative) string {
	for _, a := range alts {
		if a.out == nil {
			continue
		}
		def := &tune.Outcome{Error: a.out.ErrorA, MemoryB: a.out.MemoryA}
		if e.limits().refuses(def) {
			return def.Reason
		}
	}
	return ""
}

// fit searches where the default itself is above a limit: the fastest setting
// that keeps to the limits then counts, also where it is slower than the
// default.
func (e *engine) fit(alts []alternative) ([]Change, error) {
	ranked := ranking(alts)
	best, err := e.firstFit(ranked)
	if err != nil || len(best) == 0 {
		return nil, err
	}
	return e.improve(ranked, best, []phase{e.addAll, e.pairs, e.drop})
}

// firstFit is the fastest change that keeps to the limits by itself; where none
// does, as few as it takes of those that come closest.
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
		if e.excess(a.out) > 0 { // refused by a limit, not by the device
			above = append(above, a)
		}
	}
	slices.SortStableFunc(above, func(a, b alternative) int { return cmp.Compare(e.excess(a.out), e.excess(b.out)) })
	var best []Change
	least := math.Inf(1)
	for _, a := range above {
		if has(best, a.Knob) {
			continue
		}
		next := replaced(best, a.Change)
		o := a.out
		if len(next) > 1 {
			var err error
			if o, err = e.compare("searching", e.base, With(e.base, next...), e.left(searchUntil), firstPairs); err != nil {
				if errors.Is(err, errSpent) {
					err = nil
				}
				return nil, err
			}
		}
		if o.Verdict == "" {
			return next, nil
		}
		if x := e.excess(o); x > 0 && x < least {
			best, least = next, x
		}
	}
	return nil, nil
}

// excess is how far a setting is above the limits, as the largest ratio to one
// of them; 0 where that was not measured or it keeps to both.
func (e *engine) excess(o *tune.Outcome) float64 {
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
