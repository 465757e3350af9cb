package compare

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof"
)

// Tone returns how good a verdict is; terminal, page and pull-request comment colour it by the tone.
func (v Verdict) Tone() gpuprof.Tone {
	switch v {
	case Regressed:
		return gpuprof.ToneBad
	case Inconclusive, NotComparable:
		return gpuprof.ToneUnsure
	case Improved, Pass:
		return gpuprof.ToneGood
	}
	return gpuprof.TonePlain
}

// Answer returns the verdict, its ratio with the interval, its cause and the next action.
func (c *Comparison) Answer() gpuprof.Answer {
	a := gpuprof.Answer{Verdict: string(c.Verdict), Tone: c.Verdict.Tone(), Action: c.suggestAction()}
	m := c.leadingMetric()
	switch {
	case len(c.Failed) > 0 && c.Verdict != Regressed:
		a.Verdict, a.Tone = "failed", gpuprof.ToneBad
		a.Sentence = fmt.Sprintf("%s gave no figure, so nothing is decided: %s.", gpuprof.Plural(len(c.Failed), "benchmark"), c.Failed[0])
	case c.Verdict == NotComparable:
		a.Sentence = "The two sides are not the same measurement, so there is no verdict: " + c.mismatchReason(m) + "."
	case c.Verdict == Inconclusive:
		a.Verdict, a.Sentence = "not decided", c.undecidedText(m)
	case c.Verdict == Regressed || c.Verdict == Improved:
		a.Sentence = c.changedText(m)
	default:
		a.Verdict, a.Tone, a.Sentence = c.passText(m)
	}
	if m != nil && c.Verdict != NotComparable { // a ratio of two different measurements has no meaning
		a.Bar = m.ratioBar()
	}
	return a
}

// leadingMetric returns the metric that the answer is about: among the metrics with the overall verdict, the total
// step if it has that verdict, else the metric that changed most. It returns nil if only budgets decide or no
// metric exists.
func (c *Comparison) leadingMetric() *MetricResult {
	deciding := c.Verdict
	if deciding == Pass {
		deciding = Same
	}
	var best *MetricResult
	for i := range c.Metrics {
		m := &c.Metrics[i]
		switch {
		case m.Verdict != deciding:
		case m.Name == totalMetric:
			return m
		case best == nil || m.changeSize() > best.changeSize():
			best = m
		}
	}
	return best
}

// totalMetric is the name of the step time in results of gpuprof; the stages add up to the step time.
const totalMetric = "step"

// changeSize returns |log ratio|. A change from or to zero counts as the largest.
func (m *MetricResult) changeSize() float64 {
	by := math.Abs(math.Log(float64(m.Ratio)))
	if math.IsNaN(by) {
		if m.Old != m.New && m.Exact {
			return math.Inf(1)
		}
		return -1
	}
	return by
}

func (m *MetricResult) ratioBar() *gpuprof.Bar {
	return gpuprof.RatioBar(m.Name+", new / old", float64(m.Ratio), float64(m.CI95[0]), float64(m.CI95[1]))
}

func (m *MetricResult) formatInterval() string {
	return gpuprof.FormatInterval(float64(m.Ratio), float64(m.CI95[0]), float64(m.CI95[1]))
}

func (c *Comparison) changedText(m *MetricResult) string {
	if m == nil {
		return c.brokenText()
	}
	text := m.changeText()
	if m.Name == totalMetric && len(c.Causes) > 0 {
		text += "; " + c.Causes[0].shareText()
	}
	if knobs := c.changedKnobs(); len(knobs) == 1 {
		text += fmt.Sprintf(", with %s", knobs[0])
	}
	verb := "regressed"
	if c.Verdict == Improved {
		verb = "improved"
	}
	if more := c.Count(c.Verdict) - 1; more > 0 {
		text += fmt.Sprintf("; %s %s too", gpuprof.Plural(more, "more metric"), verb)
	}
	if over := c.brokenBudget(); over != nil {
		text += "; " + over.excessText()
	}
	return text + "."
}

// changeText formats a change: "step takes 28.5 % longer (95 % +25.1 % to +32.0 %): 12.9 ms, was 10.0 ms".
func (m *MetricResult) changeText() string {
	now, old := FormatMetric(float64(m.New), m.Unit, m.Exact), FormatMetric(float64(m.Old), m.Unit, m.Exact)
	ratio := float64(m.Ratio)
	if math.IsNaN(ratio) || !(ratio > 0) || math.IsInf(ratio, 0) {
		return fmt.Sprintf("%s is %s, was %s", m.Name, now, old)
	}
	size, more := gpuprof.FormatPercent(math.Abs(ratio-1), gpuprof.Digits), ratio > 1
	verb, how := "is", "lower"
	switch {
	case m.Unit == "s" && more:
		verb, how = "takes", "longer"
	case m.Unit == "s":
		verb, how = "takes", "less time"
	case more:
		how = "higher"
	}
	text := fmt.Sprintf("%s %s %s %s", m.Name, verb, size, how)
	if ratio >= 2 {
		how = map[string]string{"takes": "as long", "is": "as high"}[verb]
		text = fmt.Sprintf("%s %s %s times %s", m.Name, verb, gpuprof.FormatFactor(ratio), how)
	}
	if span := m.formatInterval(); span != "" {
		text += " (" + span + ")"
	}
	return fmt.Sprintf("%s: %s, was %s", text, now, old)
}

// shareText formats a cause: "gemm makes 92 % of the change", or, if the share is not between 0 and 1, "gemm changed
// most".
func (c *Cause) shareText() string {
	if !(c.ShareOfChange > 0) || c.ShareOfChange > 1.005 { // a share above 1: other stages changed the other way
		return c.Stage + " changed most"
	}
	return fmt.Sprintf("%s makes %.0f %% of the change", c.Stage, 100*c.ShareOfChange)
}

// changedKnobs lists the differing knobs that may have caused a change.
func (c *Comparison) changedKnobs() (out []string) {
	for _, d := range c.Differences {
		if d.Kind == kindKnob {
			out = append(out, strings.TrimPrefix(d.String(), "knob "))
		}
	}
	return out
}

// mismatchReason describes the first difference that forbids the comparison, and counts the others.
func (c *Comparison) mismatchReason(m *MetricResult) string {
	if no := refusedFields(c.Differences); len(no) > 0 {
		text := no[0].String()
		if more := len(no) - 1; more > 0 {
			text += fmt.Sprintf(" and %s", gpuprof.Plural(more, "more field"))
		}
		return text
	}
	if m == nil {
		return "the reason was not recorded"
	}
	return m.Name + ": " + cmp.Or(m.Reason, "the reason was not recorded")
}

func (c *Comparison) undecidedText(m *MetricResult) string {
	if m == nil {
		for i := range c.Budgets {
			if b := &c.Budgets[i]; b.Verdict == Inconclusive {
				return fmt.Sprintf("The budget of %s is not judged: %s.", b.Name, cmp.Or(b.Reason, "it was not counted"))
			}
		}
		return "No metric of these results can be judged, so nothing is decided."
	}
	span := m.formatInterval()
	if span == "" {
		return fmt.Sprintf("%s is not decided: %s.", m.Name, cmp.Or(m.Reason, "the reason was not recorded"))
	}
	if m.excludesThreshold() {
		return fmt.Sprintf("%s; not decided yet: %s.", m.changeText(), cmp.Or(m.Reason, "the reason was not recorded"))
	}
	return fmt.Sprintf("%s: the change is not known well enough (%s): one of %s is neither shown nor ruled out; %s, was %s.", m.Name, span,
		thresholdText(m.Threshold), FormatMetric(float64(m.New), m.Unit, m.Exact), FormatMetric(float64(m.Old), m.Unit, m.Exact))
}

// excludesThreshold reports whether the interval of the ratio lies on one side of a slowdown by the threshold.
func (m *MetricResult) excludesThreshold() bool {
	slower := 1 + m.Threshold
	if m.HigherIsBetter {
		slower = 1 / slower
	}
	return float64(m.CI95[0]) > slower || float64(m.CI95[1]) < slower
}

// passText returns verdict, tone and sentence of a comparison without a regression. The sentence names only metrics and
// budgets that were judged.
func (c *Comparison) passText(m *MetricResult) (verdict string, tone gpuprof.Tone, text string) {
	verdict, tone = string(Pass), gpuprof.ToneGood
	if i := slices.IndexFunc(c.Metrics, func(m MetricResult) bool { return m.Unconfirmed() }); i >= 0 && (m == nil || m.Name != totalMetric || m.Unconfirmed()) {
		if m == nil || !m.Unconfirmed() {
			m = &c.Metrics[i]
		}
		return "improved, not certain", tone, m.changeText() + "; that it is faster was not confirmed, that it is not slower was."
	}
	judged := c.Count(Same)
	switch {
	case judged > 0 && !slices.ContainsFunc(c.Metrics, func(m MetricResult) bool { return m.Reason != oneMeasurement }):
		return "same measurement", gpuprof.TonePlain, "Both sides hold the same samples: they are one measurement, so nothing can have changed."
	case judged == 0 && len(c.Budgets) > 0:
		return verdict, tone, fmt.Sprintf("%s: %s.", budgetsKept(len(c.Budgets)), c.Budgets[0].heldText())
	case m == nil:
		return "nothing judged", gpuprof.TonePlain, "No metric of these results is large enough to be judged."
	case m.Exact:
		text = fmt.Sprintf("%s did not change: %s is %s on both sides", gpuprof.Plural(judged, "counter"), m.Name, FormatMetric(float64(m.New), m.Unit, true))
	default:
		text = m.notWorse()
		if judged > 1 {
			text += "; the same holds for " + gpuprof.Plural(judged-1, "more metric")
		}
	}
	if len(c.Budgets) > 0 {
		text += "; " + strings.ToLower(budgetsKept(len(c.Budgets)))
	}
	return verdict, tone, text + "."
}

// Unconfirmed reports whether one stage found the metric faster and no later stage confirmed it.
func (m *MetricResult) Unconfirmed() bool {
	low, high := float64(m.CI95[0]), float64(m.CI95[1])
	better := high < 1
	if m.HigherIsBetter {
		better = low > 1
	}
	return m.Verdict == Same && !m.Exact && better && float64(m.PBetterAdjusted) <= alpha
}

// notWorse formats a pass: "step is not slower by 5 % or more (95 % -0.4 % to +1.2 %): 10.1 ms, was 10.0 ms".
func (m *MetricResult) notWorse() string {
	worse := "worse"
	if m.Unit == "s" {
		worse = "slower"
	}
	text := fmt.Sprintf("%s is not %s by %s or more", m.Name, worse, thresholdText(m.Threshold))
	if span := m.formatInterval(); span != "" {
		text += " (" + span + ")"
	} else if m.Reason != "" {
		return text + ": " + m.Reason
	}
	return fmt.Sprintf("%s: %s, was %s", text, FormatMetric(float64(m.New), m.Unit, m.Exact), FormatMetric(float64(m.Old), m.Unit, m.Exact))
}

// thresholdText formats a threshold in the form of the command line: "5 %".
func thresholdText(share float64) string { return fmt.Sprintf("%.3g %%", 100*share) }

func budgetsKept(n int) string {
	if n == 1 {
		return "The budget is kept"
	}
	return fmt.Sprintf("All %d budgets are kept", n)
}

func (c *Comparison) brokenBudget() *BudgetResult {
	for i := range c.Budgets {
		if c.Budgets[i].Over {
			return &c.Budgets[i]
		}
	}
	return nil
}

func (c *Comparison) brokenText() string {
	b := c.brokenBudget()
	if b == nil {
		return "A budget is broken; which one was not recorded."
	}
	return b.excessText() + "."
}

func (b *BudgetResult) excessText() string {
	return fmt.Sprintf("%s is %s, above its budget of %s", b.Name, FormatMetric(float64(b.Value), b.Unit, true), FormatMetric(b.Max, b.Unit, true))
}

func (b *BudgetResult) heldText() string {
	return fmt.Sprintf("%s is %s of at most %s", b.Name, FormatMetric(float64(b.Value), b.Unit, true), FormatMetric(b.Max, b.Unit, true))
}

// isPlainCommand reports whether a command from a result file is safe to offer for copying: it runs gpuprof and has
// no character with a special meaning to a shell, a page or a comment.
func isPlainCommand(command string) bool {
	return strings.HasPrefix(command, "gpuprof ") && !strings.ContainsAny(command, "<>|&;`$@") && !strings.Contains(command, "://")
}

// suggestAction returns the first of these actions that applies: make the proposed change, with its command; correct
// what failed; take the first of Next, which is a place to look at or the measurement that would decide.
func (c *Comparison) suggestAction() *gpuprof.Action {
	for i := range c.Findings {
		if f := &c.Findings[i]; f.Knob != "" && isPlainCommand(f.Command) {
			return &gpuprof.Action{Text: fmt.Sprintf("Try %s=%s instead of %s.", f.Knob, f.To, f.From), Command: f.Command}
		}
	}
	switch {
	case len(c.Failed) > 0:
		return &gpuprof.Action{Text: "Correct what failed, and measure again."}
	case len(c.Next) > 0:
		return &gpuprof.Action{Text: gpuprof.AsSentence(c.Next[0])}
	}
	return nil
}
