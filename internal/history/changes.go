package history

import (
	"fmt"
	"hash/fnv"
	"math"
	"slices"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/compare"
	"github.com/gpuprof/gpuprof/internal/stats"
)

// These constants depend on each other; the tests simulate the resulting error rates. Alpha is the largest p-value of a
// change and Draws the number of permutations, for a change in the report (show) and for an alarm.
const (
	// LeastSessions is the smallest number of sessions of a class that is judged: two levels of four sessions.
	LeastSessions = 8
	showAlpha     = 0.01
	showDraws     = 199
	alarmAlpha    = 0.002
	alarmDraws    = 999
	// sameChange is the largest distance, in sessions, between two detections of the same change.
	sameChange = 2
	// A change of the sentinel (a benchmark whose code never changes) explains a metric's change that is at most
	// besideSentinel sessions away and at most sentinelTimes the sentinel's change plus sentinelMore.
	besideSentinel = 3
	sentinelTimes  = 2
	sentinelMore   = 0.02
)

// run holds the analysed sessions of one metric in one class (sessions with the same device and options).
type run struct {
	at []int     // session indices in the trend
	y  []float64 // logarithms; plain values for a counter
}

func (t *Trend) analyse(o Options) {
	moved := t.sentinelChanges(o)
	for i := range t.Metrics {
		m := &t.Metrics[i]
		var residuals []residual
		for k, span := range t.classNames() {
			latest := k == len(t.classNames())-1
			r, why := t.buildRun(m, span)
			if latest {
				m.Judged, m.Unjudged = len(r.at), why
			}
			if len(r.at) == 0 {
				continue
			}
			var steps []stats.Step
			if why == "" {
				steps = t.findSteps(m, span, r.y, o, showAlpha, showDraws)
			}
			residuals = append(residuals, m.addLevels(t, r, steps)...)
			m.addChanges(t, r, steps, moved)
			if latest && why == "" && o.Watch {
				m.Alarms = append(m.Alarms, t.findAlarms(m, span, r, o)...)
				m.Seen = t.findSeen(m, span, r, steps, o)
			}
		}
		if !m.Exact {
			m.Spread, m.Scatter = commitSpreads(residuals)
		}
	}
}

func (t *Trend) classNames() []string {
	var out []string
	for _, s := range t.Classes {
		out = slices.DeleteFunc(out, func(c string) bool { return c == s.Class })
		out = append(out, s.Class)
	}
	return out
}

// buildRun returns a metric's values in a class. It raises values of a stage to the stage's floor. why states why the
// values cannot be judged; "" if they can.
func (t *Trend) buildRun(m *Metric, class string) (r run, why string) {
	floor := 0.0
	if m.stage && len(t.totals) > 0 {
		floor = compare.StageFloor * stats.Median(t.totals)
	}
	low := true
	for i, v := range m.Values {
		x := float64(v)
		if t.Sessions[i].Class != class || t.Sessions[i].LeftOut != "" || !gpuprof.IsFinite(x) {
			continue
		}
		if !m.Exact {
			low = low && x < floor
			if x = math.Max(x, floor); !(x > 0) {
				return run{}, "it holds values that are not above 0"
			}
			x = math.Log(x)
		}
		r.at, r.y = append(r.at, i), append(r.y, x)
	}
	switch {
	case !m.Exact && floor > 0 && low:
		why = fmt.Sprintf("less than %.0f %% of the step: too little to judge", 100*compare.StageFloor)
	case len(r.at) < LeastSessions:
		why = fmt.Sprintf("%d sessions of this class that can be analysed; %d are needed", len(r.at), LeastSessions)
	}
	return r, why
}

// findSteps returns the changes in a run; a counter changes wherever its value does.
func (t *Trend) findSteps(m *Metric, class string, y []float64, o Options, alpha float64, draws int) []stats.Step {
	if m.Exact {
		var out []stats.Step
		for i := 1; i < len(y); i++ {
			if y[i] != y[i-1] {
				out = append(out, stats.Step{At: i, P: math.NaN(), First: i, Last: i})
			}
		}
		return out
	}
	return stats.FindSteps(y, stats.StepRule{Margin: math.Log1p(o.Margin), Alpha: alpha, Draws: draws, Seed: t.randomSeed(class, m.Name)})
}

// randomSeed derives a seed from names, so that results are equal on every machine.
func (t *Trend) randomSeed(class, metric string) uint64 {
	h := fnv.New64()
	fmt.Fprintf(h, "%q %q %q %q", t.Project, t.Benchmark, class, metric)
	return h.Sum64()
}

// residual is the difference between a session's logarithm and its level.
type residual struct {
	commit string
	off    float64
}

// addLevels adds the levels of a run of sessions to the metric, and returns the residuals of the sessions.
func (m *Metric) addLevels(t *Trend, r run, steps []stats.Step) (out []residual) {
	for _, b := range levelBounds(r, steps) {
		centre := stats.Median(r.y[b[0]:b[1]])
		for i := b[0]; i < b[1]; i++ {
			out = append(out, residual{t.Sessions[r.at[i]].Commit.ID, r.y[i] - centre})
		}
		m.Levels = append(m.Levels, Level{First: r.at[b[0]], Last: r.at[b[1]-1], Value: gpuprof.Number(m.levelValue(centre)), N: b[1] - b[0]})
	}
	return out
}

func (m *Metric) levelValue(centre float64) float64 {
	if m.Exact {
		return centre
	}
	return stats.Significant(math.Exp(centre), stats.StoredDigits)
}

func levelBounds(r run, steps []stats.Step) (out [][2]int) {
	from := 0
	for _, s := range steps {
		out = append(out, [2]int{from, s.At})
		from = s.At
	}
	return append(out, [2]int{from, len(r.y)})
}

func (m *Metric) addChanges(t *Trend, r run, steps []stats.Step, moved []sentinelChange) {
	bounds := levelBounds(r, steps)
	for i, s := range steps {
		before, after := r.y[bounds[i][0]:bounds[i][1]], r.y[bounds[i+1][0]:bounds[i+1][1]]
		at := r.at[s.At]
		c := Change{
			At: at, Before: t.Sessions[r.at[s.At-1]].Commit, After: t.Sessions[at].Commit, P: gpuprof.Number(s.P), Sentinel: gpuprof.Number(math.NaN()),
			Old: gpuprof.Number(m.levelValue(stats.Median(before))), New: gpuprof.Number(m.levelValue(stats.Median(after))),
			SessionsBefore: len(before), SessionsAfter: len(after),
		}
		c.Ratio, c.CI95 = m.levelRatio(r, before, after)
		c.Worse = !m.undirected && (c.New > c.Old) != m.HigherIsBetter
		for k := s.First; k <= s.Last; k++ {
			if id := t.Sessions[r.at[k]].Commit.Short(); !slices.Contains(c.Commits, id) {
				c.Commits = append(c.Commits, id)
			}
		}
		c.setCause(t, m, moved)
		m.Changes = append(m.Changes, c)
	}
}

// levelRatio returns the later level over the earlier one, with an interval by Student's t (stats.LevelChange).
func (m *Metric) levelRatio(r run, before, after []float64) (ratio gpuprof.Number, ci [2]gpuprof.Number) {
	none := gpuprof.Number(math.NaN())
	if m.Exact {
		if old := stats.Median(before); old != 0 {
			return gpuprof.Number(stats.Median(after) / old), [2]gpuprof.Number{none, none}
		}
		return none, [2]gpuprof.Number{none, none}
	}
	e := stats.LevelChange(before, after, stats.Neighbourly(r.y))
	number := func(log float64) gpuprof.Number {
		return gpuprof.Number(stats.Significant(math.Exp(log), stats.StoredDigits))
	}
	return number(e.Theta), [2]gpuprof.Number{number(e.Lower(0.975)), number(e.Upper(0.975))}
}

// sentinelChange is a change of the sentinel at a session; worse is a logarithm, positive if the sentinel became worse.
type sentinelChange struct {
	at    int
	worse float64
}

// sentinelChanges finds the changes of the sentinel, by the same rules as for any metric.
func (t *Trend) sentinelChanges(o Options) (out []sentinelChange) {
	m := &t.Sentinel
	if len(m.Values) == 0 {
		return nil
	}
	for _, class := range t.classNames() {
		r, why := t.buildRun(m, class)
		if len(r.at) == 0 {
			continue
		}
		var steps []stats.Step
		if why == "" {
			steps = t.findSteps(m, class, r.y, o, showAlpha, showDraws)
		}
		m.addLevels(t, r, steps)
		before := len(m.Changes)
		m.addChanges(t, r, steps, nil)
		for _, c := range m.Changes[before:] {
			out = append(out, sentinelChange{c.At, m.logWorse(float64(c.Ratio))})
		}
	}
	return out
}

// logWorse returns the logarithm of a ratio, positive if the metric became worse.
func (m *Metric) logWorse(ratio float64) float64 {
	if m.HigherIsBetter {
		return -math.Log(ratio)
	}
	return math.Log(ratio)
}

// setCause sets the cause of a change. It is the machine if the sentinel changes near the same session, in the same
// direction and by enough (sentinelTimes, sentinelMore).
func (c *Change) setCause(t *Trend, m *Metric, moved []sentinelChange) {
	switch {
	case m.Exact:
		c.Cause = FromCounter
		return
	case !t.hasSentinelAround(c.At):
		c.Cause = Unknown
		return
	}
	c.Cause = FromCode
	by := m.logWorse(float64(c.Ratio))
	for _, s := range moved {
		near := max(s.at-c.At, c.At-s.at) <= besideSentinel
		if near && s.worse*by > 0 && math.Abs(by) <= sentinelTimes*math.Abs(s.worse)+math.Log1p(sentinelMore) {
			c.Cause = FromMachine
			ratio := math.Exp(s.worse)
			if t.Sentinel.HigherIsBetter {
				ratio = 1 / ratio
			}
			c.Sentinel = gpuprof.Number(stats.Significant(ratio, stats.StoredDigits))
			return
		}
	}
}

// hasSentinelAround reports whether the sentinel has enough values on both sides of a session to detect a change.
func (t *Trend) hasSentinelAround(at int) bool {
	sides := [2]int{}
	for i, v := range t.Sentinel.Values {
		if s := &t.Sessions[i]; s.Class == t.Sessions[at].Class && s.LeftOut == "" && !math.IsNaN(float64(v)) {
			side := 0
			if i >= at {
				side = 1
			}
			sides[side]++
		}
	}
	return sides[0] >= LeastSessions/2 && sides[1] >= LeastSessions/2
}

// commitSpreads returns the standard deviation of sessions about their levels (spread) and its part between commits
// (scatter), which repeated sessions of one commit do not show; NaN if unknown. Both are 1.4826 times a median absolute
// deviation.
func commitSpreads(all []residual) (spread, scatter gpuprof.Number) {
	nan := gpuprof.Number(math.NaN())
	if len(all) < compare.MinSessions {
		return nan, nan
	}
	offs := make([]float64, len(all))
	byCommit := map[string][]float64{}
	for i, r := range all {
		offs[i] = math.Abs(r.off)
		byCommit[r.commit] = append(byCommit[r.commit], r.off)
	}
	const toSigma = 1.4826
	sigma := toSigma * stats.Median(offs)
	// The difference between two sessions of a commit has sqrt(2) times the standard deviation within commits.
	var apart []float64
	for _, r := range all {
		same := byCommit[r.commit]
		if len(same) < 2 {
			continue
		}
		for i := 1; i < len(same); i++ {
			apart = append(apart, math.Abs(same[i]-same[i-1])/math.Sqrt2)
		}
		byCommit[r.commit] = nil
	}
	if len(apart) < LeastSessions/2 {
		return gpuprof.Number(sigma), nan
	}
	slices.Sort(apart)
	within := toSigma * stats.Median(apart)
	return gpuprof.Number(sigma), gpuprof.Number(math.Sqrt(math.Max(0, sigma*sigma-within*within)))
}

// Scatter returns the standard deviation between commits, relative to the value. Its square is the variance of sessions
// about their level, minus the variance between repeated sessions of one commit. ok is false with too few sessions or
// too few repeated commits.
func Scatter(m *Metric) (share float64, ok bool) {
	v := float64(m.Scatter)
	return v, !math.IsNaN(v)
}
