package bisect

import (
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/cli"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/judge"
	"github.com/gpuprof/gpuprof/internal/bisect"
	"github.com/gpuprof/gpuprof/internal/compare"
	"github.com/gpuprof/gpuprof/internal/stats"
	"github.com/gpuprof/gpuprof/workloads/measure"
)

// mostAlso limits how many metrics, besides the metric of the search, are stored with a quartet.
const mostAlso = 60

// Quartet implements bisect.Runner: it builds two commits and measures them in a quartet, four processes in the order
// old, new, new, old. For an exact counter, one process of the newer commit is enough.
func (r *quartetRunner) Quartet(commit, against int) (q bisect.Quartet, builds []bisect.Build, err error) {
	older := treeGood
	if against > 0 {
		older = treeParent
	}
	var sides [2]judge.Side
	for i, at := range [2]struct{ tree, commit int }{{older, against}, {treeCandidate, commit}} {
		if i == 0 && r.s.Exact {
			continue // do not build GOOD: s.Check has the value of its counter
		}
		r.bar.Show(measure.Progress{Phase: "building " + r.s.At(at.commit).Short(), Done: r.s.Spent(), Total: r.s.Options.BudgetS})
		var b []bisect.Build
		sides[i], b, err = r.buildCommit(at.tree, at.commit)
		if builds = append(builds, b...); err != nil {
			return q, builds, err
		}
	}
	r.bar.Show(measure.Progress{Phase: "measuring " + r.s.At(commit).Short(), Done: r.s.Spent(), Total: r.s.Options.BudgetS})
	if r.s.Exact {
		q, err = r.countOnce(sides[1], commit)
	} else {
		q, err = r.measureQuartet(sides, commit, against)
	}
	return q, builds, err
}

// measureQuartet measures two commits in four processes: old, new, new, old. It repeats them, at most twice, if too
// many samples of one commit are flagged as disturbed.
func (r *quartetRunner) measureQuartet(sides [2]judge.Side, commit, against int) (q bisect.Quartet, err error) {
	places := [2]int{against, commit}
	for attempt := 0; ; attempt++ {
		began := r.trees.clock()
		q = bisect.Quartet{Commit: commit, Against: against, StartS: float64(began.UnixMilli()) / 1000}
		var got [2][]*compare.Result
		for k, i := range [4]int{0, 1, 1, 0} {
			result, v, err := r.runOnce(sides[i], places[i])
			if err != nil {
				return q, r.unfitError(places[i], r.trees.clock().Sub(began), err)
			}
			q.Values[k], got[i] = gpuprof.Number(v), append(got[i], result)
		}
		q.Seconds, q.Also = r.trees.clock().Sub(began).Seconds(), listAlso(got, r.s.Metric)
		again, why := compare.Rerun(compare.Block{A: got[0][0], B: got[1][0], Attempt: attempt})
		if !again {
			again, why = compare.Rerun(compare.Block{A: got[0][1], B: got[1][1], Attempt: attempt})
		}
		if !again {
			return q, nil
		}
		r.run.App.Note("measuring %s again: %s", r.s.At(commit).Short(), why)
	}
}

func (r *quartetRunner) countOnce(s judge.Side, commit int) (bisect.Quartet, error) {
	began := r.trees.clock()
	q := bisect.Quartet{Commit: commit, StartS: float64(began.UnixMilli()) / 1000}
	_, v, err := r.runOnce(s, commit)
	if err != nil {
		return q, r.unfitError(commit, r.trees.clock().Sub(began), err)
	}
	old := r.s.Check[0].Values[0]
	q.Values, q.Seconds = [4]gpuprof.Number{old, gpuprof.Number(v), gpuprof.Number(v), old}, r.trees.clock().Sub(began).Seconds()
	return q, nil
}

// mostTries limits how often a failing process is tried. A program that never succeeded may always fail. Its third and
// later tries must therefore begin within the fraction newTriesPart of the budget.
const (
	mostTries    = 5
	newTriesPart = 0.05
)

// runOnce runs one process of a commit, up to mostTries times until one succeeds. It returns the result, and the median
// of the searched metric.
func (r *quartetRunner) runOnce(s judge.Side, commit int) (*compare.Result, float64, error) {
	result, err := r.m.Again(s, mostTries, r.s.Ran(commit))
	if err != nil {
		return nil, 0, err
	}
	v, err := medianOf(result, r.s.Metric)
	return result, v, err
}

func medianOf(r *compare.Result, name string) (float64, error) {
	m := r.Metric(name)
	if m == nil || len(m.Runs) == 0 || len(m.Runs[0]) == 0 {
		return 0, gpuprof.Errorf(gpuprof.ErrInput, "%s gave no %s", r.Source, name)
	}
	if r.Status != gpuprof.Complete {
		return 0, gpuprof.Errorf(gpuprof.ErrInput, "the result of %s is %s: %s", r.Source, r.Status, r.Reason)
	}
	v := stats.Median(m.Runs[0])
	if !gpuprof.IsFinite(v) || v <= 0 && !m.Exact {
		return 0, gpuprof.Errorf(gpuprof.ErrInput, "the %s of %s is %g, which has no ratio", name, r.Source, v)
	}
	return v, nil
}

// listAlso returns the other metrics, stages and counters, that both commits have. Their values are medians over the
// processes' medians.
func listAlso(got [2][]*compare.Result, metric string) []bisect.Also {
	var out []bisect.Also
	for _, m := range got[0][0].Metrics {
		if m.Name == metric || !m.Exact && !slices.Contains(got[0][0].Stages, m.Name) || len(out) == mostAlso {
			continue
		}
		old, ok1 := medianOver(got[0], m.Name)
		now, ok2 := medianOver(got[1], m.Name)
		if ok1 && ok2 {
			out = append(out, bisect.Also{Name: m.Name, Unit: m.Unit, Exact: m.Exact, Old: gpuprof.Number(old), New: gpuprof.Number(now)})
		}
	}
	return out
}

func medianOver(results []*compare.Result, name string) (float64, bool) {
	var all []float64
	for _, r := range results {
		if m := r.Metric(name); m != nil && len(m.Runs) > 0 && len(m.Runs[0]) > 0 {
			all = append(all, stats.Median(m.Runs[0]))
		}
	}
	return stats.Median(all), len(all) == len(results)
}

// checkPairs is the number of process pairs that compare GOOD with BAD: nine quartets of two pairs each. The size of
// the change and the noise of a quartet are estimated from these quartets.
const checkPairs = compare.Stage1Blocks + 12

// laterPairs limits the process pairs of each stage after the first in the comparison of GOOD with BAD. A change that
// needs more pairs would be too small for the search, which measures a commit in few quartets of four processes.
const laterPairs = 24

// checkEnds compares GOOD with BAD as gpuprof gate compares two builds. found reports whether BAD is slower. Otherwise
// there is nothing to search for, and s has the outcome.
func (c *Cmd) checkEnds(r *quartetRunner, s *bisect.Search) (found bool, err error) {
	began := r.trees.clock()
	var sides [2]judge.Side
	for i, at := range [2]struct{ tree, commit int }{{treeGood, 0}, {treeCandidate, s.N()}} {
		var b []bisect.Build
		if sides[i], b, err = r.buildCommit(at.tree, at.commit); err != nil {
			return false, err
		}
		sides[i].Name = [2]string{"GOOD, ", "BAD, "}[i] + sides[i].Name
		s.Builds = append(s.Builds, b...)
	}
	o := compare.Options{Seed: s.Options.Seed, Tool: s.Tool, Margins: compare.Margins{Threshold: s.Options.Threshold}}
	if s.Metric != "" {
		o.Only = []string{s.Metric}
	}
	swap := s.Options.Faster // with --faster, GOOD is expected to be slower than BAD
	if swap {
		slices.Reverse(sides[:])
	}
	r.m.Sides, r.m.Tries = sides, mostTries
	budget := max(time.Duration(s.Options.BudgetS*float64(time.Second))-r.trees.clock().Sub(began), 0)
	g := &judge.BlockRun{App: r.run.App, Source: r.m, Clock: r.trees.clock, Began: r.trees.clock(), Budget: budget, Most: laterPairs, Check: func(b compare.Block) error { return judge.CouldWork(b, o, nil) }}
	r.run.App.Note("comparing GOOD %s with BAD %s", s.Good.Short(), s.At(s.N()).Short())
	verdict, blocks, err := g.Judge(o)
	if err != nil {
		return false, r.endsError(err)
	}
	r.m.Prints = !r.m.Recorded && !r.m.Whole
	m := chooseMetric(verdict)
	if m != nil && !m.Exact && m.Verdict == compare.Regressed && len(blocks) < checkPairs {
		more, err := g.Blocks(checkPairs-len(blocks), 1, s.Options.Seed+16)
		if err != nil {
			return false, r.endsError(err)
		}
		blocks = append(blocks, more...)
	}
	if swap {
		for i, b := range blocks {
			blocks[i].A, blocks[i].B, blocks[i].BFirst = b.B, b.A, !b.BFirst
		}
	}
	if m != nil && len(blocks) > 0 {
		c.learnScatter(r, blocks[0].B, m.Name)
	}
	return c.beginSearch(s, m, verdict, blocks, r.trees.clock().Sub(g.Began).Seconds(), r.trees.clock().Unix())
}

// endsError adds a fix to the error of an interrupted comparison of GOOD with BAD. The first comparison stores no state
// before its end, so an interrupted one must be repeated. Other errors are unchanged.
func (r *quartetRunner) endsError(err error) error {
	if errors.Is(err, cli.ErrInterrupted) {
		fix := "begin again: a search is kept from the end of this comparison on"
		if len(r.s.Before) > 0 {
			fix = "go on with gpuprof bisect --resume"
		}
		return gpuprof.Errorf(nil, "comparing GOOD with BAD: %w", cli.ErrInterrupted).WithFix("%s", fix)
	}
	return err
}

// chooseMetric returns the metric to search by: the slower metric with the smallest p-value (adjusted for multiple
// tests), and an exact counter only if no timed metric is slower. If no metric is slower, it returns the one that comes
// closest; nil without metrics.
func chooseMetric(c *compare.Comparison) *compare.MetricResult {
	var best *compare.MetricResult
	rank := func(m *compare.MetricResult) [3]float64 {
		out := [3]float64{1, 0, min(float64(m.P), 1)}
		if !math.IsNaN(float64(m.PAdjusted)) {
			out[2] = float64(m.PAdjusted)
		}
		if m.Verdict == compare.Regressed {
			out[0] = 0
		}
		if m.Exact {
			out[1], out[2] = 1, -m.Worse()
		}
		if math.IsNaN(out[2]) {
			out[2] = 1
		}
		return out
	}
	for i := range c.Metrics {
		m := &c.Metrics[i]
		if m.Verdict == compare.Gone || m.Verdict == compare.Added || m.Verdict == compare.Explains {
			continue
		}
		if best == nil {
			best = m
			continue
		}
		if a, b := rank(m), rank(best); slices.Compare(a[:], b[:]) < 0 {
			best = m
		}
	}
	return best
}

// beginSearch fills a new search with the comparison of GOOD and BAD, which lasted took seconds and ended at the Unix
// time now. It returns false if there is nothing to search for.
func (c *Cmd) beginSearch(s *bisect.Search, m *compare.MetricResult, verdict *compare.Comparison, blocks []compare.Block, took float64, now int64) (bool, error) {
	if m == nil {
		return false, gpuprof.Errorf(gpuprof.ErrInput, "comparing GOOD with BAD: they have no metric in common").WithFix("see what the command prints at both")
	}
	s.Metric, s.Unit, s.Higher, s.Exact = m.Name, m.Unit, m.HigherIsBetter, m.Exact
	quartets := len(blocks) / 2
	for i := range quartets {
		one, two := blocks[2*i], blocks[2*i+1]
		q := bisect.Quartet{Commit: s.N(), StartS: float64(now) - took, Seconds: took / float64(quartets)}
		results := [2][]*compare.Result{{one.A, two.A}, {one.B, two.B}}
		for k, r := range [4]*compare.Result{one.A, one.B, two.B, two.A} {
			v, err := medianOf(r, s.Metric)
			if err != nil {
				return false, err
			}
			q.Values[k] = gpuprof.Number(v)
		}
		q.Also = listAlso(results, s.Metric)
		s.Check = append(s.Check, q)
	}
	if m.Verdict == compare.Regressed && quartets > 0 {
		return true, nil
	}
	result := bisect.Nothing
	if m.Verdict == compare.Inconclusive {
		result = bisect.Undecided
	}
	s.Outcome = &bisect.Outcome{Found: result, From: 1, To: s.N(), Effect: gpuprof.Number(math.NaN()), P: gpuprof.Number(math.NaN()), Part: gpuprof.Number(math.NaN()), CI95: [2]gpuprof.Number{gpuprof.Number(math.NaN()), gpuprof.Number(math.NaN())}, Why: c.explainNothing(s, m, verdict)}
	s.Status, s.Chances = gpuprof.Complete, nil
	return false, nil
}

// explainNothing returns why there is nothing to search for, as a clause for the user.
func (c *Cmd) explainNothing(s *bisect.Search, m *compare.MetricResult, verdict *compare.Comparison) string {
	word, other := "slower", "faster"
	back := m.Verdict == compare.Improved || m.Worse() < -s.Options.Threshold
	if s.Options.Faster {
		word, other = other, word
	}
	text := fmt.Sprintf("BAD is not found %s than GOOD by %.3g %%: %s is %s", word, 100*s.Options.Threshold, m.Name, m.Verdict)
	if m.Verdict == compare.Inconclusive {
		back = false // an inconclusive comparison does not show an improvement either
		text = fmt.Sprintf("whether BAD is %s than GOOD by %.3g %% in %s", word, 100*s.Options.Threshold, m.Name)
	}
	if m.Reason != "" {
		text += " (" + m.Reason + ")"
	}
	switch {
	case back && !s.Options.Faster:
		return fmt.Sprintf("BAD is %s than GOOD in %s; give --faster to find the commit that made it so", other, m.Name)
	case back:
		return fmt.Sprintf("BAD is %s than GOOD in %s; leave --faster out to find the commit that made it so", other, m.Name)
	case m.Verdict.Open() && len(verdict.Next) > 0:
		text += "; " + verdict.Next[0]
	case !math.IsNaN(float64(m.MDE)) && m.MDE > 0:
		text += fmt.Sprintf("; these data find a slowdown of %s (90 %% of the time)", gpuprof.FormatPercent(float64(m.MDE), 2))
	}
	return text
}

// learnScatter sets the spread between builds of equal code from the history that GPUPROF_STORE names. The history must
// have repeated measurements of commits, with the machine and the settings of the given result.
func (c *Cmd) learnScatter(r *quartetRunner, of *compare.Result, metric string) {
	if c.Scatter != nil || os.Getenv(judge.StoreVariable) == "" {
		return
	}
	learned, _, err := r.run.Learned("", of)
	if err != nil {
		r.run.App.Note("warning: the scatter between builds is assumed, since the store of %s cannot be used: %v", judge.StoreVariable, err)
		return
	}
	if v, ok := learned.Scatter[metric]; ok {
		r.s.Options.Scatter, r.s.Options.ScatterFrom = v, "history"
	}
}
