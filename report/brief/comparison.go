package brief

import (
	"fmt"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/compare"
	"github.com/gpuprof/gpuprof/report/internal/verdict"
	"github.com/gpuprof/gpuprof/report/internal/view"
)

// Comparison trims what compare and gate found: the verdict, the metrics that failed first, and the findings.
func Comparison(c *compare.Comparison) *Document {
	d := newDocument(c.Head)
	if c.Old != "" {
		d.inputs(c.Old, c.New)
	} else {
		d.inputs(c.New)
	}
	code := c.ExitCode
	d.Verdict, d.ExitCode = string(c.Verdict), &code
	d.Summary = short(fmt.Sprintf("%s %s: %s.", c.Answer().Sentence, verdict.Subject(c), verdict.How(c)), longText)
	for _, b := range c.Budgets {
		d.Metrics = append(d.Metrics, budgetOf(&b))
	}
	for _, r := range verdict.Rows(c) {
		d.Metrics = append(d.Metrics, metricOf(r.Of))
	}
	for i := range c.Findings {
		f := findingOf(&c.Findings[i])
		f.saving(c.Findings[i].PerStepS(), "s per step")
		f.settings(&c.Findings[i])
		d.Findings = append(d.Findings, f)
	}
	d.warnings(c.Warnings)
	d.Next = cut(append(failedOf(c), c.Next...), longText)
	d.skipped("differences", len(c.Differences))
	d.skipped("causes", len(c.Causes))
	return d
}

// failedOf are the benchmarks without a figure.
func failedOf(c *compare.Comparison) []string {
	var out []string
	for _, f := range c.Failed {
		out = append(out, "correct what failed: "+f)
	}
	return out
}

func metricOf(m *compare.MetricResult) Metric {
	out := Metric{Name: short(m.Name, placeText), Unit: m.Unit, Old: &m.Old, New: &m.New, Ratio: &m.Ratio, Interval: m.CI95,
		Verdict: string(m.Verdict), Reason: short(m.Reason, longText)}
	if view.Finite(float64(m.MDE)) {
		out.MDE = &m.MDE
	}
	return out
}

func budgetOf(b *compare.BudgetResult) Metric {
	return Metric{Name: short(b.Name, placeText), Unit: b.Unit, Value: &b.Value, Verdict: string(b.Verdict),
		Interval: [2]gpuprof.Number{unknown(), unknown()}, Reason: short(fmt.Sprintf("the budget is %g. %s", b.Max, b.Reason), longText)}
}
