package bisect

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/cli"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/judge"
	"github.com/gpuprof/gpuprof/internal/bisect"
	"github.com/gpuprof/gpuprof/internal/compare"
)

// A resumed search that paused for pauseS seconds or more first measures GOOD against BAD again, in pauseQuartets
// quartets of four processes.
const (
	pauseS        = 24 * 3600.0
	pauseQuartets = 2
)

// search begins a search or continues the stored one. The state is nil if there is nothing to report.
func (c *Cmd) search(run judge.Children, repo *repository, k *stateFile) (state *searchState, err error) {
	if c.Resume {
		if state, err = c.loadResumed(run, k); err != nil {
			return nil, err
		}
	} else {
		span, err := c.listRange(repo, c.Args[0])
		if err != nil {
			return nil, err
		}
		state = c.newState(run, repo, span)
	}
	if state.Again.Workload != "" && state.Again.How.Device == "auto" { // choose once for all commits
		d, err := run.App.ChoosePlainly("auto", "bisect")
		if err != nil {
			return nil, err
		}
		state.Again.How.Device = d.Name
	}
	trees, err := newTrees(run, repo, &state.Again)
	if err != nil {
		return nil, err
	}
	defer trees.room.Close()
	r := newQuartetRunner(trees, &state.Search)
	for {
		over, err := c.searchRange(r, k, state)
		if err != nil || over {
			return c.stopSearch(state, err)
		}
		more, err := c.searchMerge(repo, state)
		if err != nil {
			return c.stopSearch(state, err)
		}
		if !more && !c.searchRest(state) {
			return state, nil
		}
		if err := k.save(state); err != nil {
			return nil, err
		}
	}
}

// loadResumed loads the stored search. It refuses one that has ended, and one of another range, command or machine.
func (c *Cmd) loadResumed(run judge.Children, k *stateFile) (*searchState, error) {
	state, err := k.load()
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(state.Kept, &state.Again); err != nil {
		return nil, gpuprof.Errorf(gpuprof.ErrInput, "reading %s: it does not hold how to measure: %w", k.path, err).WithFix("give the file that gpuprof bisect keeps, not one of -o")
	}
	if err := c.checkKept(run, state); err != nil {
		return nil, err
	}
	if o := state.Outcome; o != nil && o.Found != bisect.Open {
		return nil, gpuprof.Errorf(gpuprof.ErrUsage, "going on with the search of %s: it has ended", state.Range).WithFix("print it with gpuprof bisect --show, or begin another")
	}
	state.Outcome, state.Status, state.Reason = nil, gpuprof.Partial, ""
	if c.Budget > 0 {
		state.Options.BudgetS = c.Budget.Seconds()
	}
	if c.Confidence != nil {
		state.Options.Confidence = float64(*c.Confidence)
	}
	return state, nil
}

// searchRange compares GOOD with BAD, and then searches the commits between them. over reports that nothing is left to
// search.
func (c *Cmd) searchRange(r *quartetRunner, k *stateFile, state *searchState) (over bool, err error) {
	s := &state.Search
	save := func() error { return k.save(state) }
	if len(s.Check) == 0 {
		found, err := c.checkEnds(r, s)
		if err != nil {
			return false, err
		}
		state.Again.Prints, state.Again.Whole = r.m.Prints, r.m.Whole
		if err := save(); err != nil || !found {
			return true, err
		}
	} else {
		r.m.Prints, r.m.Whole = state.Again.Prints, state.Again.Whole
		r.m.Recorded = !r.m.Prints && !r.m.Whole
		if err := c.repeatEnds(r, s); err != nil {
			return false, err
		}
	}
	if c.Plan {
		p := s.Expect()
		r.run.App.Note("expected: %s, %s, about %s; %.0f %% of such searches name a commit within the budget; go on with gpuprof bisect --resume",
			gpuprof.Plural(int(p.Builds+0.5), "build"), gpuprof.Plural(int(p.Quartets+0.5), "quartet"), compare.Lasting(p.Seconds), 100*p.Ended)
		return true, nil
	}
	bar := r.run.App.NewProgress("bisect")
	defer bar.Close()
	r.bar = bar
	return false, s.Run(r, save)
}

// repeatEnds measures GOOD and BAD again after a long pause, in which the machine may have changed.
func (c *Cmd) repeatEnds(r *quartetRunner, s *bisect.Search) error {
	last := 0.0
	for _, q := range slices.Concat(s.Check, s.Quartet) {
		last = max(last, q.StartS+q.Seconds)
	}
	if s.Exact || float64(r.trees.clock().Unix())-last < pauseS {
		return nil
	}
	r.run.App.Note("the search paused for a day or more: GOOD and BAD are measured again first")
	for range pauseQuartets {
		q, builds, err := r.Quartet(s.N(), 0)
		s.Builds = append(s.Builds, builds...)
		if err != nil {
			return err
		}
		s.Check = append(s.Check, q)
	}
	return nil
}

// searchRest prepares, with --all, a search for the part of the change that the found commit does not explain. It
// returns false if the commit explains all of it.
func (c *Cmd) searchRest(state *searchState) bool {
	o := state.Outcome
	if !state.Options.All || o == nil || o.Rest == nil || o.Found == bisect.Open {
		return false
	}
	next := nextSearch(&state.Search, state.At(o.Rest.From-1), state.Commits[o.Rest.From-1:o.Rest.To])
	for _, f := range state.Failed {
		if f.Commit >= o.Rest.From && f.Commit < o.Rest.To {
			next.Failed = append(next.Failed, bisect.Failure{Commit: f.Commit - o.Rest.From + 1, Why: f.Why})
		}
	}
	state.Search = next
	return true
}

// nextSearch returns the search that follows s, which found a commit. It searches other commits, in the time that s
// left of the budget.
func nextSearch(s *bisect.Search, good bisect.Commit, commits []bisect.Commit) bisect.Search {
	next, o := *s, s.Outcome
	next.Before = append(next.Before, bisect.Earlier{Commit: s.At(o.To), P: o.P, Effect: o.Effect, CI95: o.CI95})
	next.Good, next.Commits = good, commits
	next.Options.BudgetS -= s.Spent()
	next.Check, next.Quartet, next.After, next.Chances, next.Outcome, next.Pending = nil, nil, nil, nil, nil, nil
	next.Builds, next.Failed, next.Status = []bisect.Build{}, []bisect.Failure{}, gpuprof.Partial
	return next
}

// searchMerge prepares, with --all-parents, a search of the branch that the found commit merged, and reports whether
// there is one. GOOD of that search is the commit at which the branch began: the branch lacks later changes of the main
// branch.
func (c *Cmd) searchMerge(r *repository, state *searchState) (bool, error) {
	o := state.Outcome
	if !state.Options.AllParents || o == nil || o.Found != bisect.Culprit || !state.At(o.To).Merge {
		return false, nil
	}
	good, commits, err := r.listMerged(state.At(o.To).ID)
	if err != nil || len(commits) == 0 {
		return false, err
	}
	state.Search = nextSearch(&state.Search, good, commits)
	return true, nil
}

func (c *Cmd) stopSearch(state *searchState, err error) (*searchState, error) {
	switch {
	case err == nil && c.Plan && state.Outcome == nil:
		return nil, nil
	case err == nil:
		return state, nil
	case len(state.Check) == 0:
		return nil, err
	}
	state.Chances, state.Reason = state.Believed(), cli.Sentence(err)
	if errors.Is(err, cli.ErrInterrupted) {
		err = gpuprof.Errorf(nil, "searching %s: %w", state.Range, cli.ErrInterrupted).WithFix("go on with gpuprof bisect --resume")
	}
	return state, err
}

// quartetRunner implements bisect.Runner: it builds commits and measures them.
type quartetRunner struct {
	run   judge.Children
	trees *workTrees
	s     *bisect.Search
	m     *judge.ProcessPairs
	bar   *cli.Progress
	began time.Time
}

func newQuartetRunner(trees *workTrees, s *bisect.Search) *quartetRunner {
	budget := time.Duration(s.Options.BudgetS * float64(time.Second))
	r := &quartetRunner{run: trees.run, trees: trees, s: s, bar: &cli.Progress{}, began: trees.clock()}
	r.m = &judge.ProcessPairs{Run: trees.run, Budget: budget, NewTries: time.Duration(newTriesPart * float64(budget))}
	r.m.Patience = func() time.Duration {
		return judge.LimitOf(r.run.App, budget, r.trees.clock().Sub(r.began), r.m.Longest)
	}
	return r
}

// buildCommit builds a commit in one of the checkouts. A failed build of GOOD or BAD ends the search; the error of any
// other commit is a *bisect.Unfit.
func (r *quartetRunner) buildCommit(tree, commit int) (judge.Side, []bisect.Build, error) {
	at := r.s.At(commit)
	built, cached, took, err := r.trees.prepareTree(tree, at)
	if err != nil {
		return judge.Side{}, nil, r.unfitError(commit, took, err)
	}
	s, err := r.trees.makeSide(tree, at)
	if err != nil || !built {
		return s, nil, err
	}
	return s, []bisect.Build{{Commit: commit, Seconds: took.Seconds(), Cached: cached}}, nil
}

// unfitError converts the error of building or measuring a commit. For GOOD, BAD and an interrupt it ends the search;
// otherwise it is a *bisect.Unfit, and the search leaves the commit out.
func (r *quartetRunner) unfitError(commit int, took time.Duration, err error) error {
	switch {
	case errors.Is(err, cli.ErrInterrupted):
		return err
	case commit == 0 || commit == r.s.N():
		name := "GOOD"
		if commit > 0 {
			name = "BAD"
		}
		fix := "both ends of the range must build and run: correct --build or the command, or choose another range"
		if len(r.s.Check) > 0 {
			fix = "it ran before: see why it fails now, then go on with gpuprof bisect --resume"
		}
		return gpuprof.Errorf(gpuprof.ErrInput, "measuring %s, %s: %w", name, r.s.At(commit).Short(), err).WithFix("%s", fix)
	}
	return &bisect.Unfit{Commit: commit, Seconds: took.Seconds(), Cause: fmt.Errorf("%s", cli.Sentence(err))}
}
