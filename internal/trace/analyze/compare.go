package analyze

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/document"
)

const (
	// A claim is an upper bound; it came true when the step became shorter by at
	// least this part of it.
	claimSlack = 1.35
	// A finding is smaller, or larger, when its claim changed by a fifth.
	changedLess = 0.8
	changedMore = 1.25
	// Two traces whose operators differ by more than this share are not of one program.
	differentOps = 0.30
	// The mean step of a program that did not change moves by at least this much.
	leastNoise = 0.01
)

// CompareInOrder compares two analyses of one program, before and after a change, in the
// mean step, in ns: by class, by operator, by finding, and whether the saving that the old
// findings claimed came true. Findings follow the order of rules. The classes and idle times
// of each side add up to its step. Traces of different length compare by the step; traces
// without steps compare by the recording window. The warnings name the doubts.
func CompareInOrder(before, after *Analysis, rules []string) *Comparison {
	c := &Comparison{
		Head: document.NewHead(document.TraceComparison, after.Tool), Old: before, New: after,
		StepOldNS: before.Step.NS, StepNewNS: after.Step.NS,
		Classes: []Change{}, Operators: []Change{}, Findings: []FindingChange{}, Warnings: []gpuprof.Warning{},
	}
	if c.Comparable() {
		c.Classes = changes(partsOf(before), partsOf(after))
		c.Operators = changes(operatorsOf(before, after))
	}
	c.compareFindings(rules)
	c.compareInputs()
	return c
}

// Comparable says whether both sides have steps, or neither has: a step and a
// recording window are no two of a kind.
func (c *Comparison) Comparable() bool {
	return (c.Old.Step.Count > 0) == (c.New.Step.Count > 0) && c.StepOldNS > 0 && c.StepNewNS > 0
}

// Headline says in one sentence how long the step was and is.
func (c *Comparison) Headline() string {
	side := func(a *Analysis) string {
		if a.Step.Count == 0 {
			return "a recording window of " + gpuprof.FormatNS(a.Step.NS)
		}
		return "a mean step of " + gpuprof.FormatNS(a.Step.NS)
	}
	if !c.Comparable() {
		return side(c.Old) + " before, " + side(c.New) + " after: not comparable"
	}
	if c.Old.Step.Count == 0 {
		return fmt.Sprintf("the recording window was %s and is %s", gpuprof.FormatNS(c.StepOldNS), gpuprof.FormatNS(c.StepNewNS))
	}
	return fmt.Sprintf("the mean step took %s and takes %s", gpuprof.FormatNS(c.StepOldNS), gpuprof.FormatNS(c.StepNewNS))
}

// partsOf is what the mean step is made of.
func partsOf(a *Analysis) map[string]int64 {
	p := &a.Step.Parts
	out := map[string]int64{}
	for class, ns := range p.Classes {
		out[string(class)] = ns
	}
	for _, idle := range p.Idle() {
		out[idle.Name] = idle.NS
	}
	return out
}

// operatorsOf is the time of each operator in the mean step on both sides:
// device time, or the host's own time where neither side recorded a device.
func operatorsOf(before, after *Analysis) (old, now map[string]int64) {
	host := len(before.Devices)+len(after.Devices) == 0
	of := func(a *Analysis) map[string]int64 {
		out := map[string]int64{}
		for i := range a.Operators {
			o := &a.Operators[i]
			ns := o.StepGPUNS
			if host {
				ns = o.StepSelfNS
			}
			if ns != 0 {
				out[o.Name] += ns
			}
		}
		return out
	}
	return of(before), of(after)
}

// changes lists quantities of both sides, largest change first; those zero on
// both sides are left out.
func changes(old, now map[string]int64) []Change {
	out := []Change{}
	for name, ns := range old {
		if ns != 0 || now[name] != 0 {
			out = append(out, Change{name, ns, now[name]})
		}
	}
	for name, ns := range now {
		if _, both := old[name]; !both && ns != 0 {
			out = append(out, Change{name, 0, ns})
		}
	}
	slices.SortFunc(out, func(a, b Change) int {
		return cmp.Or(cmp.Compare(abs(b.NewNS-b.OldNS), abs(a.NewNS-a.OldNS)), strings.Compare(a.Name, b.Name))
	})
	return out
}

func abs(n int64) int64 { return max(n, -n) }

// claimsOf is what each rule claims per step, that of the input that claims most.
func claimsOf(a *Analysis) map[string]int64 {
	out := map[string]int64{}
	for i := range a.Findings {
		f := &a.Findings[i]
		out[f.Rule] = max(out[f.Rule], f.StepNS)
	}
	return out
}

// compareFindings lists what became of each finding, in the order of the rules.
func (c *Comparison) compareFindings(rules []string) {
	old, now := claimsOf(c.Old), claimsOf(c.New)
	saved, noise := c.StepOldNS-c.StepNewNS, noiseOf(c.Old)+noiseOf(c.New)
	// Several findings may have been acted on at once: then they answer for the
	// saving together.
	var tried int64
	for _, id := range rules {
		was, had := old[id]
		is, has := now[id]
		if !had && !has {
			continue
		}
		f := FindingChange{Rule: id, OldNS: was, NewNS: is, SavedNS: saved, Outcome: outcome(had, has, was, is)}
		if f.wasTried() {
			tried += was
		}
		c.Findings = append(c.Findings, f)
	}
	for i := range c.Findings {
		c.Findings[i].judge(c, tried, noise)
	}
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

// judge compares the old claim with what the step became shorter by. tried is
// what all findings that went away or shrank had claimed, noise how far the
// mean step moves by itself.
func (f *FindingChange) judge(c *Comparison, tried, noise int64) {
	claim, saved := f.OldNS, f.SavedNS
	unit, saving := PerStepWord(c.Old.Step.Count > 0), savingText(c, saved)
	say := func(cameTrue, format string, args ...any) {
		f.CameTrue, f.Statement = cameTrue, f.Rule+fmt.Sprintf(format, args...)
	}
	switch {
	case f.Outcome == "new":
		say("not tried", " is new and claims up to %s %s", gpuprof.FormatNS(f.NewNS), PerStepWord(c.New.Step.Count > 0))
	case claim == 0:
		say("not tried", " is %s; it had claimed no time", f.Outcome)
	case !f.wasTried():
		say("not tried", " is %s, so its claim was not tested: up to %s %s before, %s now", f.Outcome, gpuprof.FormatNS(claim), unit, gpuprof.FormatNS(f.NewNS))
	case !c.Comparable():
		say("unknown", " is %s; whether its claim of up to %s %s came true is unknown: one side has no steps", f.Outcome, gpuprof.FormatNS(claim), unit)
	case saved <= noise:
		say("no", " is %s but its claim of up to %s %s did not come true: %s", f.Outcome, gpuprof.FormatNS(claim), unit, saving)
		if abs(saved) <= noise && saved != 0 {
			f.Statement += fmt.Sprintf(", within the %s by which the mean moves from recording to recording", gpuprof.FormatNS(noise))
		}
	case float64(saved)*claimSlack < float64(claim):
		say("partly", " is %s and its claim of up to %s %s came true in part: %s", f.Outcome, gpuprof.FormatNS(claim), unit, saving)
	case saved <= claim+noise:
		say("yes", " is %s and its claim of up to %s %s came true: %s", f.Outcome, gpuprof.FormatNS(claim), unit, saving)
	case saved <= tried+noise:
		say("yes", " is %s and its claim of up to %s %s came true together with others that claimed %s in all: %s", f.Outcome, gpuprof.FormatNS(claim), unit, gpuprof.FormatNS(tried), saving)
	default:
		say("partly", " is %s, but %s, more than the %s that the findings acted on had claimed: something else changed as well", f.Outcome, saving, gpuprof.FormatNS(tried))
	}
}

// savingText says by how much the step, or the recording window, changed.
func savingText(c *Comparison, saved int64) string {
	what := "the mean step"
	if c.Old.Step.Count == 0 {
		what = "the recording window"
	}
	switch {
	case saved < 0:
		return what + " became " + gpuprof.FormatNS(-saved) + " longer"
	case saved == 0:
		return what + " did not change"
	}
	return what + " became " + gpuprof.FormatNS(saved) + " shorter"
}

// noiseOf is how far the mean step of an analysis may be off: its standard
// error, at least one percent of half a step. One slow step moves a mean, so
// the deviation is not a robust one.
func noiseOf(a *Analysis) int64 {
	least := leastNoise / 2 * float64(a.Step.NS)
	sum, n := 0.0, 0
	for i := range a.Steps {
		if s := &a.Steps[i]; !s.Dropped {
			d := float64(s.DurNS - a.Step.NS)
			sum, n = sum+d*d, n+1
		}
	}
	if n < 3 {
		return int64(least)
	}
	return int64(max(least, math.Sqrt(sum/float64(n-1)/float64(n))))
}

// compareInputs warns about what makes the two hard to compare.
func (c *Comparison) compareInputs() {
	warn := func(code, fix, format string, args ...any) {
		c.Warnings = append(c.Warnings, gpuprof.Warning{Code: code, Text: fmt.Sprintf(format, args...), Fix: fix})
	}
	if a, b := deviceNames(c.Old), deviceNames(c.New); a != b {
		warn("different-devices", "record both on the same device", "the two were not recorded on the same devices (%s against %s): times do not compare", a, b)
	}
	if d := operatorDistance(c.Old, c.New); d > differentOps {
		warn("different-operators", "", "%.0f %% of the operators occur on one side only: this may not be the same program", 100*d)
	}
	if len(c.Old.Inputs) != len(c.New.Inputs) {
		warn("different-inputs", "compare the same ranks", "%s before, %s after", Plural(len(c.Old.Inputs), "trace", "traces"), Plural(len(c.New.Inputs), "trace", "traces"))
	}
	if c.Old.StepSource != c.New.StepSource {
		warn("different-steps", "", "steps come from %q before and %q after: a step may not be the same work", c.Old.StepSource, c.New.StepSource)
	}
	for _, side := range []struct {
		word string
		a    *Analysis
	}{{"before", c.Old}, {"after", c.New}} {
		if side.a.Step.Count == 0 {
			warn("no-steps", "", "no steps were found %s: the recording window is compared, whatever its length", side.word)
		}
		for _, in := range side.a.Inputs {
			if in.Truncated {
				warn("truncated", "", "%s, %s, ended early: its last step is incomplete", in.Path, side.word)
			}
		}
	}
	if a, b := hasWarning(c.Old, "inflated"), hasWarning(c.New, "inflated"); a != b {
		warn("different-profiling", "", "only one of the two recorded Python frames or the profiler's own work: the host is slower there for that reason")
	}
}

func hasWarning(a *Analysis, code string) bool {
	return slices.ContainsFunc(a.Warnings, func(w gpuprof.Warning) bool { return w.Code == code })
}

// deviceNames are the kinds of devices that worked, in words.
func deviceNames(a *Analysis) string {
	n := map[string]int{}
	for i := range a.Devices {
		name := cmp.Or(a.Devices[i].Name, "unknown device")
		n[name]++
	}
	var out []string
	for name, k := range n {
		out = append(out, fmt.Sprintf("%d x %s", k, name))
	}
	if len(out) == 0 {
		return "no device"
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

// operatorDistance is the share of operators that only one side has.
func operatorDistance(a, b *Analysis) float64 {
	side := map[string]int{}
	for i := range a.Operators {
		side[a.Operators[i].Name] |= 1
	}
	for i := range b.Operators {
		side[b.Operators[i].Name] |= 2
	}
	if len(side) == 0 {
		return 0
	}
	single := 0
	for _, s := range side {
		if s != 3 {
			single++
		}
	}
	return float64(single) / float64(len(side))
}
