// Package verdict has the words for verdicts, figures and causes, and the order of metrics, which all reports of a
// comparison share. The renderers decide the layout.
package verdict

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/compare"
	"github.com/gpuprof/gpuprof/report/internal/view"
)

// Row is one formatted metric.
type Row struct {
	Name, Old, New string
	Ratio          string // "x1.120"; view.None if there is no ratio
	Interval       string // "1.101 to 1.139"
	P              string // adjusted p if there is one
	MDE            string // minimum detectable effect, a slowdown: "3.1 %"
	Verdict        compare.Verdict
	Reason         string
	Of             *compare.MetricResult
}

// Rows lists the metrics by verdict: regressions, inconclusive ones, improvements, stages of one side only, then all
// further ones. Regressions and improvements are sorted by the change, the largest first; other metrics keep their
// order.
func Rows(c *compare.Comparison) []Row {
	out := make([]Row, len(c.Metrics))
	for i := range c.Metrics {
		out[i] = RowOf(&c.Metrics[i])
	}
	slices.SortStableFunc(out, func(a, b Row) int {
		if r := cmp.Compare(verdictRank(a.Verdict), verdictRank(b.Verdict)); r != 0 {
			return r
		}
		switch a.Verdict {
		case compare.Regressed:
			return cmp.Compare(worseRatio(b.Of), worseRatio(a.Of))
		case compare.Improved:
			return cmp.Compare(worseRatio(a.Of), worseRatio(b.Of))
		}
		return 0
	})
	return out
}

func verdictRank(v compare.Verdict) int {
	switch v {
	case compare.Regressed:
		return 0
	case compare.NotComparable, compare.Inconclusive:
		return 1
	case compare.Improved:
		return 2
	case compare.Gone, compare.Added:
		return 3
	case compare.Explains:
		return 4
	case compare.TooSmall:
		return 6
	}
	return 5
}

// worseRatio returns the slowdown, for sorting. A change from zero has no ratio and counts as the largest.
func worseRatio(m *compare.MetricResult) float64 {
	v := m.Worse()
	if math.IsNaN(v) {
		return math.Inf(1)
	}
	return v
}

// RowOf formats one metric.
func RowOf(m *compare.MetricResult) Row {
	r := Row{
		Name: m.Name, Verdict: m.Verdict, Reason: m.Reason, Of: m,
		Old: Figure(float64(m.Old), m.Unit, m.Exact), New: Figure(float64(m.New), m.Unit, m.Exact),
		Ratio: view.None, Interval: view.None, P: view.None, MDE: view.None,
	}
	if v := float64(m.Ratio); gpuprof.IsFinite(v) {
		r.Ratio = gpuprof.FormatRatio(v)
	}
	if lo, hi := float64(m.CI95[0]), float64(m.CI95[1]); gpuprof.IsFinite(lo) && gpuprof.IsFinite(hi) {
		r.Interval = formatBound(lo) + " to " + formatBound(hi)
	}
	p := float64(m.PAdjusted)
	if !gpuprof.IsFinite(p) {
		p = float64(m.P)
	}
	if gpuprof.IsFinite(p) {
		r.P = gpuprof.FormatP(p)
	}
	if v := float64(m.MDE); gpuprof.IsFinite(v) {
		r.MDE = view.Percent(v)
		if v > gpuprof.MostShare {
			r.MDE = gpuprof.FormatPercent(v, gpuprof.Digits)
		}
	}
	return r
}

// farthest is the ratio beyond which an interval's end is no useful bound.
const farthest = 1e6

// formatBound formats one end of a ratio's interval.
func formatBound(v float64) string {
	switch {
	case v > farthest:
		return ">" + gpuprof.FormatFactor(farthest)
	case v < 1/farthest:
		return "<0.001"
	}
	return gpuprof.FormatFactor(v)
}

// Figure formats a value in its unit; view.None if it is not finite.
func Figure(v float64, unit string, exact bool) string {
	if !gpuprof.IsFinite(v) {
		return view.None
	}
	return compare.FormatMetric(v, view.Cut(unit, 24), exact)
}

// Narrow returns the old and the new value for narrow columns. If both have the same unit, only the new value shows it.
// Rates have a short unit: "45.8 k/s".
func (r Row) Narrow() (old, now string) {
	old, now = r.Old, r.New
	if unit := r.Of.Unit; strings.HasSuffix(unit, "/s") && len(unit) > len("GB/s") && !r.Of.Exact {
		old, now = view.SI(float64(r.Of.Old), "/s"), view.SI(float64(r.Of.New), "/s")
	}
	figure, unit, _ := strings.Cut(old, " ")
	if _, other, _ := strings.Cut(now, " "); unit == other {
		old = figure
	}
	return old, now
}

// Tally counts the metrics and budgets by verdict.
type Tally struct {
	Metrics, Regressed, Inconclusive, Improved, Same int
	Gone, Added                                      int // stages of one side only
	TooSmall                                         int // below the noise floor on both sides
	Explains                                         int // measured, and not part of the verdict
	NotComparable                                    int
	Budgets, Over, Unknown                           int // all budgets, exceeded ones, and those not judged
}

// Count counts the metrics of a comparison by verdict, and its budgets.
func Count(c *compare.Comparison) Tally {
	t := Tally{Metrics: len(c.Metrics), Budgets: len(c.Budgets)}
	for i := range c.Metrics {
		switch c.Metrics[i].Verdict {
		case compare.Regressed:
			t.Regressed++
		case compare.NotComparable:
			t.NotComparable++
		case compare.Inconclusive:
			t.Inconclusive++
		case compare.Improved:
			t.Improved++
		case compare.Gone:
			t.Gone++
		case compare.Added:
			t.Added++
		case compare.TooSmall:
			t.TooSmall++
		case compare.Explains:
			t.Explains++
		default:
			t.Same++
		}
	}
	for _, b := range c.Budgets {
		switch {
		case b.Verdict == compare.Inconclusive:
			t.Unknown++
		case b.Over:
			t.Over++
		}
	}
	return t
}

// Word returns a verdict in capitals, for searches in logs.
func Word(v compare.Verdict) string { return strings.ToUpper(string(v)) }

// Headline returns the verdict with the counts.
func Headline(c *compare.Comparison) string {
	if counts := Counts(c); counts != "" {
		return Word(c.Verdict) + ": " + counts
	}
	return Word(c.Verdict)
}

// Counts returns the numbers of metrics and budgets by verdict, and of failed benchmarks; "" if all are 0.
func Counts(c *compare.Comparison) string {
	t := Count(c)
	var parts, all []string
	add := func(n int, what string) {
		switch {
		case n > 0 && len(parts) == 0:
			parts = append(parts, fmt.Sprintf("%d of %s %s", n, gpuprof.Plural(t.Metrics, "metric"), what))
		case n > 0:
			parts = append(parts, strconv.Itoa(n)+" "+what)
		}
	}
	add(t.Regressed, "regressed")
	add(t.NotComparable, "not comparable")
	add(t.Inconclusive, "inconclusive")
	add(t.Improved, "improved")
	add(t.Gone, "gone")
	add(t.Added, "added")
	add(t.Same, "the same")
	add(t.TooSmall, "too small to judge")
	add(t.Explains, "for explanation only")
	if t.Metrics > 0 {
		all = append(all, strings.Join(parts, ", "))
	}
	if t.Budgets > 0 {
		all = append(all, fmt.Sprintf("%d of %s kept", t.Budgets-t.Over-t.Unknown, gpuprof.Plural(t.Budgets, "budget")))
	}
	if n := len(c.Failed); n > 0 {
		all = append(all, gpuprof.Plural(n, "benchmark")+" failed")
	}
	return strings.Join(all, "; ")
}

// Subject returns the workload and both sides: "e3nn small, old.json against new.json".
func Subject(c *compare.Comparison) string {
	sides := view.CutPlace(c.New, 60)
	if c.Old != "" {
		sides = view.CutPlace(c.Old, 60) + " against " + sides
	}
	if what := strings.TrimSpace(view.Cut(c.Workload, 40) + " " + view.Cut(c.Preset, 24)); what != "" {
		return what + ", " + sides
	}
	return sides
}

// How describes the method: threshold, sides, stages, spread between sessions.
func How(c *compare.Comparison) string {
	parts := []string{"threshold " + view.Percent(c.Threshold)}
	switch c.Sides {
	case "gate":
		parts = append(parts, "both sides in one job, "+gpuprof.Plural(max(c.Stages, 1), "stage"))
	case "files":
		parts = append(parts, "two files by their runs")
	case "baseline":
		parts = append(parts, "against stored sessions")
	case "budget":
		return "budgets on exact counters, no statistics"
	}
	if c.SessionSpread > 0 {
		s := "spread between sessions " + view.Percent(math.Expm1(c.SessionSpread))
		if c.SpreadAssumed {
			s += " (assumed)"
		}
		parts = append(parts, s)
	}
	return strings.Join(parts, "; ")
}

// Sentence states the row in words, for texts without a table.
func (r Row) Sentence() string {
	s := r.Name + " " + string(r.Verdict) + ": " + r.Old + " to " + r.New
	if r.Ratio != view.None {
		s += ", " + r.Ratio
		if r.Interval != view.None {
			s += " (95 % " + r.Interval + ")"
		}
	}
	if r.Reason != "" {
		s += "; " + r.Reason
	}
	return s
}

// BudgetText describes a budget: its value, its limit and whether it is exceeded.
func BudgetText(b *compare.BudgetResult) string {
	s := view.Cut(b.Name, 80) + ": " + Figure(float64(b.Value), b.Unit, true) + " of at most " + Figure(b.Max, b.Unit, true)
	switch {
	case b.Verdict == compare.Inconclusive:
		s = view.Cut(b.Name, 80) + ": not known"
		if b.Reason != "" {
			s += "; " + b.Reason
		}
	case b.Over: // the reason repeats the figures in words
		s += ", over budget"
	default:
		s += ", kept"
	}
	return s
}

// AttributionNote explains the estimate of the shares in CauseText.
const AttributionNote = "Shares are of means over the middle half of the samples, which add up."

// CauseText states a stage's share of the step's change.
func CauseText(cause compare.Cause) string {
	s := view.Cut(cause.Stage, 60) + ": " + signedPercent(cause.ShareOfChange) + " of the change"
	if v := float64(cause.Change); gpuprof.IsFinite(v) && v != 0 {
		sign := "+"
		if v < 0 {
			sign = "-"
		}
		s += " (" + sign + view.Seconds(math.Abs(v)) + ")"
	}
	if cause.ExplainedBy != "" {
		s += ", explained by " + cause.ExplainedBy
	}
	return s
}

func signedPercent(v float64) string {
	if !gpuprof.IsFinite(v) {
		return view.None
	}
	if math.Abs(v) > gpuprof.MostShare { // the stages' changes nearly cancel in the step
		return "more than all"
	}
	return strconv.FormatFloat(v*100, 'f', 0, 64) + " %"
}

// Known returns a recorded value; "unknown" for an empty one.
func Known(s string) string { return cmp.Or(view.Cut(s, 120), "unknown") }

// DifferenceText states a field's values on both sides. If the field must agree, it adds "(must agree)", or
// "(allowed)" if the user permitted the mismatch.
func DifferenceText(d compare.Difference) string {
	s := view.Cut(d.Field, 60) + ": " + Known(d.Old) + " -> " + Known(d.New)
	switch {
	case d.Hard && d.Allowed:
		s += " (allowed)"
	case d.Hard:
		s += " (must agree)"
	}
	return s
}
