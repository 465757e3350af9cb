package search

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/tune"
)

// alternative is a change with its result from the screening.
type alternative struct {
	Change
	out *tune.Outcome
	d   ratioEstimate
	v   tune.Verdict
}

func (e *engine) search(changes []Change) error {
	best, err := e.find(changes)
	e.addEffects() // also for a search that was cut short
	if err != nil {
		return err
	}
	return e.decideFinalists(best)
}

// find screens the changes and combines the best. If nothing looks better, it measures undecided changes again.
func (e *engine) find(changes []Change) ([]Change, error) {
	if err := e.screen(changes); err != nil {
		return nil, err
	}
	if err := e.refineUndecided(refineUntil); err != nil {
		return nil, err
	}
	e.over = e.exceededLimit(e.alts)
	if e.over != "" {
		return e.fitLimits(e.alts)
	}
	best, err := e.combine()
	if err != nil || len(best) > 0 {
		return best, err
	}
	if err := e.refineUndecided(searchUntil); err != nil {
		return nil, err
	}
	return e.combine()
}

// screen compares every change alone with the default. Changes without time remain inconclusive.
func (e *engine) screen(changes []Change) error {
	e.alts = make([]alternative, len(changes))
	for i, c := range changes {
		e.alts[i] = alternative{Change: c, v: tune.Inconclusive}
	}
	for i, c := range changes {
		o, err := e.compareBy("screening", e.base, With(e.base, c), e.firstLook(changes, i))
		if errors.Is(err, errSpent) {
			break
		}
		if err != nil {
			return err
		}
		e.alts[i] = e.weighChange(c, o)
	}
	return nil
}

// firstLook returns the limits for the first look at change i: its share of the remaining time, at least the fewest
// blocks that give a result. Changes that findings name share half of the time, and may last until searchUntil.
func (e *engine) firstLook(changes []Change, i int) Limits {
	named := 0
	for _, c := range changes[i:] {
		if e.isNamed(c) {
			named++
		}
	}
	left := e.timeLeft(screenUntil)
	l := e.limitsOf(left/time.Duration(len(changes)-i), firstPairs, 0)
	l.Most = min(left, 4*l.Time)
	if e.isNamed(changes[i]) {
		l.Time, l.Most = max(l.Time, left/time.Duration(2*named)), max(l.Time, e.timeLeft(searchUntil))
	}
	return l
}

// refineUndecided measures more blocks of undecided changes that might be better: first the changes that the
// screening did not reach, then the most promising.
func (e *engine) refineUndecided(until float64) error {
	for range mostRefined {
		var undecided []int
		for i, a := range e.alts {
			if a.v == tune.Inconclusive && (!a.d.ok || a.d.interval(e.testLevel())[0] < 1-equivalence) {
				undecided = append(undecided, i)
			}
		}
		slices.SortStableFunc(undecided, func(i, j int) int { return cmp.Compare(e.alts[i].d.ratio, e.alts[j].d.ratio) })
		for n, i := range undecided {
			limit := max(e.timeLeft(until)/time.Duration(len(undecided)-n), min(e.timeLeft(until), leastRefine))
			err := e.measureMore(&e.alts[i], limit)
			if errors.Is(err, errSpent) {
				break
			}
			if err != nil {
				return err
			}
		}
		e.round++
	}
	return nil
}

// measureMore adds measurements to an alternative, or measures it for the first time.
func (e *engine) measureMore(a *alternative, limit time.Duration) error {
	if a.out == nil {
		o, err := e.compare("screening", e.base, With(e.base, a.Change), limit, firstPairs)
		if err == nil {
			*a = e.weighChange(a.Change, o)
		}
		return err
	}
	o, err := e.measureAgain(e.round, a.Change, limit)
	if err == nil && o.Verdict == "" { // a failure now counts less than the blocks before it
		*a = e.weighChange(a.Change, poolOutcomes(a.out, o))
	}
	return err
}

func (e *engine) measureAgain(round int, c Change, limit time.Duration) (*tune.Outcome, error) {
	sa, sb := e.side(e.base), e.side(With(e.base, c))
	key := fmt.Sprintf("again %d | %s | %s", round+1, sa.key(), sb.key())
	return e.measureOnce("screening", key, "again "+c.Knob+"="+c.To, limit, func() (*tune.Outcome, error) {
		return e.Bench.Compare(e.ctx, sa, sb, e.limitsOf(limit, 0, round+1))
	})
}

// poolOutcomes returns o with the blocks of both outcomes; it changes neither.
func poolOutcomes(o *tune.Outcome, more *tune.Outcome) *tune.Outcome {
	p := *o
	p.A, p.B = slices.Concat(o.A, more.A), slices.Concat(o.B, more.B)
	p.TimeA, p.TimeB = slices.Concat(o.TimeA, more.TimeA), slices.Concat(o.TimeB, more.TimeB)
	p.Sittings = max(1, o.Sittings) + max(1, more.Sittings)
	return &p
}

// testLevel returns the error rate of one comparison: with many changes, some would look better by chance.
func (e *engine) testLevel() float64 { return errorRate / float64(max(1, len(e.alts))) }

func (e *engine) weighChange(c Change, o *tune.Outcome) alternative {
	alt := alternative{Change: c, out: o, v: o.Verdict}
	if o.Verdict == "" {
		alt.d = ratioSeen(o)
		alt.v = alt.d.judgeBy(e.Goal, alt.d.interval(e.testLevel()))
	}
	return alt
}

// addEffects adds the table of knobs, with verdicts that hold jointly.
func (e *engine) addEffects() {
	drawns := make([]ratioEstimate, len(e.alts))
	for i, a := range e.alts {
		drawns[i] = a.d
	}
	ci, p := jointIntervals(drawns)
	for i, a := range e.alts {
		if a.d.ok {
			a.v = a.d.judgeBy(e.Goal, ci[i])
		}
		e.addEffect(a, ci[i], p[i])
	}
}

func (e *engine) addEffect(a alternative, ci [2]float64, p float64) {
	f := tune.Effect{Knob: a.Knob, From: a.From, To: a.To, Verdict: a.v, Reason: a.missingReason()}
	if a.out != nil {
		f.Error, f.Pairs = a.out.Error, len(a.out.B)
		if a.out.MemoryA > 0 {
			f.MemoryRatio = float64(a.out.MemoryB) / float64(a.out.MemoryA)
		}
		if a.v == tune.Refused || a.v == tune.Failed {
			e.addFailure(With(e.base, a.Change), f.Reason)
		}
	}
	if a.d.ok {
		f.Ratio, f.CI95 = goalRatio(e.Goal, a.d.ratio, ci)
		f.CI95 = [2]float64{tune.FiniteOrZero(f.CI95[0]), tune.FiniteOrZero(f.CI95[1])}
		_, f.Own = goalRatio(e.Goal, a.d.ratio, a.d.ci)
		f.P = p
		if t := ratioOf(a.out.TimeA, a.out.TimeB); t.ok {
			f.TimeRatio = t.ratio
		}
		f.PyTorch = PyTorchLine(e.Workload, a.Knob, a.To)
	}
	e.out.Effects = append(e.out.Effects, f)
}

// missingReason returns the reason for a row without a figure, or "".
func (a alternative) missingReason() string {
	switch {
	case a.out == nil:
		return notMeasured
	case a.v == tune.Inconclusive && !a.d.ok:
		return "too few blocks fitted into the time; give more with --budget"
	}
	return a.out.Reason
}

const notMeasured = "the budget ended before this was measured; give more time with --budget"

func (e *engine) addFailure(set gpuprof.Settings, reason string) {
	knobs := changedSettings(e.base, set)
	if !slices.ContainsFunc(e.out.Failed, func(f tune.Failure) bool { return maps.Equal(f.Knobs, knobs) }) {
		e.out.Failed = append(e.out.Failed, tune.Failure{Knobs: knobs, Error: reason})
	}
}

// firstCauses drops a failure if a smaller set of changes fails with the same error.
func firstCauses(failed []tune.Failure) []tune.Failure {
	return slices.DeleteFunc(slices.Clone(failed), func(f tune.Failure) bool {
		return slices.ContainsFunc(failed, func(o tune.Failure) bool {
			return len(o.Knobs) < len(f.Knobs) && o.Error == f.Error && len(changedSettings(f.Knobs, o.Knobs)) == 0
		})
	})
}
