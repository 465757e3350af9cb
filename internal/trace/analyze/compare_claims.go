package analyze

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/stats"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

const (
	// A claim is an upper bound; it came true when its parts of the step became shorter by at
	// least this part of it.
	claimSlack = 1.35
	// A finding is smaller, or larger, when its claim changed by a fifth.
	changedLess = 0.8
	changedMore = 1.25
	// The mean of a program that did not change moves from recording to recording by at least this
	// much, however little its steps vary: clocks and temperature differ.
	leastNoise = 0.01
	// A part of the step is the claim's own with this share of the claim.
	ownPart = 0.05
)

// claimParts divides what a finding claims per step by the classes and idle states that its time lies in.
func (x *Index) claimParts(f *Found) map[string]int64 {
	if f.ClaimNS <= 0 || !x.Stepped() && len(f.Spans) == 0 {
		return nil
	}
	n := int64(x.SteadySteps())
	out := map[string]int64{}
	left := f.ClaimNS / n
	put := func(part string, ns int64) {
		if ns /= n; ns > 0 {
			out[part] = ns
			left -= ns
		}
	}
	for _, d := range x.Devices {
		if d.Device != f.Device {
			continue
		}
		var sum [32]int64
		for _, s := range f.Spans {
			d.addClasses(&sum, s)
		}
		for i, ns := range sum {
			if ns > 0 {
				put(string(classList[i]), ns)
			}
		}
		for _, idle := range []string{"starved", "queued", "unknown"} {
			put(idle, d.partSpans(idle).TotalAnd(f.Spans))
		}
	}
	if left > 0 && len(x.Devices) == 0 {
		out["outside"] = left
	}
	return out
}

// ruleClaim is what one rule claims per step.
type ruleClaim struct {
	ns    int64
	parts []string
}

// claimsOf is what each rule claims per step, that of the input that claims most.
func claimsOf(a *Analysis) map[string]ruleClaim {
	out := map[string]ruleClaim{}
	for i := range a.Findings {
		f := &a.Findings[i]
		if had, ok := out[f.Rule]; ok && had.ns >= f.StepNS {
			continue
		}
		c := ruleClaim{ns: f.StepNS}
		for _, part := range slices.Sorted(maps.Keys(f.Parts)) {
			if float64(f.Parts[part]) >= ownPart*float64(f.StepNS) {
				c.parts = append(c.parts, part)
			}
		}
		out[f.Rule] = c
	}
	return out
}

// compareSettings lists the settings that both recordings show and that differ. It returns the rules
// that advise such a change.
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

// compareFindings lists what became of each finding, in the order of the rules.
func (c *Comparison) compareFindings(rules []string, made map[string]SettingChange) {
	old, now := claimsOf(c.Old), claimsOf(c.New)
	for _, id := range rules {
		was, had := old[id]
		is, has := now[id]
		if !had && !has {
			continue
		}
		c.Findings = append(c.Findings, FindingChange{
			Rule: id, OldNS: was.ns, NewNS: is.ns, Parts: was.parts, SavedNS: c.StepOldNS - c.StepNewNS,
			Outcome: outcome(had, has, was.ns, is.ns),
		})
	}
	for i := range c.Findings {
		f := &c.Findings[i]
		_, changed := made[f.Rule]
		if f.OldNS > 0 && c.Comparable() {
			f.deliver(c)
		}
		f.judge(c, changed, c.triedWith(f))
	}
	// What was tried is the answer to the change.
	slices.SortStableFunc(c.Findings, func(a, b FindingChange) int {
		return cmp.Compare(strings.Count(a.CameTrue, "not tried"), strings.Count(b.CameTrue, "not tried"))
	})
}

// triedWith is what all findings that were acted on claim of the parts of one of them.
func (c *Comparison) triedWith(f *FindingChange) (ns int64) {
	for i := range c.Findings {
		g := &c.Findings[i]
		shared := len(f.Parts) == 0 || len(g.Parts) == 0 || slices.ContainsFunc(g.Parts, func(p string) bool { return slices.Contains(f.Parts, p) })
		if g.wasTried() && shared {
			ns += g.OldNS
		}
	}
	return ns
}

// outcome of a finding that was, or is, there and claimed was, or is.
func outcome(had, has bool, was, is int64) string {
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

// deliver measures how much shorter the claim's parts of the step became. The interval is Welch's
// for the steps of both recordings, and never smaller than leastNoise of the parts.
func (f *FindingChange) deliver(c *Comparison) {
	parts := slices.Concat(f.Parts, c.takingOver(f.Parts))
	before, after := stepSums(c.Old, parts), stepSums(c.New, parts)
	was, is := partsSum(c.Old, parts), partsSum(c.New, parts)
	f.DeliveredNS = was - is
	if c.Old.Step.Count > 0 && (len(before) < 2 || len(after) < 2) {
		return
	}
	half := max(welchHalf(before, after), leastNoise*float64(max(was, is)))
	low, high := f.DeliveredNS-int64(half), f.DeliveredNS+int64(half)
	f.LowNS, f.HighNS = &low, &high
}

// StepNoise is half of the 95 % interval of the change of the mean step, ns, by the variation of the
// steps on both sides; ok is false without two steps a side, or without steps.
func (c *Comparison) StepNoise() (half int64, ok bool) {
	before, after := stepSums(c.Old, nil), stepSums(c.New, nil)
	if len(before) < 2 || len(after) < 2 || !c.Comparable() {
		return 0, false
	}
	return int64(max(welchHalf(before, after), leastNoise*float64(max(c.StepOldNS, c.StepNewNS)))), true
}

// NoiseText follows the change of the mean step where the steps do not tell it from noise, "" elsewhere.
func (c *Comparison) NoiseText() string {
	half, ok := c.StepNoise()
	switch {
	case c.Old.Step.Count == 0 || c.StepOldNS == c.StepNewNS:
		return ""
	case !ok:
		return "one step on a side does not tell that from noise"
	case abs(c.StepOldNS-c.StepNewNS) <= half:
		return fmt.Sprintf("within the noise of %d and %s (%s)", c.Old.Step.Count, Plural(c.New.Step.Count, "step", "steps"), gpuprof.FormatNS(half))
	}
	return ""
}

// takingOver lists classes of the device's work that appear after the change: kernels of another
// class, such as fused attention, do the work of those that a claim is about.
func (c *Comparison) takingOver(parts []string) (classes []string) {
	old := c.Old.Step.Parts.Classes
	var work int64
	for _, p := range parts {
		work += old[model.Class(p)]
	}
	if work == 0 {
		return nil
	}
	for class, ns := range c.New.Step.Parts.Classes {
		appears := float64(old[class]) < ownPart*float64(ns)
		if appears && float64(ns) >= ownPart*float64(work) && !slices.Contains(parts, string(class)) {
			classes = append(classes, string(class))
		}
	}
	slices.Sort(classes)
	return classes
}

// partsSum is the time of parts of the mean step, ns: all of the step without parts.
func partsSum(a *Analysis, parts []string) (ns int64) {
	if len(parts) == 0 {
		return a.Step.NS
	}
	all := partsOf(a)
	for _, p := range parts {
		ns += all[p]
	}
	return ns
}

// stepSums is that of each step that counts.
func stepSums(a *Analysis, parts []string) []float64 {
	var out []float64
	for i := range a.Steps {
		s := &a.Steps[i]
		if s.Dropped {
			continue
		}
		out = append(out, float64(s.sumOf(parts)))
	}
	return out
}

func (s *StepTime) sumOf(parts []string) (ns int64) {
	if len(parts) == 0 {
		return s.DurNS
	}
	idle := map[string]int64{
		"starved": s.StarvedNS, "queued": s.QueuedNS, "unknown": s.UnknownNS,
		"outside": s.DurNS - s.BusyNS - s.StarvedNS - s.QueuedNS - s.UnknownNS,
	}
	for _, p := range parts {
		ns += idle[p]
	}
	for class, v := range s.Classes {
		if slices.Contains(parts, string(class)) {
			ns += v
		}
	}
	return ns
}

// welchHalf is half of the 95 % interval of the difference of two means, with unequal variances
// (Welch, Biometrika 34, 1947). One slow step moves a mean, so the deviation is not a robust one.
func welchHalf(a, b []float64) float64 {
	errorOf := func(x []float64) (squared, free float64) {
		sum, sq := 0.0, 0.0
		for _, v := range x {
			sum += v
		}
		n := float64(len(x))
		for _, v := range x {
			sq += (v - sum/n) * (v - sum/n)
		}
		return sq / (n - 1) / n, n - 1
	}
	if len(a) < 2 || len(b) < 2 {
		return 0 // recordings without steps: one window each
	}
	va, na := errorOf(a)
	vb, nb := errorOf(b)
	if va+vb == 0 {
		return 0
	}
	free := (va + vb) * (va + vb) / (va*va/na + vb*vb/nb)
	return stats.TQuantile(free, 0.975) * math.Sqrt(va+vb)
}

// judge compares the old claim with how much shorter its parts of the step became. made reports that
// a setting which the finding advises was changed; tried is what all findings acted on claim of these parts.
func (f *FindingChange) judge(c *Comparison, made bool, tried int64) {
	claim, got := f.OldNS, f.DeliveredNS
	unit, delivered := PerStepWord(c.Old.Step.Count > 0), f.deliveredText(c)
	say := func(cameTrue, format string, args ...any) {
		f.CameTrue, f.Statement = cameTrue, f.Rule+fmt.Sprintf(format, args...)
	}
	claimed := fmt.Sprintf("up to %s %s", gpuprof.FormatNS(claim), unit)
	noise := int64(0)
	if f.HighNS != nil {
		noise = *f.HighNS - got
	}
	switch {
	case f.Outcome == "new":
		say("not tried", " is new and claims up to %s %s", gpuprof.FormatNS(f.NewNS), PerStepWord(c.New.Step.Count > 0))
	case claim == 0:
		say("not tried", " is %s; it had claimed no time", f.Outcome)
	case !f.wasTried() && !made:
		say("not tried", " is %s, so its claim was not tested: %s before, %s now", f.Outcome, claimed, gpuprof.FormatNS(f.NewNS))
	case !c.Comparable():
		say("unknown", " is %s; whether its claim of %s came true is unknown: one side has no steps", f.Outcome, claimed)
	case f.HighNS == nil:
		say("unknown", " is %s; %s of %s claimed, but one step on a side does not tell a change from noise", f.Outcome, delivered, claimed)
	case got-noise <= 0 && got+noise >= claim:
		say("unknown", " is %s; whether its claim of %s came true is not decided: %s, within the %s by which such steps vary",
			f.Outcome, claimed, delivered, gpuprof.FormatNS(noise))
	case got <= noise:
		say("no", " is %s but its claim of %s did not come true: %s", f.Outcome, claimed, delivered)
		if abs(got) <= noise && got != 0 {
			f.Statement += fmt.Sprintf(", within the %s by which the mean moves from recording to recording", gpuprof.FormatNS(noise))
		}
	case float64(got)*claimSlack < float64(claim):
		say("partly", " is %s and its claim of %s came true in part: %s", f.Outcome, claimed, delivered)
	case got <= claim+noise:
		say("yes", " is %s and its claim of %s came true: %s", f.Outcome, claimed, delivered)
	case got <= tried+noise:
		say("yes", " is %s and its claim of %s came true together with others that claimed %s in all: %s", f.Outcome, claimed, gpuprof.FormatNS(tried), delivered)
	default:
		say("partly", " is %s, but %s, more than the %s that the findings acted on had claimed: something else changed as well", f.Outcome, delivered, gpuprof.FormatNS(max(tried, claim)))
	}
	if f.CameTrue == "yes" || f.CameTrue == "partly" {
		f.Statement += f.stepText(c)
	}
}

// deliveredText tells by how much the claim's parts of the step, or of the recording window, changed.
func (f *FindingChange) deliveredText(c *Comparison) string {
	if len(f.Parts) == 0 || len(f.Parts) == 1 && f.Parts[0] == "outside" {
		if c.Old.Step.Count == 0 {
			return changedBy("the recording window", f.DeliveredNS)
		}
		return changedBy("the mean step", f.DeliveredNS)
	}
	what := joinAnd(f.Parts)
	if over := c.takingOver(f.Parts); len(over) > 0 {
		what += ", with " + joinAnd(over) + " in its place,"
	}
	switch {
	case f.DeliveredNS < 0:
		return what + " grew by " + gpuprof.FormatNS(-f.DeliveredNS)
	case f.DeliveredNS == 0:
		return what + " did not change"
	}
	return what + " fell by " + gpuprof.FormatNS(f.DeliveredNS)
}

func joinAnd(words []string) string {
	if n := len(words); n > 1 {
		return strings.Join(words[:n-1], ", ") + " and " + words[n-1]
	}
	return strings.Join(words, "")
}

func changedBy(what string, saved int64) string {
	switch {
	case saved < 0:
		return what + " became " + gpuprof.FormatNS(-saved) + " longer"
	case saved == 0:
		return what + " did not change"
	}
	return what + " became " + gpuprof.FormatNS(saved) + " shorter"
}

// stepText is added where the step did not follow the parts that the claim is about: the change
// delivered there, and something else took the time.
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
	text := "; " + changedBy("the mean step", f.SavedNS)
	if worst.Name != "" {
		text += fmt.Sprintf(", since %s takes %s more", worst.Name, gpuprof.FormatNS(worst.NewNS-worst.OldNS))
	}
	if n := min(c.Old.Step.Count, c.New.Step.Count); n < fewSteps && n > 0 {
		text += fmt.Sprintf(" (%s a side)", Plural(n, "step", "steps"))
	}
	return text
}

// fewSteps is how many steps a side are too few for a sentence about the mean step without their number.
const fewSteps = 10
