package brief

import (
	"fmt"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/compare"
	"github.com/gpuprof/gpuprof/report/internal/verdict"
)

// Comparison shortens a result of compare or gate to the verdict, the metrics, failed ones first, and the findings.
func Comparison(c *compare.Comparison) *Document {
	d := newDocument(c.Head)
	if c.Old != "" {
		d.addInputs(c.Old, c.New)
	} else {
		d.addInputs(c.New)
	}
	code := c.ExitCode
	d.Verdict, d.ExitCode = string(c.Verdict), &code
	d.Summary = cutText(fmt.Sprintf("%s %s: %s.", c.Answer().Sentence, verdict.Subject(c), verdict.How(c)), longText)
	for _, b := range c.Budgets {
		d.Metrics = append(d.Metrics, budgetOf(&b))
	}
	for _, r := range verdict.Rows(c) {
		d.Metrics = append(d.Metrics, metricOf(r.Of))
	}
	d.addFindings(c.Findings)
	d.addWarnings(c.Warnings)
	d.Next = cutTexts(append(failedOf(c), c.Next...), longText)
	d.countSkipped("differences", len(c.Differences))
	d.countSkipped("causes", len(c.Causes))
	return d
}

// failedOf returns an instruction for each benchmark that failed to give a figure.
func failedOf(c *compare.Comparison) []string {
	var out []string
	for _, f := range c.Failed {
		out = append(out, "correct what failed: "+f)
	}
	return out
}

func metricOf(m *compare.MetricResult) Metric {
	out := Metric{Name: cutText(m.Name, placeText), Unit: m.Unit, Old: &m.Old, New: &m.New, Ratio: &m.Ratio, Interval: m.CI95,
		Verdict: string(m.Verdict), Reason: cutText(m.Reason, longText)}
	if gpuprof.IsFinite(float64(m.MDE)) {
		out.MDE = &m.MDE
	}
	return out
}

func budgetOf(b *compare.BudgetResult) Metric {
	return Metric{Name: cutText(b.Name, placeText), Unit: b.Unit, Value: &b.Value, Verdict: string(b.Verdict),
		Interval: [2]gpuprof.Number{unknownNumber(), unknownNumber()}, Reason: cutText(fmt.Sprintf("the budget is %g. %s", b.Max, b.Reason), longText)}
}
