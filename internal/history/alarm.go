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
	steps := t.steps(m, class, r, o, alarmAlpha, alarmDraws)
	if !m.Exact {
		last := len(r.y) - 1
		before := t.steps(m, class, run{r.at[:last], r.y[:last]}, o, alarmAlpha, alarmDraws)
		steps = slices.DeleteFunc(steps, func(s stats.Step) bool {
			return !slices.ContainsFunc(before, func(b stats.Step) bool { return max(b.At-s.At, s.At-b.At) <= sameChange })
		})
	}
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

// alarming says that the present level is worse than an old one by the threshold.
func (m *Metric) alarming(old, now, threshold float64) bool {
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
