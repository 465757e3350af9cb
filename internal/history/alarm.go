package history

import (
	"math"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/stats"
)

// alarms are the changes of a run that a build should fail for. Looking after every
// session would multiply false alarms, so that the test is stricter than for a table,
// and the look before, without the latest session, must have found the same change.
// Levels that are worse step by step are held against the present one: small steps
// that each pass add up.
func (t *Trend) alarms(m *Metric, class string, r run, o Options) (out []Alarm) {
	steps := t.confirmed(m, class, r.y, o)
	bounds := boundsOf(r, steps)
	now := stats.Median(r.y[bounds[len(bounds)-1][0]:])
	from := t.since(o.Since, o.Order)
	for i, s := range steps {
		old := stats.Median(r.y[bounds[i][0]:bounds[i][1]])
		first := t.Sessions[r.at[s.At]]
		if r.at[s.At] < from || !m.alarming(old, now, o.Threshold) {
			continue
		}
		a := Alarm{At: r.at[s.At], Before: t.Sessions[r.at[s.At-1]].Commit, After: first.Commit, P: gpuprof.Number(s.P),
			Old: gpuprof.Number(m.back(old)), Now: gpuprof.Number(m.back(now)), Ratio: gpuprof.Number(math.NaN())}
		if a.Old != 0 {
			a.Ratio = a.Now / a.Old
		}
		out = append(out, a)
	}
	return out
}

// confirmed are the changes of a run by the stricter test that the look before found too.
func (t *Trend) confirmed(m *Metric, class string, y []float64, o Options) []stats.Step {
	steps := t.steps(m, class, y, o, alarmAlpha, alarmDraws)
	if m.Exact {
		return steps
	}
	before := t.steps(m, class, y[:len(y)-1], o, alarmAlpha, alarmDraws)
	return slices.DeleteFunc(steps, func(s stats.Step) bool {
		return !slices.ContainsFunc(before, func(b stats.Step) bool { return near(b.At, s.At) })
	})
}

// near reports whether two looks found one change.
func near(a, b int) bool { return max(a-b, b-a) <= sameChange }

// mostAwaited is how many sessions to come are tried.
const mostAwaited = 15

// seen are the changes of a run that the present level would raise an alarm for, and that the
// stricter test does not find yet.
func (t *Trend) seen(m *Metric, class string, r run, steps []stats.Step, o Options) (out []Seen) {
	if m.Exact {
		return nil
	}
	bounds := boundsOf(r, steps)
	now := stats.Median(r.y[bounds[len(bounds)-1][0]:])
	from := t.since(o.Since, o.Order)
	for i, s := range steps {
		old := stats.Median(r.y[bounds[i][0]:bounds[i][1]])
		at := r.at[s.At]
		raised := slices.ContainsFunc(m.Alarms, func(a Alarm) bool { return near(slices.Index(r.at, a.At), s.At) })
		if raised || at < from || !m.alarming(old, now, o.Threshold) {
			continue
		}
		out = append(out, Seen{At: at, After: t.Sessions[at].Commit, P: gpuprof.Number(s.P), Ratio: gpuprof.Number(stats.Significant(math.Exp(now-old), stats.StoredDigits)),
			Sessions: t.awaited(m, class, r.y, s.At, o)})
	}
	return out
}

// awaited is how many more sessions like those since a change raise the alarm; 0 where
// mostAwaited do not.
func (t *Trend) awaited(m *Metric, class string, y []float64, at int, o Options) int {
	level := y[at:]
	longer := slices.Clone(y)
	for n := 1; n <= mostAwaited; n++ {
		longer = append(longer, level[(n-1)%len(level)])
		if slices.ContainsFunc(t.confirmed(m, class, longer, o), func(s stats.Step) bool { return near(s.At, at) }) {
			return n
		}
	}
	return 0
}

// alarming says that the present level is worse than an old one by the threshold.
func (m *Metric) alarming(old, now, threshold float64) bool {
	if m.undirected {
		return false
	}
	if !m.Exact {
		if m.HigherIsBetter {
			old, now = now, old
		}
		return now-old >= math.Log1p(threshold)
	}
	if m.HigherIsBetter {
		return old > now && old >= now*(1+threshold)
	}
	return now > old && now >= old*(1+threshold)
}

// since is the first session behind a commit that alarms are about; 0 for all.
func (t *Trend) since(commit string, order Order) int {
	rank, ranked := order[Commit{ID: commit}.Short()]
	for i := len(t.Sessions) - 1; i >= 0 && commit != ""; i-- {
		id := t.Sessions[i].Commit
		at, on := order[id.Short()]
		if ranked && on && at <= rank || id.ID != "" && (strings.HasPrefix(id.ID, commit) || strings.HasPrefix(commit, id.ID)) {
			return i + 1
		}
	}
	return 0
}
