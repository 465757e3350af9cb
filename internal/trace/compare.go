package trace

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
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
	// The median step of a program that did not change moves by about this much.
	leastNoise = 0.01
)

// Compare says what changed between two analyses of one program, before and
// after a change, a step, in ns: by class, by operator, by finding, and
// whether what the old findings claimed came true. Traces of different length
// compare a step; traces without steps compare as a whole. What makes the two
// hard to compare is in the warnings.
func Compare(before, after *Analysis) *Comparison {
	c := &Comparison{
		SchemaVersion: SchemaVersion, Tool: after.Tool, Old: before, New: after,
		StepOldNS: stepTime(before), StepNewNS: stepTime(after),
		Classes: []Change{}, Operators: []Change{}, Findings: []FindingChange{}, Warnings: []Warning{},
	}
	c.Classes = changes(classesOf(before), classesOf(after))
	c.Operators = changes(operatorsOf(before, after))
	c.compareFindings()
	c.compareInputs()
	return c
}

// stepTime is the pace of a program: the median step, on the host or from the
// completion of one step's device work to that of the next, whichever is
// longer. (The host may run ahead of the device, and a step with its device
// work overlaps the next one.) Without steps it is the time of the slowest
// device.
func stepTime(a *Analysis) int64 {
	host, done := paces(a)
	if n := max(median(host), median(done)); n > 0 {
		return n
	}
	var n int64
	for i := range a.Devices {
		n = max(n, a.Devices[i].SpanNS)
	}
	return n
}

// paces lists the steps that count: how long each was on the host, and how
// long after the step before it each was complete.
func paces(a *Analysis) (host, done []int64) {
	for i := range a.Steps {
		s := &a.Steps[i]
		if s.Dropped {
			continue
		}
		host = append(host, s.HostDurNS)
		if i > 0 && a.Steps[i-1].Input == s.Input {
			p := &a.Steps[i-1]
			done = append(done, max(0, s.StartNS+s.DurNS-p.StartNS-p.DurNS))
		}
	}
	return host, done
}

// classesOf is the device time of each class a step: the mean over the steps
// that count, or over the devices where there are no steps.
func classesOf(a *Analysis) map[string]int64 {
	out, n := map[string]int64{}, int64(0)
	for i := range a.Steps {
		if s := &a.Steps[i]; !s.Dropped {
			n++
			for k, ns := range s.Classes {
				out[string(k)] += ns
			}
			out["idle"] += max(0, s.DurNS-s.BusyNS)
		}
	}
	if n == 0 {
		for i := range a.Devices {
			n++
			for k, ns := range a.Devices[i].Classes {
				out[string(k)] += ns
			}
			out["idle"] += a.Devices[i].IdleNS
		}
	}
	for k := range out {
		out[k] /= max(n, 1)
	}
	return out
}

// operatorsOf is the time of each operator a step on both sides: device time,
// or the host's own time where neither side recorded a device.
func operatorsOf(before, after *Analysis) (old, now map[string]int64) {
	host := len(before.Devices)+len(after.Devices) == 0
	of := func(a *Analysis) map[string]int64 {
		out := map[string]int64{}
		for i := range a.Operators {
			o := &a.Operators[i]
			ns := o.GPUNS
			if host {
				ns = o.SelfNS
			}
			if ns != 0 {
				out[o.Name] += ns / int64(max(len(a.Steps), 1))
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

// claimsOf is what each rule claims a step, that of the input that claims most.
func claimsOf(a *Analysis) map[string]int64 {
	out := map[string]int64{}
	for i := range a.Findings {
		f := &a.Findings[i]
		out[f.Rule] = max(out[f.Rule], f.StepNS)
	}
	return out
}

// compareFindings says what became of each finding, in the order of the rules.
func (c *Comparison) compareFindings() {
	old, now := claimsOf(c.Old), claimsOf(c.New)
	saved, noise := c.StepOldNS-c.StepNewNS, noiseOf(c.Old)+noiseOf(c.New)
	// Several findings may have been acted on at once: then they answer for the
	// saving together.
	var tried int64
	for _, id := range RuleIDs() {
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
		c.Findings[i].judge(tried, noise)
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
// median step moves by itself.
func (f *FindingChange) judge(tried, noise int64) {
	claim, saved := f.OldNS, f.SavedNS
	saving := "the median step became " + duration(saved) + " shorter"
	if saved < 0 {
		saving = "the median step became " + duration(-saved) + " longer"
	}
	if saved == 0 {
		saving = "the median step did not change"
	}
	switch {
	case f.Outcome == "new":
		f.CameTrue = "not tried"
		f.Statement = fmt.Sprintf("%s is new and claims up to %s a step", f.Rule, duration(f.NewNS))
		return
	case claim == 0:
		f.CameTrue = "not tried"
		f.Statement = fmt.Sprintf("%s is %s; it had claimed no time", f.Rule, f.Outcome)
		return
	case !f.wasTried():
		f.CameTrue = "not tried"
		f.Statement = fmt.Sprintf("%s is %s: it claimed up to %s a step and claims %s now, so nothing was tried against it", f.Rule, f.Outcome, duration(claim), duration(f.NewNS))
		return
	case saved <= noise:
		f.CameTrue = "no"
		f.Statement = fmt.Sprintf("%s is %s but its claim of up to %s a step did not come true: %s", f.Rule, f.Outcome, duration(claim), saving)
	case float64(saved)*claimSlack < float64(claim):
		f.CameTrue = "partly"
		f.Statement = fmt.Sprintf("%s is %s and its claim of up to %s a step came true in part: %s", f.Rule, f.Outcome, duration(claim), saving)
	case saved <= claim+noise:
		f.CameTrue = "yes"
		f.Statement = fmt.Sprintf("%s is %s and its claim of up to %s a step came true: %s", f.Rule, f.Outcome, duration(claim), saving)
	case saved <= tried+noise:
		f.CameTrue = "yes"
		f.Statement = fmt.Sprintf("%s is %s and its claim of up to %s a step came true together with others that claimed %s in all: %s", f.Rule, f.Outcome, duration(claim), duration(tried), saving)
	default:
		f.CameTrue = "partly"
		f.Statement = fmt.Sprintf("%s is %s, but %s, more than the %s that the findings acted on had claimed: something else changed as well", f.Rule, f.Outcome, saving, duration(tried))
	}
}

// noiseOf is how far the median step of an analysis may be off: its standard
// error from the median absolute deviation of the steps (1.4826 MAD is the
// standard deviation of normal noise, 1.2533/sqrt(n) of that the standard
// error of the median), at least one percent of half a step.
func noiseOf(a *Analysis) int64 {
	v, _ := paces(a)
	least := int64(leastNoise / 2 * float64(stepTime(a)))
	if len(v) < 3 {
		return least
	}
	mid := median(v)
	for i := range v {
		v[i] = abs(v[i] - mid)
	}
	return max(least, int64(1.4826*1.2533*float64(median(v))/math.Sqrt(float64(len(v)))))
}

// compareInputs warns about what makes the two hard to compare.
func (c *Comparison) compareInputs() {
	warn := func(code, format string, args ...any) {
		c.Warnings = append(c.Warnings, Warning{code, fmt.Sprintf(format, args...)})
	}
	if a, b := deviceNames(c.Old), deviceNames(c.New); a != b {
		warn("different-devices", "the two were not recorded on the same devices (%s against %s): times do not compare", a, b)
	}
	if d := operatorDistance(c.Old, c.New); d > differentOps {
		warn("different-operators", "%.0f %% of the operators occur on one side only: this may not be the same program", 100*d)
	}
	if len(c.Old.Inputs) != len(c.New.Inputs) {
		warn("different-inputs", "%s before, %s after: compare the same ranks", plural(len(c.Old.Inputs), "trace", "traces"), plural(len(c.New.Inputs), "trace", "traces"))
	}
	if c.Old.StepSource != c.New.StepSource {
		warn("different-steps", "steps come from %q before and %q after: a step may not be the same work", c.Old.StepSource, c.New.StepSource)
	}
	for _, side := range []struct {
		word string
		a    *Analysis
	}{{"before", c.Old}, {"after", c.New}} {
		if MedianStep(side.a) == 0 {
			warn("no-steps", "no steps were found %s: the whole trace is compared, whatever its length", side.word)
		}
		for _, in := range side.a.Inputs {
			if in.Truncated {
				warn("truncated", "%s, %s, ended early: its last step is incomplete", in.Path, side.word)
			}
		}
	}
	if a, b := hasWarning(c.Old, "inflated"), hasWarning(c.New, "inflated"); a != b {
		warn("different-profiling", "only one of the two recorded Python frames or the profiler's own work: the host is slower there for that reason")
	}
}

func hasWarning(a *Analysis, code string) bool {
	return slices.ContainsFunc(a.Warnings, func(w Warning) bool { return w.Code == code })
}

// deviceNames are the kinds of devices that worked, in words.
func deviceNames(a *Analysis) string {
	n := map[string]int{}
	for i := range a.Devices {
		name := a.Devices[i].Name
		if name == "" {
			name = "unknown device"
		}
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
