package search

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/tune"
)

// conclude gives the reason for an empty recommendation. It derives every sentence from the verdicts of the table and
// of the confirmations, so that no sentence contradicts them.
func (e *engine) conclude() {
	c := &e.out.Conclusion
	if e.over != "" && len(e.out.Confirmations) == 0 { // recommend no command: even the default exceeds a limit
		*c = tune.Conclusion{Verdict: tune.NothingFits, Text: e.nothingFits()}
		return
	}
	c.Command = e.commandLine(nil)
	switch {
	case len(e.out.Confirmations) > 0:
		c.Verdict, c.Text = tune.Unconfirmed, e.unconfirmedText()
	case e.countUndecided(tune.Inconclusive)+e.countUndecided(tune.Faster)+e.countUndecided(tune.Less) == 0:
		c.Verdict, c.Text = tune.DefaultBest, "the default is best: no change is better by 2 % or more"
	default:
		c.Verdict, c.Text = tune.Undecided, "no recommendation: no change was shown to be better by 2 % or more, and not all could be decided"
	}
	c.Text += "; " + e.tallyText()
	if e.over != "" {
		c.Command = ""
		c.Text += "; the default is above a limit itself: " + e.over
	}
	if c.Verdict != tune.DefaultBest {
		c.Text += "; " + e.moreTime()
	}
	if held := e.fixedFindings(); held != "" {
		c.Text += "; " + held
	}
}

// unconfirmedText describes each confirmation, with its ratio and the reason why it failed or had too little time.
func (e *engine) unconfirmedText() string {
	var parts []string
	for _, c := range e.out.Confirmations {
		parts = append(parts, confirmationText(c, e.Goal, e.tableText(c.Knobs)))
	}
	return "no recommendation: " + strings.Join(parts, "; ")
}

func confirmationText(c tune.Confirmation, g tune.Goal, saw string) string {
	text := tune.DescribeSettings(c.Knobs) + saw + " was not confirmed"
	if c.Confirmed {
		text = tune.DescribeSettings(c.Knobs) + saw + " was confirmed"
	}
	switch {
	case c.Interval != [2]float64{}:
		text += fmt.Sprintf(": %s x%.3f (%.3f to %.3f at %.4g %%) in %s", g, c.Ratio, c.Interval[0], c.Interval[1], 100*c.Level, processesText(c.Processes))
	case c.Ratio > 0:
		text += fmt.Sprintf(": %s x%.3f in %s, too few for an interval", g, c.Ratio, processesText(c.Processes))
	}
	if c.Reason != "" {
		text += ": " + c.Reason
	}
	return text
}

func processesText(n int) string {
	if n == 1 {
		return "1 fresh process"
	}
	return fmt.Sprintf("%d fresh processes", n)
}

func (e *engine) tableText(set gpuprof.Settings) string {
	var parts []string
	for _, f := range e.out.Effects {
		if set[f.Knob] != f.To || f.Ratio <= 0 {
			continue
		}
		text := fmt.Sprintf("x%.3f, %.3f to %.3f", f.Ratio, f.CI95[0], f.CI95[1])
		if len(set) > 1 {
			text = f.Knob + "=" + f.To + " alone " + text
		}
		parts = append(parts, text)
	}
	if len(parts) == 0 {
		return ""
	}
	return " (in the search " + strings.Join(parts, "; ") + ")"
}

func (e *engine) tallyText() string {
	var parts []string
	for _, v := range []tune.Verdict{tune.Faster, tune.Less, tune.Slower, tune.More, tune.None, tune.Inconclusive, tune.Refused, tune.Failed} {
		n, word := e.countVerdict(v), string(v)
		switch v {
		case tune.None:
			word = "within 2 %"
		case tune.Inconclusive:
			n, word = e.countUndecided(v), "undecided"
			if no := e.countVerdict(v) - n; no > 0 {
				parts = append(parts, fmt.Sprintf("%d not better by 2 %%", no))
			}
		}
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, word))
		}
	}
	changes := "changes"
	if len(e.out.Effects) == 1 {
		changes = "change"
	}
	return fmt.Sprintf("of %d %s in the table: %s", len(e.out.Effects), changes, strings.Join(parts, ", "))
}

// countUndecided counts the changes with verdict v whose interval still includes an improvement by the equivalence
// margin.
func (e *engine) countUndecided(v tune.Verdict) int {
	n := 0
	for _, f := range e.out.Effects {
		_, ci := goalRatio(e.Goal, f.Ratio, f.CI95) // as a ratio of costs
		if f.Verdict == v && (f.Ratio == 0 || ci[0] < 1-equivalence) {
			n++
		}
	}
	return n
}

func (e *engine) countVerdict(v tune.Verdict) int {
	n := 0
	for _, f := range e.out.Effects {
		if f.Verdict == v {
			n++
		}
	}
	return n
}

// moreTime names the budget that could change the result: enough to measure every change once and to confirm one,
// estimated from this search's comparisons and processes. If the budget was already that large, noise is the cause.
func (e *engine) moreTime() string {
	look := max(e.comparisonSeconds(), 0.5)
	screen := float64(len(e.out.Effects)) * look / (screenUntil - findingsShare)
	process := mostProcesses * (max(leastProcess, e.openingTime()+time.Second) + e.overhead).Seconds() / (1 - searchUntil)
	need := roundUp(max(screen, process))
	if need > e.Budget {
		return fmt.Sprintf("a first look at every change and one confirmation take about %s here: --budget %s", spellDuration(need), spellDuration(need))
	}
	return fmt.Sprintf("the noise of this machine limits the rest: give more time (--budget %s), or measure while it is idle", spellDuration(roundUp(2*e.Budget.Seconds())))
}

// roundUp returns the next larger budget that people would type.
func roundUp(seconds float64) time.Duration {
	for _, s := range []float64{30, 60, 120, 180, 300, 600, 900, 1200, 1800} {
		if seconds <= s {
			return time.Duration(s) * time.Second
		}
	}
	return time.Duration(math.Ceil(seconds/3600)) * time.Hour
}

// spellDuration writes a duration without zero parts: 2m, not 2m0s.
func spellDuration(d time.Duration) string {
	s := d.String()
	for _, zero := range []string{"0s", "0m"} {
		if short := strings.TrimSuffix(s, zero); short != s && strings.ContainsAny(short[max(0, len(short)-1):], "hm") {
			s = short
		}
	}
	return s
}

// nothingFits returns the conclusion if the default exceeds a limit and no setting was found within all limits.
func (e *engine) nothingFits() string {
	text := "no recommendation: the default is above a limit (" + e.over + "), and no setting was shown to keep to all of them"
	least := int64(math.MaxInt64)
	for _, entry := range e.out.Journal {
		if m := entry.Outcome.MemoryB; m > 0 {
			least = min(least, m)
		}
	}
	if e.MaxMemory > 0 && least > e.MaxMemory && least < math.MaxInt64 {
		text += "; the lowest measured value is " + gpuprof.FormatBytes(float64(least))
	}
	return text + "; raise the limit, give more time with --budget, or start from a smaller --set"
}
