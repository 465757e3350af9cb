package analyze

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/document"
)

const (
	// Two traces may come from different programs if more than this share of the operators occurs in only one of them.
	differentOps = 0.30
)

// CompareInOrder compares the mean steps of one program before and after a change, by class, operator, setting and
// finding. It also measures whether the change saved the time that the old findings claimed. The findings are in the
// order of rules, a list of rule ids. Traces without steps compare by the recording window. Warnings name doubts.
func CompareInOrder(before, after *Analysis, rules []string) *Comparison {
	c := &Comparison{
		Head: document.NewHead(document.TraceComparison, after.Tool), Old: before, New: after,
		StepOldNS: before.Step.NS, StepNewNS: after.Step.NS,
		Classes: []Change{}, Operators: []Change{}, Settings: []SettingChange{}, Findings: []FindingChange{}, Warnings: []gpuprof.Warning{},
	}
	if c.Comparable() {
		c.Classes = listChanges(partsOf(before), partsOf(after))
		c.Operators = listChanges(operatorsOf(before, after))
		c.Bounds = boundChanges(before.Roofline, after.Roofline)
	}
	c.compareFindings(rules, c.compareSettings())
	c.compareInputs()
	return c
}

// Comparable reports whether both sides or neither have steps: a step and a window are different quantities.
func (c *Comparison) Comparable() bool {
	return (c.Old.Step.Count > 0) == (c.New.Step.Count > 0) && c.StepOldNS > 0 && c.StepNewNS > 0
}

// Headline states the step times before and after in one sentence.
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

// partsOf returns the time of each class and idle state in the mean step, ns.
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

// operatorsOf returns the time of each operator in the mean step, ns: device time, or self time on the host if neither
// side has a device.
func operatorsOf(before, after *Analysis) (old, now map[string]int64) {
	host := len(before.Devices)+len(after.Devices) == 0
	times := func(a *Analysis) map[string]int64 {
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
	return times(before), times(after)
}

// listChanges pairs the times of both sides by name, ns, largest change first. It omits names with zero on both sides.
func listChanges(old, now map[string]int64) []Change {
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

// compareInputs warns about differences that make the two recordings hard to compare.
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

// operatorDistance returns the share of operators that only one side has.
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
