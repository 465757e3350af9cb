package compare

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/document"
)

const maxSites = 5

// CheckBudgets checks the counters of one result against limits, without statistics: the largest value of any run
// counts. A known counter that the result lacks is inconclusive, and so is a counter within its limit in a partial
// result. The error is ErrUsage for a name that is no counter, and for a figure that is not exact (a time), because a
// single limit on a noisy figure would alarm by chance.
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

// WithBudgets returns a copy in which the new side's counters are also checked against limits, with the new verdict.
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
			// The value is within its limit, but the missing part of the result can add to it. A value above its limit
			// fails even if the result is partial.
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

// ValidateBudgets returns ErrUsage for limits that cannot be checked on results like r: a name that is no counter,
// a figure that is not exact, or a limit that is no count.
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
			return refuse("there is no such counter", "choose one of "+listSome(names, 24))
		}
	}
	return nil
}

// listSome lists names: the first most, and how many more there are.
func listSome(names []string, most int) string {
	text := strings.Join(names[:min(len(names), most)], ", ")
	if len(names) > most {
		text += fmt.Sprintf(" and %d more", len(names)-most)
	}
	return text
}

// knownCounters lists the exact metrics of a result, and the counters that results of the same kind can have.
func knownCounters(r *Result) []string {
	var out []string
	for _, m := range r.Metrics {
		if m.Exact {
			out = append(out, m.Name)
		}
	}
	switch r.Tool {
	case "gpuprof":
		out = append(out, runCounters()...)
	case "trace":
		out = append(out, TraceCounters()...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func (r *Result) failedIn(counter string) bool {
	return slices.ContainsFunc(r.Failed, func(f string) bool {
		name, _, _ := strings.Cut(f, ": ")
		return counter == name || strings.HasPrefix(counter, name+":")
	})
}

// runCounters lists the exact metrics of a gpuprof run.
func runCounters() []string {
	return []string{
		"peak_memory", "flops", "bytes_read", "bytes_written", "launches", "sync_points", "event_waits", "allocations",
		"copies_h2d", "bytes_h2d", "bytes_h2d_pageable", "copies_d2h", "bytes_d2h", "bytes_d2h_pageable", "copies_d2d", "bytes_d2d",
	}
}

// TraceCounters lists a trace's counters, named as in a gpuprof run. Every trace has all of them, even at zero.
func TraceCounters() []string {
	return []string{
		"sync_points", "launches", "kernels", "item_reads", "allocations",
		"copies_h2d", "bytes_h2d", "copies_h2d_pageable", "bytes_h2d_pageable",
		"copies_d2h", "bytes_d2h", "copies_d2h_pageable", "bytes_d2h_pageable",
		"copies_d2d", "bytes_d2d",
	}
}

// checkBudget checks a counter against its limit. ValidateBudgets has accepted both.
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

// counterWarnings returns the warnings that concern exact counters. Warnings about noisy times do not.
func counterWarnings(r *Result) []gpuprof.Warning {
	all := sideWarnings("", r.Warnings)
	if r.Tool != "gpuprof" {
		return all
	}
	return slices.DeleteFunc(all, func(w gpuprof.Warning) bool {
		return !slices.Contains([]string{"counters-incomplete", "simulated"}, w.Code)
	})
}
