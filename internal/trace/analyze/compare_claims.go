package analyze

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/gpuprof/gpuprof"
)

const (
	// A claim is the most time that a finding expects to save. It came true if the classes and idle states that it
	// covers became shorter by claim/claimSlack or more.
	claimSlack = 1.35
	// A finding that both analyses have is "smaller" if the new claim per step is below changedLess times the old claim,
	// and "larger" if it is above changedMore times the old claim.
	changedLess = 0.8
	changedMore = 1.25
	notTried    = "not tried"
	// A claim covers a class or idle state if at least this share of the claimed time is in that class or state.
	leastPartShare = 0.05
)

type ruleClaim struct {
	ns    int64 // claimed per step
	rare  int64 // Finding.RareNS
	parts []string
}

// claimsOf returns the claimed saving of each rule per step. If several inputs have a finding of the rule, the largest
// claim counts.
func claimsOf(a *Analysis) map[string]ruleClaim {
	out := map[string]ruleClaim{}
	for i := range a.Findings {
		f := &a.Findings[i]
		if had, ok := out[f.Rule]; ok && (had.ns > f.StepNS || had.ns == f.StepNS && had.rare >= f.RareNS) {
			continue
		}
		c := ruleClaim{ns: f.StepNS, rare: f.RareNS}
		for _, part := range slices.Sorted(maps.Keys(f.Parts)) {
			if float64(f.Parts[part]) >= leastPartShare*float64(f.StepNS) {
				c.parts = append(c.parts, part)
			}
		}
		out[f.Rule] = c
	}
	return out
}

// compareSettings lists in c.Settings the settings with different values before and after. It returns each change under
// the ids of the rules that advise to change the setting.
func (c *Comparison) compareSettings() (made map[string]SettingChange) {
	made = map[string]SettingChange{}
	if c.Old.Recording == nil || c.New.Recording == nil {
		return made
	}
	for _, was := range c.Old.Recording.Settings {
		for _, is := range c.New.Recording.Settings {
			if was.Name != is.Name || was.Value == is.Value {
				continue
			}
			change := SettingChange{was.Name, was.Value, is.Value}
			c.Settings = append(c.Settings, change)
			for _, rule := range was.Rules {
				made[rule] = change
			}
		}
	}
	return made
}

func (c *Comparison) compareFindings(rules []string, made map[string]SettingChange) {
	old, now := claimsOf(c.Old), claimsOf(c.New)
	for _, id := range rules {
		was, had := old[id]
		is, has := now[id]
		if !had && !has {
			continue
		}
		c.Findings = append(c.Findings, FindingChange{
			Rule: id, OldNS: was.ns, NewNS: is.ns, OldRareNS: was.rare, NewRareNS: is.rare,
			Parts: was.parts, SavedNS: c.StepOldNS - c.StepNewNS,
			Outcome: nameOutcome(had, has, cmp.Or(was.ns, was.rare), cmp.Or(is.ns, is.rare)),
		})
	}
	for i := range c.Findings {
		f := &c.Findings[i]
		if f.OldNS == 0 && f.NewNS == 0 && f.OldRareNS+f.NewRareNS > 0 {
			f.CameTrue, f.Statement = notTried, f.rareText()
			continue
		}
		_, changed := made[f.Rule]
		if f.OldNS > 0 && c.Comparable() {
			f.measureDelivered(c)
		}
		f.judgeClaim(c, changed, c.sumTriedClaims(f))
	}
	untested := func(f FindingChange) bool { return f.CameTrue == notTried }
	tested := slices.DeleteFunc(slices.Clone(c.Findings), untested)
	others := slices.DeleteFunc(slices.Clone(c.Findings), func(f FindingChange) bool { return !untested(f) })
	c.Findings = slices.Concat(tested, others)
}

// sumTriedClaims returns the sum of the claims, ns, of all tested findings that cover a class or idle state of f. A
// finding is tested if it is gone or smaller after the change.
func (c *Comparison) sumTriedClaims(f *FindingChange) (ns int64) {
	for i := range c.Findings {
		g := &c.Findings[i]
		shared := len(f.Parts) == 0 || len(g.Parts) == 0 || slices.ContainsFunc(g.Parts, func(p string) bool { return slices.Contains(f.Parts, p) })
		if g.wasTried() && shared {
			ns += g.OldNS
		}
	}
	return ns
}

// nameOutcome names the change of a finding. had and has report whether it was found before and after the change. was
// and is are the claims before and after, ns, or Finding.RareNS if no time was claimed.
func nameOutcome(had, has bool, was, is int64) string {
	switch {
	case !has:
		return "gone"
	case !had:
		return "new"
	case float64(is) < changedLess*float64(was):
		return "smaller"
	case float64(is) > changedMore*float64(was):
		return "larger"
	}
	return "unchanged"
}

func (f *FindingChange) wasTried() bool {
	return f.OldNS > 0 && (f.Outcome == "gone" || f.Outcome == "smaller")
}

// judgeClaim compares the claim before the change with the measured reduction of the classes and idle states that it
// covers. settingChanged reports that a setting changed to which the finding refers. tried is the sum of the claims of
// all tested findings on the same classes and states, ns.
func (f *FindingChange) judgeClaim(c *Comparison, settingChanged bool, tried int64) {
	claim, got := f.OldNS, f.DeliveredNS
	unit, delivered := PerStepWord(c.Old.Step.Count > 0), f.deliveredText(c)
	judge := func(cameTrue, format string, args ...any) {
		f.CameTrue, f.Statement = cameTrue, f.Rule+fmt.Sprintf(format, args...)
	}
	claimed := fmt.Sprintf("up to %s %s", gpuprof.FormatNS(claim), unit)
	noise := int64(0)
	if f.HighNS != nil {
		noise = *f.HighNS - got
	}
	switch {
	case f.Outcome == "new":
		judge(notTried, " is new and claims up to %s %s", gpuprof.FormatNS(f.NewNS), PerStepWord(c.New.Step.Count > 0))
	case claim == 0:
		judge(notTried, " is %s; it had claimed no time", f.Outcome)
	case !f.wasTried() && !settingChanged:
		judge(notTried, " is %s, so its claim was not tested: %s before, %s now", f.Outcome, claimed, gpuprof.FormatNS(f.NewNS))
	case !c.Comparable():
		judge("unknown", " is %s; whether its claim of %s came true is unknown: one side has no steps", f.Outcome, claimed)
	case f.HighNS == nil:
		judge("unknown", " is %s; %s of %s claimed, but one step on a side does not tell a change from noise", f.Outcome, delivered, claimed)
	case got-noise <= 0 && got+noise >= claim:
		judge("unknown", " is %s; whether its claim of %s came true is not decided: %s, within the %s by which such steps vary",
			f.Outcome, claimed, delivered, gpuprof.FormatNS(noise))
	case got <= noise:
		judge("no", " is %s but its claim of %s did not come true: %s", f.Outcome, claimed, delivered)
		if abs(got) <= noise && got != 0 {
			f.Statement += fmt.Sprintf(", within the %s by which the mean moves from recording to recording", gpuprof.FormatNS(noise))
		}
	case float64(got)*claimSlack < float64(claim):
		judge("partly", " is %s and its claim of %s came true in part: %s", f.Outcome, claimed, delivered)
	case got <= claim+noise:
		judge("yes", " is %s and its claim of %s came true: %s", f.Outcome, claimed, delivered)
	case got <= tried+noise:
		judge("yes", " is %s and its claim of %s came true together with others that claimed %s in all: %s", f.Outcome, claimed, gpuprof.FormatNS(tried), delivered)
	default:
		judge("partly", " is %s, but %s, more than the %s that the findings acted on had claimed: something else changed as well", f.Outcome, delivered, gpuprof.FormatNS(max(tried, claim)))
	}
	if f.CameTrue == "yes" || f.CameTrue == "partly" {
		f.Statement += f.stepText(c)
	}
}

// rareText states the change of a cause that occurs in some steps only.
func (f *FindingChange) rareText() string {
	times := "it took " + gpuprof.FormatNS(f.OldRareNS)
	switch {
	case f.OldRareNS == 0:
		times = "it takes " + gpuprof.FormatNS(f.NewRareNS)
	case f.NewRareNS > 0:
		times += " and takes " + gpuprof.FormatNS(f.NewRareNS)
	}
	return fmt.Sprintf("%s is %s: %s of the mean step after the recorded ones; the recorded steps do not have its cause", f.Rule, f.Outcome, times)
}

func (f *FindingChange) deliveredText(c *Comparison) string {
	if len(f.Parts) == 0 || len(f.Parts) == 1 && f.Parts[0] == "outside" {
		if c.Old.Step.Count == 0 {
			return changedText("the recording window", f.DeliveredNS)
		}
		return changedText("the mean step", f.DeliveredNS)
	}
	what := gpuprof.WordList(f.Parts, "and")
	if over := c.listReplacements(f.Parts); len(over) > 0 {
		what += ", with " + gpuprof.WordList(over, "and") + " in its place,"
	}
	switch {
	case f.DeliveredNS < 0:
		return what + " grew by " + gpuprof.FormatNS(-f.DeliveredNS)
	case f.DeliveredNS == 0:
		return what + " did not change"
	}
	return what + " fell by " + gpuprof.FormatNS(f.DeliveredNS)
}

func changedText(what string, saved int64) string {
	switch {
	case saved < 0:
		return what + " became " + gpuprof.FormatNS(-saved) + " longer"
	case saved == 0:
		return what + " did not change"
	}
	return what + " became " + gpuprof.FormatNS(saved) + " shorter"
}

// stepText explains why the mean step did not shrink as much as the classes and idle states of the claim, for example
// because another class grew; "" if it did.
func (f *FindingChange) stepText(c *Comparison) string {
	if f.DeliveredNS <= 0 || f.SavedNS*2 > f.DeliveredNS || len(f.Parts) == 0 {
		return ""
	}
	worst := Change{}
	for _, change := range c.Classes {
		if more := change.NewNS - change.OldNS; more > worst.NewNS-worst.OldNS {
			worst = change
		}
	}
	text := "; " + changedText("the mean step", f.SavedNS)
	if worst.Name != "" {
		text += fmt.Sprintf(", since %s takes %s more", worst.Name, gpuprof.FormatNS(worst.NewNS-worst.OldNS))
	}
	if n := min(c.Old.Step.Count, c.New.Step.Count); n < fewSteps && n > 0 {
		text += fmt.Sprintf(" (%s on a side)", Plural(n, "step", "steps"))
	}
	return text
}

// fewSteps: sentences about the mean step give the number of steps if one recording has fewer than fewSteps.
const fewSteps = 10
