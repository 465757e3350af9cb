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

// alternative is a change with what screening said of it.
type alternative struct {
	Change
	out *Outcome
	d   drawn
	v   Verdict
}

// search is the whole of it: find what is better, and confirm it.
func (e *engine) search(changes []Change) error {
	alts, best, err := e.find(changes)
	for _, a := range alts { // also of a search that was cut short
		reason := "the budget ended before this was measured; give more time with --budget"
		if a.out != nil {
			reason = a.out.Reason
			if a.v == Inconclusive && !a.d.ok {
				reason = "too few blocks fitted into the time; give more with --budget"
			}
		}
		e.effect(a, reason)
	}
	if err != nil {
		return err
	}
	return e.decide(alts, best)
}

// find screens the changes and searches their combinations. Where nothing
// better was seen, the time that this leaves goes to what is undecided.
func (e *engine) find(changes []Change) ([]alternative, []Change, error) {
	alts, err := e.screen(changes)
	if err != nil {
		return alts, nil, err
	}
	if err := e.refine(alts, refineUntil); err != nil {
		return alts, nil, err
	}
	e.over = e.exceeded(alts)
	if e.over != "" {
		best, err := e.fit(alts)
		return alts, best, err
	}
	best, err := e.combine(alts)
	if err != nil || len(best) > 0 {
		return alts, best, err
	}
	if err := e.refine(alts, lateUntil); err != nil {
		return alts, nil, err
	}
	best, err = e.combine(alts)
	return alts, best, err
}

// screen measures every change by itself against the default. What there was
// no time for is kept as inconclusive.
func (e *engine) screen(changes []Change) ([]alternative, error) {
	var alts []alternative
	for i, c := range changes {
		limit := e.left(screenUntil) / time.Duration(len(changes)-i)
		o, err := e.compare("screening", e.base, With(e.base, c), limit)
		if errors.Is(err, errSpent) {
			alts = append(alts, alternative{Change: c, v: Inconclusive})
			continue
		}
		if err != nil {
			return alts, err
		}
		alts = append(alts, e.weigh(c, o))
	}
	return alts, nil
}

// refine spends time on what is not decided and might be worth having, the
// most promising first: its blocks are added to those of screening. What
// screening had no time for is measured now.
func (e *engine) refine(alts []alternative, until float64) error {
	for range mostRefined {
		var undecided []int
		for i, a := range alts {
			if a.v == Inconclusive && (!a.d.ok || a.d.ci[0] < 1-equivalence) {
				undecided = append(undecided, i)
			}
		}
		slices.SortStableFunc(undecided, func(i, j int) int { return cmp.Compare(alts[i].d.ratio, alts[j].d.ratio) })
		for n, i := range undecided {
			limit := max(e.left(until)/time.Duration(len(undecided)-n), min(e.left(until), leastRefine))
			err := e.more(&alts[i], limit)
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

// more measures an alternative again, or for the first time.
func (e *engine) more(a *alternative, limit time.Duration) error {
	if a.out == nil {
		o, err := e.compare("screening", e.base, With(e.base, a.Change), limit)
		if err == nil {
			*a = e.weigh(a.Change, o)
		}
		return err
	}
	o, err := e.again(e.round, a.Change, limit)
	if err == nil && o.Verdict == "" { // a failure now says less than the blocks before it
		*a = e.weigh(a.Change, a.out.pooled(o))
	}
	return err
}

// again repeats a comparison with the default.
func (e *engine) again(round int, c Change, limit time.Duration) (*Outcome, error) {
	sa, sb := Side{Workload: e.Workload, Preset: e.Preset, Knobs: e.base}, Side{Workload: e.Workload, Preset: e.Preset, Knobs: With(e.base, c)}
	key := fmt.Sprintf("again %d | %s | %s", round+1, sa.key(), sb.key())
	return e.once("screening", key, "again "+c.Knob+"="+c.To, limit, func() (*Outcome, error) {
		return e.Bench.Compare(e.ctx, sa, sb, Limits{Goal: e.Goal, Time: limit, MaxError: e.MaxError, MaxMemory: e.MaxMemory, Seed: e.Seed + uint64(round) + 1})
	})
}

// pooled is o with the blocks of both; neither is changed.
func (o *Outcome) pooled(more *Outcome) *Outcome {
	p := *o
	p.A, p.B = slices.Concat(o.A, more.A), slices.Concat(o.B, more.B)
	p.TimeA, p.TimeB = slices.Concat(o.TimeA, more.TimeA), slices.Concat(o.TimeB, more.TimeB)
	return &p
}

// weigh judges one comparison.
func (e *engine) weigh(c Change, o *Outcome) alternative {
	alt := alternative{Change: c, out: o, v: o.Verdict}
	if o.Verdict == "" {
		alt.d = ratioOf(e.bs, o.A, o.B)
		alt.v = alt.d.judge(e.Goal)
	}
	return alt
}

// effect adds a line of the knob table.
func (e *engine) effect(a alternative, reason string) {
	f := Effect{Knob: a.Knob, From: a.From, To: a.To, Verdict: a.v, Reason: reason}
	if a.out != nil {
		f.Error, f.Pairs = a.out.Error, len(a.out.B)
		if a.out.MemoryA > 0 {
			f.MemoryRatio = float64(a.out.MemoryB) / float64(a.out.MemoryA)
		}
		if a.v == Refused || a.v == Failed {
			e.fail(With(e.base, a.Change), reason)
		}
	}
	if a.d.ok {
		f.Ratio, f.CI95 = shown(e.Goal, a.d.ratio, a.d.ci)
		if t := ratioOf(e.bs, a.out.TimeA, a.out.TimeB); t.ok {
			f.TimeRatio = t.ratio
		}
		f.PyTorch = PyTorchLine(e.Workload.Name(), a.Knob, a.To)
	}
	e.out.Effects = append(e.out.Effects, f)
}

// combine searches combinations from the best single change on. Every step is
// a comparison with the best so far, so that a knob counts for what it does
// beside the others, not for what it did alone.
func (e *engine) combine(alts []alternative) ([]Change, error) {
	ranked := ranking(alts)
	var best []Change
	if len(ranked) > 0 && ranked[0].v.Better() {
		best = []Change{ranked[0].Change}
	}
	return e.improve(ranked, best, []phase{e.add, e.drop, e.addAll, e.pairs, e.drop})
}

// ranking is the alternatives by what was seen, the best first.
func ranking(alts []alternative) []alternative {
	ranked := slices.Clone(alts)
	slices.SortStableFunc(ranked, func(a, b alternative) int {
		switch x, y := rank(a), rank(b); {
		case x < y:
			return -1
		case x > y:
			return 1
		}
		return strings.Compare(a.Knob+"="+a.To, b.Knob+"="+b.To)
	})
	return ranked
}

// phase makes the best so far better, if it can.
type phase func(ranked []alternative, best []Change) ([]Change, error)

// improve takes the best so far through phases of the search.
func (e *engine) improve(ranked []alternative, best []Change, phases []phase) ([]Change, error) {
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

// rank orders by what was seen; what could not be measured comes last.
func rank(a alternative) float64 {
	switch {
	case !a.d.ok:
		return math.Inf(1)
	case a.v.Better():
		return a.d.ratio - 1e3 // before all that is not proven
	}
	return a.d.ratio
}

// dear is what a comparison takes here, in seconds, however little time it is
// given: to open, check and warm up, and a few blocks. 0 where none was made.
func (e *engine) dear() float64 {
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

// try compares the best so far with it changed. A combination that fails is
// recorded and is no improvement.
func (e *engine) try(best, candidate []Change) (Verdict, error) {
	a, b := With(e.base, best...), With(e.base, candidate...)
	if maps.Equal(a, b) {
		return None, nil
	}
	left := e.left(searchUntil)
	if left.Seconds() < e.dear()/2 { // it would take the time of confirming
		left = 0
	}
	o, err := e.compare("searching", a, b, min(left, max(left/6, time.Second)))
	if errors.Is(err, errSpent) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return "", err
	}
	if err != nil { // the best so far could not be opened again
		e.fail(a, err.Error())
		return Failed, nil
	}
	v := e.weigh(Change{}, o).v
	if v == Failed || v == Refused {
		e.fail(b, o.Reason)
	}
	return v, nil
}

func (e *engine) fail(set gpuprof.Settings, reason string) {
	knobs := difference(e.base, set)
	if !slices.ContainsFunc(e.out.Failed, func(f Failure) bool { return maps.Equal(f.Knobs, knobs) }) {
		e.out.Failed = append(e.out.Failed, Failure{knobs, reason})
	}
}

// causes leaves out failures that a smaller one with the same words explains.
func causes(failed []Failure) []Failure {
	return slices.DeleteFunc(slices.Clone(failed), func(f Failure) bool {
		return slices.ContainsFunc(failed, func(o Failure) bool {
			return len(o.Knobs) < len(f.Knobs) && o.Error == f.Error && len(difference(f.Knobs, o.Knobs)) == 0
		})
	})
}

func has(cs []Change, knob string) bool {
	return slices.ContainsFunc(cs, func(c Change) bool { return c.Knob == knob })
}

// replaced is cs with c in it, instead of another value of the same knob.
func replaced(cs []Change, c Change) []Change {
	out := slices.DeleteFunc(slices.Clone(cs), func(o Change) bool { return o.Knob == c.Knob })
	return append(out, c)
}

// add tries what helped alone, the most promising first.
func (e *engine) add(ranked []alternative, best []Change) ([]Change, error) {
	for _, a := range ranked {
		if !a.v.Better() || has(best, a.Knob) {
			continue
		}
		v, err := e.try(best, replaced(best, a.Change))
		if err != nil {
			return best, err
		}
		if v.Better() {
			best = replaced(best, a.Change)
		}
	}
	return best, nil
}

// drop takes out what no longer helps beside the others: fewer changes are
// easier to believe and to keep.
func (e *engine) drop(_ []alternative, best []Change) ([]Change, error) {
	for i := 0; i < len(best) && len(best) > 1; {
		without := slices.Delete(slices.Clone(best), i, i+1)
		v, err := e.try(best, without)
		if err != nil {
			return best, err
		}
		if v.Better() || v == None {
			best = without
			continue
		}
		i++
	}
	return best, nil
}

// addAll tries every change that is left beside the best so far, also those
// that did nothing alone, until a whole round finds nothing.
func (e *engine) addAll(ranked []alternative, best []Change) ([]Change, error) {
	for found := len(best) > 0; found; {
		found = false
		for _, a := range ranked {
			if slices.Contains(best, a.Change) || a.out == nil {
				continue
			}
			v, err := e.try(best, replaced(best, a.Change))
			if err != nil {
				return best, err
			}
			if v.Better() {
				best, found = replaced(best, a.Change), true
			}
		}
	}
	return best, nil
}

// mostPaired is how many changes that do nothing alone are tried two by two.
const mostPaired = 5

// pairs tries two changes at once that help only together.
func (e *engine) pairs(ranked []alternative, best []Change) ([]Change, error) {
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
			both := replaced(replaced(best, a), b)
			v, err := e.try(best, both)
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

// describe prints settings as flags.
func describe(s gpuprof.Settings) string {
	parts := make([]string, 0, len(s))
	for _, k := range slices.Sorted(maps.Keys(s)) {
		parts = append(parts, k+"="+s[k])
	}
	return strings.Join(parts, " ")
}
