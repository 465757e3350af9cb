package tuneprogram

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/stat"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/tune"
)

// listCandidates returns the settings whose pairs show a mean gain above promising: the largest gain first, one value
// per choice, at most mostCandidates.
func (e *engine) listCandidates() (out []*row) {
	for _, r := range e.rows {
		if r.failed == "" && r.worse == "" && len(r.gains) > 0 && r.meanGain() > math.Log(promising) {
			out = append(out, r)
		}
	}
	slices.SortStableFunc(out, func(a, b *row) int { return cmp.Compare(b.meanGain(), a.meanGain()) })
	return bestOfChoices(out)
}

// bestOfChoices keeps the first row of each choice, at most mostCandidates rows.
func bestOfChoices(rows []*row) []*row {
	had := map[string]bool{}
	rows = slices.DeleteFunc(rows, func(r *row) bool { again := had[r.choice()]; had[r.choice()] = true; return again })
	return rows[:min(len(rows), mostCandidates)]
}

// combineSettings adds the candidates one by one to a set and keeps each that makes the set faster. Then it compares
// the set with and without each setting, since a later setting may have made an earlier one useless.
func (e *engine) combineSettings() (Set, error) {
	c := e.listCandidates()
	if len(c) == 0 {
		return nil, nil
	}
	best, err := e.addRows(Set{c[0].Setting}, c[1:])
	if err != nil {
		return nil, err
	}
	masked, err := e.listMasked(best)
	if err != nil {
		return nil, err
	}
	if best, err = e.addRows(best, masked); err != nil {
		return nil, err
	}
	if len(best) == 1 {
		return best, nil
	}
	for _, s := range slices.Clone(best)[:len(best)-1] { // the last setting was just compared with the set without it
		gains, err := e.compareSets(best.dropChoice(s), best, "leaving one out")
		if err != nil {
			return nil, err
		}
		if len(best) > 1 && !isBetter(gains) {
			best = best.dropChoice(s)
		}
	}
	return best, nil
}

// addRows adds the settings of rows to a set one by one, and keeps each that makes the set faster.
func (e *engine) addRows(best Set, rows []*row) (Set, error) {
	for _, r := range rows {
		gains, err := e.compareSets(best, best.addSetting(r.Setting), "combining")
		if err != nil {
			return nil, err
		}
		if isBetter(gains) {
			best = best.addSetting(r.Setting)
		}
	}
	return best, nil
}

// decideSet confirms the best set by a gate on fresh pairs, or else the best single settings: at most mostFinalists
// sets in all.
func (e *engine) decideSet(best Set) error {
	finalists := []Set{}
	if len(best) > 0 {
		finalists = append(finalists, best)
	}
	for _, r := range e.listCandidates() {
		if one := (Set{r.Setting}); len(finalists) < mostFinalists && !slices.ContainsFunc(finalists,
			func(s Set) bool { return s.Key() == one.Key() }) {
			finalists = append(finalists, one)
		}
	}
	for _, s := range finalists {
		c, pairs, err := e.confirmSet(s)
		if err != nil {
			return err
		}
		e.out.Confirmations = append(e.out.Confirmations, c)
		if c.Confirmed {
			e.recommendSet(s, c, pairs)
			return nil
		}
	}
	return nil
}

const mostFinalists = 2

// recommendSet writes a confirmed set into the document, with its memory ratio, startup cost and worst loss check.
func (e *engine) recommendSet(s Set, c tune.Confirmation, pairs []pair) {
	var base, tuned []int64
	var startup []float64
	energy, worst := energies{}, tune.LossCheck{}
	for _, p := range pairs {
		if p.base.Memory > 0 && p.tuned.Memory > 0 {
			base, tuned = append(base, p.base.Memory), append(tuned, p.tuned.Memory)
		}
		energy.add(p.tuned, p.base)
		startup = append(startup, p.tuned.StartupS-p.base.StartupS)
		if check := checkLosses(e.plain[0], p.tuned, e.own, s.mostChange(), e.MaxError); rankOf(check) > rankOf(worst) {
			worst = check
		}
	}
	e.p.Patch = s.Lines()
	r := &tune.Recommended{Knobs: c.Knobs, Command: e.commandWith(s), Ratio: c.Ratio, CI95: c.CI95,
		TimeRatio: tune.FiniteOrZero(1 / c.Ratio), Processes: c.Processes, Confirmed: true,
		MemoryRatio: medianMemory(base, tuned), PyTorch: s.Lines(), OneTime: map[string]float64{}}
	r.Joules, r.EnergyRatio = energy.means()
	if once := stat.Mean(startup, nil); once > 0 && s.isSlow() {
		r.OneTime["setup_s"] = once
		if saved := e.plain[0].Cost * (1 - 1/c.Ratio); saved > 0 {
			r.PaybackSteps = math.Ceil(once / saved)
		}
	}
	r.Text = fmt.Sprintf("%s: x%.2f faster (95 %% interval %.2f to %.2f) in %d fresh processes, losses: %s",
		s.Key(), c.Ratio, c.CI95[0], c.CI95[1], c.Processes, worst.Text())
	if worst.Verdict == tune.Incomparable {
		r.Text += "; two runs of the program as it is differ as well, so seed it to have its losses compared"
	}
	e.out.Recommended = r
	e.out.Conclusion = tune.Conclusion{Verdict: tune.Recommends, Text: r.Text, Command: r.Command}
}

// commandWith returns the command line with the environment variables and --try values of a set. It leaves out lines
// of code, which the document has as a patch.
func (e *engine) commandWith(s Set) string {
	var parts []string
	for _, one := range s {
		if one.Change == Users {
			for _, kv := range one.Env {
				parts = append(parts, gpuprof.ShellWord(kv))
			}
		}
	}
	words := map[string]string{}
	for _, t := range e.Tries {
		maps.Copy(words, t.startValues())
	}
	maps.Copy(words, s.arguments())
	for _, word := range fillPlaceholders(e.p.Command, words) {
		parts = append(parts, gpuprof.ShellWord(word))
	}
	return strings.Join(parts, " ")
}

// finishResult completes the document. err is the error that ended the search, or nil.
func (e *engine) finishResult(err error) *tune.Result {
	e.out.SpentS = e.timeSpent().Seconds()
	e.out.Effects = []tune.Effect{}
	for _, r := range e.rows {
		e.out.Effects = append(e.out.Effects, e.makeEffect(r))
	}
	e.p.Findings = e.findingGains()
	e.setDefault()
	if err != nil {
		e.out.Status, e.out.Reason = gpuprof.Partial, interruptedText(err)
		return e.out
	}
	e.out.Status, e.out.Reason = gpuprof.Complete, ""
	if e.out.Recommended == nil {
		e.writeConclusion()
	}
	return e.out
}

// makeEffect returns a setting's row of the result. The row has a ratio if the setting has leastForInterval pairs.
func (e *engine) makeEffect(r *row) tune.Effect {
	f := tune.Effect{Knob: r.Knob, From: r.From, To: r.Value, Verdict: tune.Inconclusive, Pairs: len(r.gains),
		PyTorch: r.Line, Losses: r.losses}
	var plain []int64
	for _, run := range e.plain {
		plain = append(plain, run.Memory)
	}
	f.MemoryRatio = medianMemory(plain, r.memory)
	f.Joules, f.EnergyRatio = r.energy.means()
	switch {
	case r.failed != "":
		f.Verdict, f.Reason = tune.Failed, r.failed
		return f
	case r.worse != "":
		f.Verdict, f.Reason = tune.Refused, r.worse
		return f
	case r.stopped != "" && len(r.gains) == 0:
		f.Verdict, f.Reason = tune.Stopped, r.stopped
		return f
	case len(r.gains) == 0:
		f.Reason = "the budget left no time for it"
		return f
	case len(r.gains) < leastForInterval:
		f.Reason = strings.Replace("not faster in its first "+gpuprof.Plural(len(r.gains), "pair"), " 1 pair", " pair", 1)
		if r.meanGain() > math.Log(promising) {
			f.Reason = "too few pairs for a figure"
		}
		return f
	}
	f.Ratio, f.CI95 = estimateRatio(r.gains)
	f.CPURatio = tune.FiniteOrZero(math.Exp(stat.Mean(r.cpu, nil)))
	switch {
	case f.CI95[0] > 1:
		f.Verdict = tune.Faster
	case f.CI95[1] > 0 && f.CI95[1] < 1:
		f.Verdict = tune.Slower
	}
	return f
}

func (e *engine) writeConclusion() {
	c := &e.out.Conclusion
	c.Verdict, c.Command = tune.Undecided, e.commandWith(nil)
	untried, stopped := 0, 0
	for _, r := range e.rows {
		switch {
		case r.failed != "" || r.worse != "" || len(r.gains) > 0:
		case r.stopped != "":
			stopped++
		default:
			untried++
		}
	}
	switch {
	case len(e.rows) == 0:
		c.Verdict, c.Text = tune.DefaultBest, "nothing recommended: no setting of the table applies to this program"
	case len(e.out.Confirmations) > 0:
		c.Verdict = tune.Unconfirmed
		var parts []string
		for _, f := range e.out.Confirmations {
			parts = append(parts, fmt.Sprintf("%s was not confirmed: %s", tune.DescribeSettings(f.Knobs), f.Reason))
		}
		c.Text = "nothing recommended: " + strings.Join(parts, "; ")
	case untried == len(e.rows):
		c.Text = fmt.Sprintf("nothing recommended: the budget of %s left no time to try any of %d settings", e.Budget,
			len(e.rows))
	default:
		c.Text = fmt.Sprintf("nothing recommended: of %d settings that apply, none was faster by more than %.0f %%",
			len(e.rows), 100*(promising-1))
	}
	if untried > 0 && untried < len(e.rows) {
		c.Text += fmt.Sprintf("; %d had no time", untried)
	}
	if stopped > 0 {
		c.Text += fmt.Sprintf("; %s took too long and came to no figure", gpuprof.Plural(stopped, "setting"))
	}
	if untried > 0 {
		c.Text += "; give more with --budget"
	}
}
