package tuneprogram

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/tune"
)

// Every run gets a time limit, so that it ends within the budget, less the time that is reserved for a confirmation.
// Only the time to end a stopped run's processes (child.Patience) can exceed the budget.

// Limits of one run.
const (
	slowdown   = 5                // a run's limit, in durations of a plain run
	longerThan = 60 * time.Second // added to this limit, but at most shareOfRun of the budget
	// shareOfRun is the largest part of the budget that is added to the limit of a run. It is shareOfSlow for a run whose
	// setting costs many seconds once.
	shareOfRun, shareOfSlow = 0.1, 0.25
)

// shareReserved is the largest part of the budget that is reserved for the confirmation before a gain is seen.
const shareReserved = 0.5

func shareOf(d time.Duration, share float64) time.Duration { return time.Duration(share * float64(d)) }

func convertSeconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// decidingBudget returns the budget by which the search decides whether there is time for more runs. While runs of a
// resumed search are replayed, it is at least the budget under which the next of them was made. With a smaller budget
// the search would stop before that run, and lose it.
func (e *engine) decidingBudget() time.Duration {
	if len(e.replay) == 0 {
		return e.Budget
	}
	return max(e.Budget, convertSeconds(e.replay[0].BudgetS))
}

// timeSpent returns the spent part of the budget. While runs of the resumed search are replayed it returns the value of
// that search, so that the search repeats its decisions.
func (e *engine) timeSpent() time.Duration {
	if len(e.replay) > 0 {
		return e.replayed
	}
	return e.timeNow()
}

// timeNow returns the spent part of the budget, including the time of the resumed search.
func (e *engine) timeNow() time.Duration { return e.before + e.Now().Sub(e.began) }

// timeOf returns the expected time of one run with s.
func (e *engine) timeOf(s Set) time.Duration {
	one, known := e.times[s.Key()]
	if !known {
		if one = e.times[""]; s.isSlow() {
			one += slowRun
		}
	}
	return one
}

// fitsBudget reports whether the given number of runs with s, plus others runs of the unchanged program, fit into the
// remaining budget without the reserved time.
func (e *engine) fitsBudget(runs, others int, s Set) bool {
	need := time.Duration(runs)*e.timeOf(s) + time.Duration(others)*e.times[""]
	return e.timeSpent()+need+e.reservedTime() <= e.decidingBudget()
}

// reservedTime returns the time that the present phase must leave for the confirmation. It is the time of a sign test,
// or of a first stage of the gate, whichever first takes at most shareReserved of the budget. Otherwise it is the time
// of the fewest pairs that can decide. Once a setting is promising, it is at least the time of a first stage, or of a
// sign test for a setting with a clear gain.
func (e *engine) reservedTime() time.Duration {
	if e.reserved == 0 {
		return 0
	}
	least, s := earlyPairs, Set(nil)
	if c := e.listCandidates(); len(c) > 0 {
		if least, s = gatePairs, (Set{c[0].Setting}); c[0].meanGain() > math.Log(leastMaskingSpeedup) {
			least = signTestPairs
		}
	}
	one := e.timeOf(s) + e.times[""]
	for _, pairs := range []int{signTestPairs, gatePairs} {
		if time.Duration(pairs)*one <= shareOf(e.decidingBudget(), shareReserved) {
			return time.Duration(max(min(pairs, e.reserved), least)) * one
		}
	}
	return time.Duration(least) * one
}

// limitRun returns the time limit of the next run with s, and whether the budget sets it. 0 means that no time is left.
func (e *engine) limitRun(s Set) (limit time.Duration, byBudget bool) {
	left := max(e.Budget-e.timeNow()-e.reservedTime(), 0)
	plain, known := e.times[""]
	if !known {
		return left, true
	}
	most := slowdown*plain + min(longerThan, shareOf(e.Budget, shareOfRun))
	if s.isSlow() {
		most += min(4*longerThan, shareOf(e.Budget, shareOfSlow))
	}
	return min(left, most), left <= most
}

// boundRun runs the program once, within the budget and the limit of a run. It returns errStarved if no time is left.
func (e *engine) boundRun(s Set, run func(limit time.Duration) (tune.ProgramRun, error)) (tune.ProgramRun, error) {
	limit, byBudget := e.limitRun(s)
	if limit <= 0 {
		return tune.ProgramRun{}, errStarved
	}
	r, err := run(limit)
	if r.Stopped != "" && byBudget {
		r.Stopped = tune.StopBudget
	}
	return r, err
}

// stopText returns why a run with settings was stopped and by how much it was slower at least; "" for other runs.
func (e *engine) stopText(s Set, r tune.ProgramRun) string {
	if r.Stopped == "" {
		return ""
	}
	text := "stopped by the time limit of a run"
	if r.Stopped == tune.StopBudget {
		text = "stopped by the budget"
	}
	text += " after " + gpuprof.FormatSeconds(r.Seconds)
	if least := e.leastSlowdown(s, r); least > 1 {
		text += fmt.Sprintf(": at least %.1f times slower", least)
	}
	return text
}

// leastSlowdown returns the factor by which a stopped run is at least slower than every plain run, rounded down to a
// tenth; 0 if unknown. It is unknown if a value of --try may have changed the work of a step, or if the program prints
// its time.
func (e *engine) leastSlowdown(s Set, r tune.ProgramRun) float64 {
	if r.AtLeast <= 0 || len(e.plain) == 0 || s.mostChange() == Users && e.p.Metric == tune.PerStep {
		return 0
	}
	slowest := 0.0
	for i := range e.plain {
		if e.plain[i].Printed {
			return 0
		}
		slowest = max(slowest, e.plain[i].Cost)
	}
	return math.Floor(10*r.AtLeast/slowest) / 10
}

// shortBudget replaces errStarved by the error of a budget without room for the first runs. Other errors are unchanged.
func (e *engine) shortBudget(err error) error {
	if !errors.Is(err, errStarved) {
		return err
	}
	return gpuprof.Errorf(gpuprof.ErrInput, "running the program as it is: the budget of %s ended before %s of it",
		e.Budget, gpuprof.Plural(1+plainRuns, "run")).WithFix("give more with --budget")
}
