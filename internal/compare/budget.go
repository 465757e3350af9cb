package compare

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/document"
)

// maxSites limits the number of call sites that a failed budget names.
const maxSites = 5

// CheckBudgets holds the counters of one result against limits. There are no
// statistics and no noise in it: the largest value that any run saw counts. A
// counter that is known and that this result does not have is inconclusive, and
// so is one that a result cut short keeps. A name that is no counter is ErrUsage,
// and so is a figure that is not exact (a time): a single limit on it would alarm
// by chance.
func CheckBudgets(r *Result, budgets []Budget, o Options) (*Comparison, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if r == nil {
		return nil, gpuprof.Errorf(gpuprof.ErrInput, "checking budgets: there is no result").WithFix("give a result file")
	}
	o.Judge = true
	c := &Comparison{
		Head: headOf(kindBudget, o.Tool), Sides: kindBudget, New: r.Source, Workload: r.Workload, Preset: r.Preset,
		Threshold: o.fillDefaults().Threshold, Seed: o.Seed, Metrics: []MetricResult{}, Differences: []Difference{}, Causes: []Cause{},
		Warnings: counterWarnings(r), Next: []string{}, Fingerprints: Fingerprints{New: fingerprintOf(r)},
	}
	c.Failed = failedOf(r)
	return c.WithBudgets(r, budgets, o)
}

// WithBudgets returns a copy of the comparison that also holds the new side's counters to limits, with the verdict
// and exit code that follow.
func (c *Comparison) WithBudgets(r *Result, budgets []Budget, o Options) (*Comparison, error) {
	if err := ValidateBudgets(r, budgets); err != nil {
		return nil, err
	}
	out := *c
	c = &out
	c.Next, c.Budgets = slices.Clip(c.Next), slices.Clip(c.Budgets)
	by := indexByName(r)
	for _, b := range budgets {
		res := checkBudget(by[b.Name], b)
		switch {
		case res.Verdict == Inconclusive:
			c.Next = append(c.Next, "give a result that counts "+b.Name)
		case res.Verdict == Same && r.Status == gpuprof.Partial:
			// A value above its limit fails even if the result is partial: the missing part can only add to it.
			res.Verdict, res.Reason = Inconclusive, fmt.Sprintf("%g so far, but the result is not whole: %s", float64(res.Value), cmp.Or(r.Reason, "the reason is unknown"))
			if again := "measure or record it again to the end"; !slices.Contains(c.Next, again) {
				c.Next = append(c.Next, again)
			}
		}
		c.Budgets = append(c.Budgets, res)
	}
	o.Judge = o.Judge || c.Sides != kindFiles
	c.conclude(o)
	document.CleanStrings(c)
	return c, nil
}

// ValidateBudgets is ErrUsage for a limit that can never hold or fail on results
// like r, whatever else is wrong with them: a name that is no counter, a figure
// that is not exact, a limit that is no count.
func ValidateBudgets(r *Result, budgets []Budget) error {
	by := indexByName(r)
	names := knownCounters(r)
	for _, b := range budgets {
		m := by[b.Name]
		refuse := func(why, fix string) error {
			return gpuprof.Errorf(gpuprof.ErrUsage, "setting --max %s=%g: %s", b.Name, b.Max, why).WithFix("%s%s", fix, gpuprof.DidYouMean(b.Name, names))
		}
		switch {
		case !gpuprof.IsFinite(b.Max) || b.Max < 0:
			return gpuprof.Errorf(gpuprof.ErrUsage, "setting --max %s=%g: the limit is no count", b.Name, b.Max).WithFix("give a number of 0 or more")
		case m != nil && !m.Exact:
			return refuse(b.Name+" is measured, not counted, and a limit on it would alarm by chance", "compare it with --threshold, or choose a counter")
		case m == nil && len(names) == 0:
			return refuse(r.label()+" has no counters", "compare its times with --threshold")
		case m == nil && !slices.Contains(names, b.Name) && !r.failedIn(b.Name):
			return refuse("there is no such counter", "choose one of "+listSome(names))
		}
	}
	return nil
}

// listSome lists names; where there are many, the first.
func listSome(names []string) string {
	const most = 24
	if more := len(names) - most; more > 0 {
		return strings.Join(names[:most], ", ") + fmt.Sprintf(" and %d more", more)
	}
	return strings.Join(names, ", ")
}

// knownCounters are the exact metrics that a result has, and those that others of
// its kind have.
func knownCounters(r *Result) []string {
	var out []string
	for _, m := range r.Metrics {
		if m.Exact {
			out = append(out, m.Name)
		}
	}
	switch r.Tool {
	case "gpuprof":
		out = append(out, RunCounters()...)
	case "trace":
		out = append(out, TraceCounters()...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// failedIn reports whether the counter belongs to a benchmark that failed.
func (r *Result) failedIn(counter string) bool {
	return slices.ContainsFunc(r.Failed, func(f string) bool {
		name, _, _ := strings.Cut(f, ": ")
		return counter == name || strings.HasPrefix(counter, name+":")
	})
}

// RunCounters are the exact metrics of a gpuprof run.
func RunCounters() []string {
	return []string{
		"peak_memory", "flops", "bytes_read", "bytes_written", "launches", "sync_points", "event_waits", "allocations",
		"copies_h2d", "bytes_h2d", "bytes_h2d_pageable", "copies_d2h", "bytes_d2h", "bytes_d2h_pageable", "copies_d2d", "bytes_d2d",
	}
}

// TraceCounters are the counters of a trace, as gpuprof names its own. A trace has
// all of them, also where they are zero: a budget then passes by a figure.
func TraceCounters() []string {
	return []string{
		"sync_points", "launches", "kernels", "item_reads", "allocations",
		"copies_h2d", "bytes_h2d", "copies_h2d_pageable", "bytes_h2d_pageable",
		"copies_d2h", "bytes_d2h", "copies_d2h_pageable", "bytes_d2h_pageable",
		"copies_d2d", "bytes_d2d",
	}
}

// checkBudget holds a counter that ValidateBudgets has passed to its limit.
func checkBudget(m *MetricData, b Budget) BudgetResult {
	res := BudgetResult{Name: b.Name, Max: b.Max, Value: nan, Verdict: Inconclusive}
	var values []float64
	if m != nil {
		res.Unit = m.Unit
		values = slices.Concat(m.Runs...)
	}
	switch {
	case len(values) == 0:
		res.Reason = "the result does not have this counter"
		return res
	case slices.ContainsFunc(values, func(v float64) bool { return !gpuprof.IsFinite(v) }):
		res.Reason = "the counter is not a number"
		return res
	}
	largest := slices.Max(values)
	res.Value, res.Over, res.Verdict = gpuprof.Number(largest), largest > b.Max, Same
	if !res.Over {
		return res
	}
	res.Verdict = Regressed
	res.Reason = fmt.Sprintf("%g is over the limit of %g", largest, b.Max)
	for _, s := range m.Sites[:min(len(m.Sites), maxSites)] {
		res.Where = append(res.Where, s.Where)
	}
	return res
}

// counterWarnings are the warnings that bear on exact counters; how noisy the times
// of the same run were does not.
func counterWarnings(r *Result) []gpuprof.Warning {
	all := sideWarnings("", r.Warnings)
	if r.Tool != "gpuprof" {
		return all
	}
	return slices.DeleteFunc(all, func(w gpuprof.Warning) bool {
		return !slices.Contains([]string{"counters-incomplete", "simulated"}, w.Code)
	})
}
