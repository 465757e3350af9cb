package history

import (
	"math"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/stats"
)

// findAlarms returns the changes of a run that should fail a build. A test after every session multiplies false alarms,
// so this test is stricter than the report's, and must find the same change without the latest session. Each earlier
// level is compared with the present level, so that small steps add up.
func (t *Trend) findAlarms(m *Metric, class string, r run, o Options) (out []Alarm) {
	steps := t.confirmedSteps(m, class, r.y, o)
	bounds := levelBounds(r, steps)
	now := stats.Median(r.y[bounds[len(bounds)-1][0]:])
	from := t.firstAfter(o.Since, o.Order)
	for i, s := range steps {
		old := stats.Median(r.y[bounds[i][0]:bounds[i][1]])
		first := t.Sessions[r.at[s.At]]
		if r.at[s.At] < from || !m.exceedsThreshold(old, now, o.Threshold) {
			continue
		}
		a := Alarm{At: r.at[s.At], Before: t.Sessions[r.at[s.At-1]].Commit, After: first.Commit, P: gpuprof.Number(s.P),
			Old: gpuprof.Number(m.levelValue(old)), Now: gpuprof.Number(m.levelValue(now)), Ratio: gpuprof.Number(math.NaN())}
		if a.Old != 0 {
			a.Ratio = a.Now / a.Old
		}
		out = append(out, a)
	}
	return out
}

// confirmedSteps returns the changes that the test for alarms (alarmAlpha) finds both with and without the latest
// session.
func (t *Trend) confirmedSteps(m *Metric, class string, y []float64, o Options) []stats.Step {
	steps := t.findSteps(m, class, y, o, alarmAlpha, alarmDraws)
	if m.Exact {
		return steps
	}
	before := t.findSteps(m, class, y[:len(y)-1], o, alarmAlpha, alarmDraws)
	return slices.DeleteFunc(steps, func(s stats.Step) bool {
		return !slices.ContainsFunc(before, func(b stats.Step) bool { return isNear(b.At, s.At) })
	})
}

// isNear reports whether changes found at two session indices count as the same change.
func isNear(a, b int) bool { return max(a-b, b-a) <= sameChange }

// mostAwaited limits the future sessions that awaitedSessions simulates.
const mostAwaited = 15

// findSeen returns the worsenings above the threshold that the test for alarms does not find yet.
func (t *Trend) findSeen(m *Metric, class string, r run, steps []stats.Step, o Options) (out []Seen) {
	if m.Exact {
		return nil
	}
	bounds := levelBounds(r, steps)
	now := stats.Median(r.y[bounds[len(bounds)-1][0]:])
	from := t.firstAfter(o.Since, o.Order)
	for i, s := range steps {
		old := stats.Median(r.y[bounds[i][0]:bounds[i][1]])
		at := r.at[s.At]
		raised := slices.ContainsFunc(m.Alarms, func(a Alarm) bool { return isNear(slices.Index(r.at, a.At), s.At) })
		if raised || at < from || !m.exceedsThreshold(old, now, o.Threshold) {
			continue
		}
		out = append(out, Seen{At: at, After: t.Sessions[at].Commit, P: gpuprof.Number(s.P), Ratio: gpuprof.Number(stats.Significant(math.Exp(now-old), stats.StoredDigits)),
			Sessions: t.awaitedSessions(m, class, r.y, s.At, o)})
	}
	return out
}

// awaitedSessions returns how many more sessions, equal to the ones since the change, would raise the alarm; 0 if more
// than mostAwaited.
func (t *Trend) awaitedSessions(m *Metric, class string, y []float64, at int, o Options) int {
	level := y[at:]
	longer := slices.Clone(y)
	for n := 1; n <= mostAwaited; n++ {
		longer = append(longer, level[(n-1)%len(level)])
		if slices.ContainsFunc(t.confirmedSteps(m, class, longer, o), func(s stats.Step) bool { return isNear(s.At, at) }) {
			return n
		}
	}
	return 0
}

// exceedsThreshold reports whether the present level is worse than old by at least the threshold.
func (m *Metric) exceedsThreshold(old, now, threshold float64) bool {
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

// firstAfter returns the index of the first session after a commit; 0 if commit is empty or before all sessions.
func (t *Trend) firstAfter(commit string, order Order) int {
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
