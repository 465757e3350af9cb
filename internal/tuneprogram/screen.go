package tuneprogram

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"

	"github.com/gpuprof/gpuprof/internal/tune"
)

// screenSettings measures each setting between two runs of the unchanged program, in up to three passes. A setting
// that fails, is clearly slower or changes the training gets no further pass. The screening publishes no ratio from
// fewer than three pairs: single pairs show gains that do not exist. If no setting is promising in the end, the time
// that was reserved for its confirmation is used too.
func (e *engine) screenSettings() error {
	e.sortRows()
	if err := e.screenPasses(); err != nil || len(e.listCandidates()) > 0 {
		return err
	}
	e.reserved = earlyPairs
	return e.screenPasses()
}

func (e *engine) screenPasses() error {
	for range passes {
		promised := len(e.listCandidates()) > 0
		live := slices.DeleteFunc(slices.Clone(e.rows), func(r *row) bool {
			return !r.needsPair() || len(r.gains) > 0 && !promised
		})
		if len(live) == 0 {
			return nil
		}
		slices.SortStableFunc(live, func(a, b *row) int { return cmp.Compare(b.expectedGain(), a.expectedGain()) })
		before := e.plain[len(e.plain)-1]
		for _, r := range live {
			if !e.fitsBudget(1, 1, Set{r.Setting}) {
				continue // a cheaper setting may fit
			}
			after, err := e.measureBetween(r, before)
			if err != nil {
				return err
			}
			before = after
		}
	}
	return nil
}

// sortRows orders the settings for the first pass: first the settings that findings name, by the share of the step that
// the findings claim. Slow settings follow fast ones. Settings that blocks measured without a decision are last.
func (e *engine) sortRows() {
	slices.SortStableFunc(e.rows, func(a, b *row) int {
		return cmp.Or(cmp.Compare(b.claim, a.claim), cmp.Compare(btoi(a.Slow), btoi(b.Slow)),
			cmp.Compare(btoi(a.undecided), btoi(b.undecided)))
	})
}

// expectedGain returns the natural logarithm of the setting's expected speedup: the measured one, or before the first
// pair the largest one that a finding allows.
func (r *row) expectedGain() float64 {
	if len(r.gains) > 0 {
		return r.meanGain()
	}
	return -math.Log1p(-r.claim)
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// needsPair reports whether another pair of a setting may be worth its time.
func (r *row) needsPair() bool {
	if r.failed != "" || r.worse != "" || r.stopped != "" {
		return false
	}
	if r.switched {
		return r.losses == nil && r.meanGain() > math.Log(promising)
	}
	return len(r.gains) == 0 || len(r.gains) < passes && r.meanGain() >= math.Log(hopeless) &&
		(len(r.gains) == 1 || r.meanGain() > math.Log(promising))
}

func (r *row) meanGain() float64 { return stat.Mean(r.gains, nil) }

// measureBetween runs a setting, then the unchanged program again. The gain is relative to the geometric mean of the
// unchanged runs before and after.
func (e *engine) measureBetween(r *row, before tune.ProgramRun) (after tune.ProgramRun, err error) {
	tuned, err := e.runProgram(Set{r.Setting}, "screening")
	if err != nil {
		return before, err
	}
	if r.stopped = e.stopText(Set{r.Setting}, tuned); r.stopped != "" {
		e.addFailure(Set{r.Setting}, r.stopped)
		return before, nil
	}
	if tuned.Failed != "" {
		r.failed = tuned.Failed
		e.addFailure(Set{r.Setting}, tuned.Failed)
		return before, nil
	}
	if why := e.tookHold(r.Setting, tuned); why != "" {
		r.failed = why
		e.addFailure(Set{r.Setting}, why)
		return before, nil
	}
	if after, err = e.plainRun("screening"); err != nil {
		return before, err
	}
	if base := math.Sqrt(before.Cost) * math.Sqrt(after.Cost); !r.switched {
		r.gains = append(r.gains, math.Log(base/tuned.Cost))
	}
	if baseCPU := math.Sqrt(before.CPU) * math.Sqrt(after.CPU); baseCPU > 0 && tuned.CPU > 0 {
		r.cpu = append(r.cpu, math.Log(tuned.CPU/baseCPU))
	}
	r.energy.add(tuned, before, after)
	r.startup = append(r.startup, tuned.StartupS-(before.StartupS+after.StartupS)/2)
	if tuned.Hook != nil {
		r.graphs = [2]int{tuned.Hook.Seen.Graphs, tuned.Hook.Seen.GraphBreaks}
	}
	return after, e.checkRow(r, tuned)
}

// checkRow records memory and losses of a run with one setting, and marks the setting worse if its losses changed.
func (e *engine) checkRow(r *row, tuned tune.ProgramRun) error {
	if tuned.Memory > 0 {
		r.memory = append(r.memory, tuned.Memory)
	}
	check, err := e.sameTraining(Set{r.Setting}, tuned)
	if err != nil {
		return err
	}
	if r.losses == nil || rankOf(check) > rankOf(*r.losses) {
		r.losses = &check
	}
	if check.Verdict == tune.Changed && r.Change != Users {
		r.worse = "it changes the training: the losses differ by more than " + e.allowedText(r.Change)
	}
	return nil
}

// rankOf orders loss checks: a higher rank is stronger evidence against the setting.
func rankOf(c tune.LossCheck) float64 {
	order := []tune.Same{tune.NotChecked, tune.SameBits, tune.Within, tune.Incomparable, tune.Changed}
	return float64(slices.Index(order, c.Verdict)) + math.Min(math.Abs(c.Deviation), 1)/2
}

func (e *engine) allowedText(c Change) string {
	if c == Exact {
		return "those of two runs of the program as it is"
	}
	return "--max-error"
}

// sameTraining compares a run's losses with the unchanged program's. A compiled model draws other random numbers: if
// its losses differ, a second, slower run with fallback_random draws the original ones, only for this comparison.
func (e *engine) sameTraining(s Set, tuned tune.ProgramRun) (tune.LossCheck, error) {
	check := checkLosses(e.plain[0], tuned, e.own, s.mostChange(), e.MaxError)
	if check.Verdict != tune.Changed || !s.compilesModel() || !e.fitsBudget(1, 0, s) {
		return check, nil
	}
	drawn := slices.Clone(s)
	drawn = append(drawn, Setting{Knob: "fallback_random", Value: "on",
		Hook: map[string]any{"fallback_random": true}, Slow: true})
	r, err := e.runProgram(drawn, "comparing losses")
	if errors.Is(err, errStarved) || err == nil && !r.IsMeasured() {
		return check, nil
	}
	if err != nil {
		return check, err
	}
	return checkLosses(e.plain[0], r, e.own, s.mostChange(), e.MaxError), nil
}

// plainRun runs the unchanged program and returns an error if the program fails.
func (e *engine) plainRun(phase string) (tune.ProgramRun, error) {
	r, err := e.runProgram(nil, phase)
	if err != nil {
		return r, err
	}
	if !r.IsMeasured() {
		return r, e.brokenError(r)
	}
	e.plain = append(e.plain, r)
	if len(e.plain) <= lossRuns {
		e.own = checkRepeats(e.plain, e.MaxError)
		e.p.Losses = e.own
	}
	return r, nil
}

// lossRuns is the number of runs of the unchanged program from which the deviation of its losses is taken.
const lossRuns = 4

// tookHold returns the reason why a setting did not take effect in a run; "" if it took effect or this is unknown.
func (e *engine) tookHold(s Setting, r tune.ProgramRun) string {
	if len(s.Hook) == 0 || r.Hook == nil {
		return ""
	}
	for what, why := range r.Hook.Refused {
		if e.plain[0].Hook.Refused[what] == "" { // else the hook refused it for the unchanged program too
			return what + ": " + why
		}
	}
	if len(r.Took) == 0 {
		return "it did not take hold: the program sets it in a way that the hook does not see"
	}
	return ""
}

// compareSets runs two sets alternately until the gain is clear or additionPairs pairs have run; base is expected to
// be slower. If one process can switch between the sets, it needs no fresh processes.
func (e *engine) compareSets(base, tuned Set, phase string) (gains []float64, err error) {
	if gains, err = e.switchedGains(base, tuned, phase); err != nil || gains != nil {
		return gains, err
	}
	for k := range additionPairs {
		if !e.fitsBudget(1, 1, tuned) {
			return gains, nil
		}
		p, err := e.runPair(base, tuned, k%2 == 1, phase)
		if errors.Is(err, errFailed) {
			return nil, nil // the settings fail together, or their run was stopped
		}
		if errors.Is(err, errStarved) {
			return gains, nil
		}
		if err != nil {
			return gains, err
		}
		gains = append(gains, p.logGain())
		if isBetter(gains) || k >= 1 && stat.Mean(gains, nil) < 0 {
			break
		}
	}
	return gains, nil
}

// errFailed is the error of a run with settings that failed, or that the time limit of a run stopped.
var errFailed = errors.New("a fresh process came to no figure")

// runPair runs two sets in two fresh processes, one after the other in the given order.
func (e *engine) runPair(base, tuned Set, tunedFirst bool, phase string) (p pair, err error) {
	p.tunedFirst = tunedFirst
	order := []Set{base, tuned}
	if tunedFirst {
		slices.Reverse(order)
	}
	for _, s := range order {
		var r tune.ProgramRun
		if len(s) == 0 {
			r, err = e.plainRun(phase)
		} else {
			r, err = e.runProgram(s, phase)
		}
		if err != nil {
			return p, err
		}
		if r.Stopped == tune.StopBudget {
			return p, errStarved
		}
		if why := cmp.Or(r.Failed, e.stopText(s, r)); why != "" {
			e.addFailure(s, why)
			return p, fmt.Errorf("%w: %s", errFailed, why)
		}
		if s.Key() == tuned.Key() {
			p.tuned = r
		} else {
			p.base = r
		}
	}
	return p, nil
}
