package search

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/gpuprof/gpuprof/internal/stats"
	"github.com/gpuprof/gpuprof/internal/tune"
)

// combine searches combinations, starting from the best single change. Each step is a comparison with the best set so
// far, so that a knob counts by its effect within the set.
func (e *engine) combine() ([]Change, error) {
	ranked := rankAlternatives(e.alts)
	var best []Change
	if len(ranked) > 0 && isPromising(ranked[0]) {
		best = []Change{ranked[0].Change}
	}
	return e.improveBest(ranked, best, []phase{e.findingsTogether, e.add, e.dropUseless, e.addAll, e.tryPairs, e.dropUseless})
}

// confirmBelowP is the largest p-value at which a change is worth confirming; it may be large, since the confirmation
// measures new data.
const confirmBelowP = 0.1

// isPromising reports whether a change looks better by at least the equivalence margin.
func isPromising(a alternative) bool {
	return a.d.ok && a.d.ratio <= 1-equivalence && a.d.pBetter() <= confirmBelowP
}

// findingsTogether adds to best all changes that findings of the base run name, and compares the two sets. Where
// several knobs make the caller wait, changing only one of them may have no effect.
func (e *engine) findingsTogether(_ []alternative, best []Change) ([]Change, error) {
	all := best
	for _, a := range e.alts {
		if e.isNamed(a.Change) && !hasKnob(all, a.Knob) && a.v != tune.Refused && a.v != tune.Failed {
			all = append(slices.Clip(all), a.Change)
		}
	}
	if len(all) == len(best) || len(all) < 2 {
		return best, nil
	}
	v, err := e.tryChange(best, all)
	if err != nil || !v.Better() {
		return best, err
	}
	return all, nil
}

// rankAlternatives returns the alternatives in order of their measured ratios, the best first.
func rankAlternatives(alts []alternative) []alternative {
	ranked := slices.Clone(alts)
	slices.SortStableFunc(ranked, func(a, b alternative) int {
		return cmp.Or(cmp.Compare(rankOf(a), rankOf(b)), strings.Compare(a.Knob+"="+a.To, b.Knob+"="+b.To))
	})
	return ranked
}

// phase tries to improve best, the best changes found so far, and returns the improved changes.
type phase func(ranked []alternative, best []Change) ([]Change, error)

// improveBest runs phases of the search, each on the best changes of the previous one.
func (e *engine) improveBest(ranked []alternative, best []Change, phases []phase) ([]Change, error) {
	for _, p := range phases {
		next, err := p(ranked, best)
		if errors.Is(err, errSpent) {
			return next, nil
		}
		if err != nil {
			return next, err
		}
		best = next
	}
	return best, nil
}

// rankOf returns the sort key of an alternative; unmeasured ones come last.
func rankOf(a alternative) float64 {
	switch {
	case !a.d.ok:
		return math.Inf(1)
	case a.v.Better():
		return a.d.ratio - 1e3 // before all that are not proven
	}
	return a.d.ratio
}

// comparisonSeconds estimates the time of a comparison by the median of the comparisons so far; 0 before the first.
func (e *engine) comparisonSeconds() float64 {
	var seconds []float64
	for _, entry := range e.out.Journal {
		if o := entry.Outcome; len(o.TimeB) > 0 && len(o.TimeA) > 0 {
			seconds = append(seconds, o.Seconds)
		}
	}
	if len(seconds) == 0 {
		return 0
	}
	return stats.Median(seconds)
}

// tryChange compares candidate with best. A candidate that fails is recorded and counts as no improvement.
func (e *engine) tryChange(best, candidate []Change) (tune.Verdict, error) {
	a, b := With(e.base, best...), With(e.base, candidate...)
	if maps.Equal(a, b) {
		return tune.None, nil
	}
	left := e.timeLeft(searchUntil)
	if left.Seconds() < e.comparisonSeconds()/2 { // the remaining time is for the confirmation
		left = 0
	}
	o, err := e.compare("searching", a, b, min(left, max(left/6, time.Second)), 0)
	if errors.Is(err, errSpent) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return "", err
	}
	if err != nil { // best could not be opened again
		e.addFailure(a, err.Error())
		return tune.Failed, nil
	}
	alt := e.weighChange(Change{}, o)
	switch alt.v {
	case tune.Failed, tune.Refused:
		e.addFailure(b, o.Reason)
	case tune.Inconclusive:
		if alt.d.ok && alt.d.ratio <= 1+equivalence && len(candidate) < len(best) {
			alt.v = tune.None // fewer changes, and not measurably worse
		}
	}
	return alt.v, nil
}

func hasKnob(cs []Change, knob string) bool {
	return slices.ContainsFunc(cs, func(c Change) bool { return c.Knob == knob })
}

// replaceChange returns cs with c in place of any other change of the same knob.
func replaceChange(cs []Change, c Change) []Change {
	out := slices.DeleteFunc(slices.Clone(cs), func(o Change) bool { return o.Knob == c.Knob })
	return append(out, c)
}

// add tries to add the changes that helped alone, the most promising first.
func (e *engine) add(ranked []alternative, best []Change) ([]Change, error) {
	for _, a := range ranked {
		if !isPromising(a) || hasKnob(best, a.Knob) {
			continue
		}
		v, err := e.tryChange(best, replaceChange(best, a.Change))
		if err != nil {
			return best, err
		}
		if v.Better() {
			best = replaceChange(best, a.Change)
		}
	}
	return best, nil
}

// dropUseless removes changes that do not help within the set: fewer changes are easier to trust and to maintain.
func (e *engine) dropUseless(_ []alternative, best []Change) ([]Change, error) {
	for i := 0; i < len(best) && len(best) > 1; {
		without := slices.Delete(slices.Clone(best), i, i+1)
		v, err := e.tryChange(best, without)
		if err != nil {
			return best, err
		}
		if v.Better() || v == tune.None {
			best = without
			continue
		}
		i++
	}
	return best, nil
}

// addAll tries to add every remaining change, also those without an effect alone, until a whole round adds none.
func (e *engine) addAll(ranked []alternative, best []Change) ([]Change, error) {
	for found := len(best) > 0; found; {
		found = false
		for _, a := range ranked {
			if slices.Contains(best, a.Change) || a.out == nil {
				continue
			}
			v, err := e.tryChange(best, replaceChange(best, a.Change))
			if err != nil {
				return best, err
			}
			if v.Better() {
				best, found = replaceChange(best, a.Change), true
			}
		}
	}
	return best, nil
}

// mostPaired is the number of best remaining changes that tryPairs combines.
const mostPaired = 5

// tryPairs tries to add two changes at once: some help only together.
func (e *engine) tryPairs(ranked []alternative, best []Change) ([]Change, error) {
	var rest []Change
	for _, a := range ranked {
		if !slices.Contains(best, a.Change) && a.d.ok && len(rest) < mostPaired {
			rest = append(rest, a.Change)
		}
	}
	for i, a := range rest {
		for _, b := range rest[:i] {
			if a.Knob == b.Knob {
				continue
			}
			both := replaceChange(replaceChange(best, a), b)
			v, err := e.tryChange(best, both)
			if err != nil {
				return best, err
			}
			if v.Better() {
				best = both
			}
		}
	}
	return best, nil
}
