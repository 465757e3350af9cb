package compare

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/stats"
)

// Compare judges two result files by their runs: Student's t on run medians, unpaired. The data of one session cannot
// show the spread between sessions (clocks, heat, neighbours), so the error of each side gets a session term: 1 %,
// unless Options.Learned or Options.SessionSpread replaces it. With 1 % an unchanged program passes a 5 % threshold, a
// change of 12 % is found, and one of 5 % is inconclusive. Measuring both in one job (Gate) finds smaller changes.
//
// The error is ErrUsage for options that fit no metric or field, and ErrInput for a side without metrics. Every other
// obstacle to a verdict is part of the Comparison.
func Compare(old, new *Result, o Options) (*Comparison, error) {
	if err := requireMetrics(old, new); err != nil {
		return nil, err
	}
	b, err := newBench(kindFiles, old, new, o)
	if err != nil {
		return nil, err
	}
	return b.judgeSessions(1, func(e *entry) [][][]float64 { return [][][]float64{e.old} }), nil
}

// findAlike tests whether neighbouring runs of a side depend on each other (Holm over all metrics). It skips sides
// whose runs alternated.
func (b *comparisonState) findAlike(sessions func(*entry) [][][]float64) {
	tested := b.testableEntries()
	if separate, _ := stats.CheckOrder(b.order); !separate {
		return
	}
	p := make([]float64, len(tested))
	for i, e := range tested {
		e.alike = stats.Neighbours(append(e.levelSessions(0, sessions(e)), e.levelSessions(1, [][][]float64{e.new})...)...)
		p[i] = e.alike.P
	}
	for i, adjusted := range stats.Holm(p) {
		tested[i].alike.Found = adjusted <= alpha
	}
}

// estimateUnpaired estimates the change of the new runs from the sessions. stats.Unpaired chooses the estimator by the
// noise and the level.
func (e *entry) estimateUnpaired(sessions [][][]float64, level float64, spread stats.Spread) (effect stats.Effect, ok bool) {
	delta, _ := e.limits()
	if len(stats.LogMedians(e.new)) == 0 {
		return stats.Effect{}, false
	}
	effect, rule, ok := stats.Unpaired(e.levelSessions(0, sessions), e.levelSessions(1, [][][]float64{e.new})[0], spread, e.alike, delta, level)
	e.nameRule(rule)
	return effect, ok
}

// levelSessions returns the logarithms of each session's run medians, with drift and level change subtracted; each
// session's mean stays.
func (e *entry) levelSessions(side int, sessions [][][]float64) (out [][]float64) {
	for _, runs := range sessions {
		logs := stats.LogMedians(runs)
		if parts := e.trended[side]; len(parts) == len(logs) {
			mean := stat.Mean(parts, nil)
			for i := range logs {
				logs[i] -= parts[i] - mean
			}
		}
		if len(logs) > 0 {
			out = append(out, logs)
		}
	}
	return out
}

func requireMetrics(sides ...*Result) error {
	for i, r := range sides {
		name := []string{"old", "new"}[min(i, 1)]
		if r == nil {
			return gpuprof.Errorf(gpuprof.ErrInput, "comparing: the %s side is missing", name).WithFix("give a result file")
		}
		if len(r.Metrics) == 0 && len(r.Failed) == 0 {
			return gpuprof.Errorf(gpuprof.ErrInput, "comparing %s: it holds no metric", cmp.Or(r.Source, "the "+name+" side")).WithFix("give a file with results")
		}
	}
	return nil
}

// runOrder returns for each run, in time order, whether it is of the new side. If times are unknown, all old runs come
// first.
func runOrder(old, new *Result) []bool {
	type run struct {
		at    float64
		isNew bool
	}
	var runs []run
	known := true
	for side, r := range []*Result{old, new} {
		n := len(r.RunInfo)
		if n == 0 {
			for _, m := range r.Metrics {
				if !m.Exact {
					n = max(n, len(m.Runs))
				}
			}
			known = false
		}
		for k := range n {
			at := 0.0
			if k < len(r.RunInfo) {
				at = r.RunInfo[k].StartS
			}
			known = known && at > 0
			runs = append(runs, run{at, side == 1})
		}
	}
	if known {
		slices.SortStableFunc(runs, func(a, b run) int { return cmp.Compare(a.at, b.at) })
	}
	out := make([]bool, len(runs))
	for i, r := range runs {
		out[i] = r.isNew
	}
	return out
}

// CompareStored judges a result against a stored baseline of several sessions, the latest last. From ten sessions
// on, the sessions give the spread between sessions, and the verdict uses a t prediction interval over session
// medians. With fewer, the spread is the larger of two: the sessions' own, and a given one, which is Options.Learned
// or, marked as assumed, Options.SessionSpread (1 %). Counters compare with the latest session. Errors as for Compare.
func CompareStored(sessions []*Result, new *Result, o Options) (*Comparison, error) {
	if len(sessions) == 0 {
		return nil, gpuprof.Errorf(gpuprof.ErrInput, "comparing with a baseline: it holds no session").WithFix("add one with gpuprof history baseline add RUN")
	}
	if err := requireMetrics(slices.Concat(sessions, []*Result{new})...); err != nil {
		return nil, err
	}
	old, bySession := poolSessions(filterByRate(sessions, new))
	b, err := newBench(kindBaseline, old, new, o)
	if err != nil {
		return nil, err
	}
	return b.judgeSessions(len(sessions), func(e *entry) [][][]float64 {
		runs := slices.Clone(bySession[e.Name])
		for i := range runs {
			if e.floor > 0 {
				runs[i] = raiseToFloor(runs[i], e.floor)
			}
		}
		return runs
	}), nil
}

// judgeSessions judges the new side against n sessions of the old side. runsOf returns a metric's old runs, by session.
func (b *comparisonState) judgeSessions(n int, runsOf func(*entry) [][][]float64) *Comparison {
	few := n < MinSessions
	for _, e := range b.entries { // metrics without a verdict need the spread for their interval
		e.session, e.assumed = b.o.spreadOf(e.Name)
	}
	for _, e := range b.testableEntries() { // skips stages that take no time: they have no spread
		centres := sessionCentres(runsOf(e))
		if sigma := stats.SessionSpread(centres).Sigma; sigma > b.spread {
			b.spread = sigma
		}
		if few || len(centres) < MinSessions {
			b.spread, b.assumed = max(b.spread, e.session), b.assumed || e.assumed
		} else {
			e.session, e.assumed = 0, false // the metric's own sessions give the spread
		}
	}
	if few && len(b.testableEntries()) == 0 {
		b.spread, b.assumed = b.o.spread(), true
	}
	b.warnLearned()
	b.order = runOrder(b.old, b.new)
	b.findTrends()
	b.findAlike(runsOf)
	level := alpha / float64(max(1, len(b.testableEntries())))
	b.measureEffects(func(e *entry) (stats.Effect, bool) {
		runs := runsOf(e)
		centres := sessionCentres(runs)
		spread := stats.SessionSpread(centres)
		if len(centres) < MinSessions {
			sigma := e.session
			if spread.Sigma > sigma { // false for the NaN of one session
				sigma = spread.Sigma
			}
			spread = stats.Spread{Sigma: sigma, Nu: math.Inf(1)}
		}
		return e.estimateUnpaired(runs, level, spread)
	})
	if b.kind == kindFiles {
		b.allowForTrends()
	}
	decideVerdicts(b.testableEntries(), 0, b.assumed && b.spread > 0)
	if b.kind == kindBaseline && b.assumed {
		b.addWarning("session-spread-assumed", fmt.Sprintf("the baseline holds %s, so a spread between sessions of %s is assumed", gpuprof.Plural(n, "session"), b.spreadText()),
			fmt.Sprintf("add %s with gpuprof history baseline add, set --session-spread, or measure both sides in one job with gate --against", gpuprof.Plural(max(1, MinSessions-n), "more session")))
	}
	b.warnOneMeasurement()
	return b.newComparison()
}

// warnOneMeasurement warns if both sides are the same measurement: a user may have given one file twice by mistake.
func (b *comparisonState) warnOneMeasurement() {
	for _, e := range b.entries {
		if e.result.Reason == oneMeasurement {
			b.addWarning("same-measurement", "the two sides hold the same samples: one measurement is compared with itself", "give a second measurement as NEW")
			return
		}
	}
}

// poolSessions joins a baseline's sessions into one Result: the runs of all sessions in order, and the counters of
// the latest. It also returns each metric's runs by session.
func poolSessions(sessions []*Result) (*Result, map[string][][][]float64) {
	latest := sessions[len(sessions)-1]
	out := joinParts(sessions)
	out.Source, out.Tool, out.Stages, out.Total = latest.Source, latest.Tool, latest.Stages, latest.Total
	out.Code = latest.Code
	out.RunInfo = nil
	for i := range out.Metrics {
		out.Metrics[i].Runs = nil
	}
	mine, by := indexByName(out), map[string][][][]float64{}
	for _, s := range sessions {
		out.RunInfo = append(out.RunInfo, s.RunInfo...)
		if s.Code[exposedRule] != latest.Code[exposedRule] {
			s = dropStages(s)
		}
		for _, d := range s.Metrics {
			by[d.Name] = append(by[d.Name], d.Runs)
			if m := mine[d.Name]; m.Exact {
				m.Runs, m.Digits = d.Runs, d.Digits // the latest session that has the counter
			} else {
				m.Runs = append(m.Runs, d.Runs...)
			}
		}
	}
	return out, by
}

// sessionCentres returns the logarithm of each session's median of run medians.
func sessionCentres(sessions [][][]float64) []float64 {
	var out []float64
	for _, runs := range sessions {
		kept := slices.DeleteFunc(slices.Clone(runs), func(r []float64) bool { return len(r) == 0 })
		if logs := stats.LogMedians(kept); len(logs) > 0 {
			out = append(out, stats.Median(logs))
		}
	}
	return out
}
