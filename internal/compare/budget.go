package compare

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/gpuprof/gpuprof"
)

// maxSites is how many call sites of a budget that failed are named.
const maxSites = 5

// CheckBudgets holds the counters of one result against limits. There are no
// statistics and no noise in it: the largest value that any run saw counts. A
// counter the result does not have is inconclusive, and so is one that a result
// cut short keeps; a figure that is not exact (a time) is ErrUsage, because a
// single limit on it would alarm by chance.
func CheckBudgets(r *Result, budgets []Budget, o Options) (*Comparison, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if r == nil {
		return nil, gpuprof.Errorf(gpuprof.ErrInput, "checking budgets: there is no result; give a result file")
	}
	o.Judge = true
	c := &Comparison{
		Version: SchemaVersion, Tool: o.Tool, Kind: kindBudget, New: r.Source, Workload: r.Workload, Preset: r.Preset,
		Threshold: o.full().Threshold, Seed: o.Seed, Metrics: []MetricResult{}, Differences: []Difference{}, Causes: []Cause{},
		Warnings: ofCounters(r), Next: []string{}, Fingerprints: Fingerprints{New: fingerprintOf(r)},
	}
	c.Failed = failedOf(r)
	if err := c.AddBudgets(r, budgets, o); err != nil {
		return nil, err
	}
	return c, nil
}

// AddBudgets adds limits on counters of the new side to a comparison that is
// there already, and draws its verdict and exit code again.
func (c *Comparison) AddBudgets(r *Result, budgets []Budget, o Options) error {
	by := byName(r)
	var known []string
	for _, m := range r.Metrics {
		if m.Exact {
			known = append(known, m.Name)
		}
	}
	for _, b := range budgets {
		res, err := checkBudget(by[b.Name], b, known)
		if err != nil {
			return err
		}
		switch {
		case res.Verdict == Inconclusive:
			c.Next = append(c.Next, fmt.Sprintf("give a result that counts %s%s", b.Name, gpuprof.DidYouMean(b.Name, known)))
		case res.Verdict == Same && r.Status == gpuprof.Partial:
			// Over the limit is over; what is missing could only add to it.
			res.Verdict, res.Reason = Inconclusive, fmt.Sprintf("%g so far, but the result is not whole: %s", float64(res.Value), cmp.Or(r.Reason, "it does not say why"))
			if again := "measure or record it again to the end"; !slices.Contains(c.Next, again) {
				c.Next = append(c.Next, again)
			}
		}
		c.Budgets = append(c.Budgets, res)
	}
	o.Judge = o.Judge || c.Kind != kindFiles
	c.conclude(o)
	return nil
}

func checkBudget(m *MetricData, b Budget, known []string) (BudgetResult, error) {
	res := BudgetResult{Name: b.Name, Max: b.Max, Value: nan, Verdict: Inconclusive}
	if math.IsNaN(b.Max) || math.IsInf(b.Max, 0) || b.Max < 0 {
		return res, gpuprof.Errorf(gpuprof.ErrUsage, "setting --max %s=%g: the limit is no count; give a number of 0 or more", b.Name, b.Max)
	}
	if m == nil {
		res.Reason = "the result does not have this counter" + gpuprof.DidYouMean(b.Name, known)
		return res, nil
	}
	if !m.Exact {
		return res, gpuprof.Errorf(gpuprof.ErrUsage, "setting --max %s=%g: %s is measured, not counted, and a limit on it would alarm by chance; compare it with --threshold, or choose a counter%s", b.Name, b.Max, b.Name, gpuprof.DidYouMean(b.Name, known))
	}
	res.Unit = m.Unit
	values := slices.Concat(m.Runs...)
	switch {
	case len(values) == 0:
		res.Reason = "the result does not have this counter"
		return res, nil
	case slices.ContainsFunc(values, notFinite):
		res.Reason = "the counter is not a number"
		return res, nil
	}
	largest := slices.Max(values)
	res.Value, res.Over, res.Verdict = gpuprof.Number(largest), largest > b.Max, Same
	if !res.Over {
		return res, nil
	}
	res.Verdict = Regressed
	res.Reason = fmt.Sprintf("%g is over the limit of %g", largest, b.Max)
	for _, s := range m.Sites[:min(len(m.Sites), maxSites)] {
		res.Where = append(res.Where, s.Where)
	}
	return res, nil
}

// ofCounters are the warnings that bear on exact counters; how noisy the times
// of the same run were does not.
func ofCounters(r *Result) []gpuprof.Warning {
	all := sideWarnings("", r.Warnings)
	if r.Tool != "gpuprof" {
		return all
	}
	return slices.DeleteFunc(all, func(w gpuprof.Warning) bool {
		return !slices.Contains([]string{"counters-incomplete", "simulated"}, w.Code)
	})
}
