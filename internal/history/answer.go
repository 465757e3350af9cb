package history

import (
	"fmt"
	"math"

	"github.com/gpuprof/gpuprof"
)

// Tone returns how good a change is; terminal, page and pull-request comment colour it by the tone.
func (c *Change) Tone() gpuprof.Tone {
	switch {
	case c.Cause == FromMachine:
		return gpuprof.TonePlain
	case c.Worse:
		return gpuprof.ToneBad
	}
	return gpuprof.ToneGood
}

// Answer states an alarm. Without one it states that nothing is judged yet, or an uncertain change, or the number of
// judged sessions.
func (r *Report) Answer() gpuprof.Answer {
	names, reasons := r.Unjudged()
	limit := fmt.Sprintf("%.3g %%", 100*r.Threshold)
	alarms := r.Alarms()
	switch {
	case len(alarms) > 0:
		return alarmAnswer(alarms)
	case len(r.Trends) == 0:
		return gpuprof.Answer{Verdict: "empty", Tone: gpuprof.ToneUnsure,
			Sentence: "The store holds no session, so there is nothing to judge.",
			Action:   &gpuprof.Action{Text: "Add a result to the store.", Command: "gpuprof history add RESULT"}}
	case len(names) == len(r.Trends):
		return gpuprof.Answer{Verdict: "too few sessions", Tone: gpuprof.ToneUnsure,
			Sentence: fmt.Sprintf("Nothing is judged yet: %s has %s.", names[0], reasons[0]),
			Action: &gpuprof.Action{
				Text:    fmt.Sprintf("Add results until %d sessions of one machine and setting are there.", LeastSessions),
				Command: "gpuprof history add RESULT",
			}}
	}
	if seen, ok := r.firstSeen(); ok {
		return seen.answer()
	}
	unjudged := ""
	if len(names) > 0 {
		unjudged = fmt.Sprintf("; %d of %s not judged", len(names), gpuprof.Plural(len(r.Trends), "trend"))
	}
	if r.Watched {
		return gpuprof.Answer{Verdict: "no alarm", Tone: gpuprof.ToneGood,
			Sentence: fmt.Sprintf("No level was found to be worse by %s or more, in %s%s.", limit, r.judgedText(), unjudged)}
	}
	return r.shownAnswer(unjudged)
}

// alarmAnswer states the largest alarm; alarms of the whole step come first.
func alarmAnswer(alarms []Raised) gpuprof.Answer {
	top := &alarms[0]
	for i := range alarms {
		if a := &alarms[i]; a.Metric.outranks(a.Alarm.Ratio, top.Metric, top.Alarm.Ratio) {
			top = a
		}
	}
	m := top.Metric
	ci, cause := top.interval()
	text := fmt.Sprintf("%s of %s is worse since %s: %s, was %s", m.Name, top.Trend.Benchmark, top.Alarm.After.Short(),
		m.FormatValue(top.Alarm.Now), m.FormatValue(top.Alarm.Old))
	if by := changeText(top.Alarm.Ratio, ci); by != "" {
		text += ", " + by
	}
	if cause != "" {
		text += "; the cause is " + string(cause)
	}
	if more := len(alarms) - 1; more > 0 {
		text += "; " + gpuprof.Plural(more, "more alarm")
	}
	return gpuprof.Answer{Verdict: "worse", Tone: gpuprof.ToneBad, Sentence: text + ".", Bar: m.bar(top.Alarm.Ratio, ci),
		Action: bisectAction(top.Alarm.Before, top.Alarm.After)}
}

// interval returns the confidence interval and the cause of the change behind an alarm. It returns NaN and "" if the
// level has changed since, because an alarm compares with the present level.
func (a *Raised) interval() (ci [2]gpuprof.Number, cause Cause) {
	for _, c := range a.Metric.Changes {
		if c.At == a.Alarm.At && c.Old == a.Alarm.Old && c.New == a.Alarm.Now {
			return c.CI95, c.Cause
		}
	}
	return [2]gpuprof.Number{gpuprof.Number(math.NaN()), gpuprof.Number(math.NaN())}, ""
}

// SeenIn is a worsening without an alarm yet (Seen), with its trend and metric.
type SeenIn struct {
	Trend  *Trend
	Metric *Metric
	Seen   Seen
}

// firstSeen returns the largest worsening without an alarm yet (Seen). A worsening of the whole step comes first.
func (r *Report) firstSeen() (top SeenIn, ok bool) {
	for t := range r.Trends {
		for k := range r.Trends[t].Metrics {
			m := &r.Trends[t].Metrics[k]
			for _, s := range m.Seen {
				if !ok || m.outranks(s.Ratio, top.Metric, top.Seen.Ratio) {
					top, ok = SeenIn{&r.Trends[t], m, s}, true
				}
			}
		}
	}
	return top, ok
}

func (s SeenIn) answer() gpuprof.Answer {
	ci := [2]gpuprof.Number{gpuprof.Number(math.NaN()), gpuprof.Number(math.NaN())}
	before := Commit{}
	for _, c := range s.Metric.Changes {
		if c.At == s.Seen.At {
			before = c.Before
			if c.Ratio == s.Seen.Ratio {
				ci = c.CI95
			}
		}
	}
	text := fmt.Sprintf("%s of %s is worse since %s by %s, seen and not certain yet: %s.",
		s.Metric.Name, s.Trend.Benchmark, s.Seen.After.Short(), changeText(s.Seen.Ratio, ci), s.Seen.awaited())
	a := gpuprof.Answer{Verdict: "seen, not certain", Tone: gpuprof.ToneUnsure, Sentence: text,
		Bar: s.Metric.bar(s.Seen.Ratio, ci)}
	a.Action = &gpuprof.Action{
		Text:    "Measure both sides now instead of waiting.",
		Command: "gpuprof history check --confirm -- COMMAND",
	}
	if before.ID == "" {
		a.Action = &gpuprof.Action{Text: "Add further sessions.", Command: "gpuprof history add RESULT"}
	}
	return a
}

// awaited states how many more sessions would raise the alarm.
func (s Seen) awaited() string {
	switch s.Sessions {
	case 0:
		return fmt.Sprintf("more than %d further sessions are needed", mostAwaited)
	case 1:
		return "about 1 more session like those since would decide"
	}
	return fmt.Sprintf("about %d more sessions like those since would decide", s.Sessions)
}

// shownAnswer is the answer without the alarm rule (Options.Watch): it describes the last change.
func (r *Report) shownAnswer(unjudged string) gpuprof.Answer {
	var last *Change
	var of SeenIn
	changes := 0
	for t := range r.Trends {
		for k := range r.Trends[t].Metrics {
			m := &r.Trends[t].Metrics[k]
			changes += len(m.Changes)
			if n := len(m.Changes); n > 0 && (last == nil || m.outranks(m.Changes[n-1].Ratio, of.Metric, last.Ratio)) {
				last, of = &m.Changes[n-1], SeenIn{Trend: &r.Trends[t], Metric: m}
			}
		}
	}
	if last == nil {
		return gpuprof.Answer{Verdict: "no change found", Tone: gpuprof.TonePlain,
			Sentence: fmt.Sprintf("No metric was found to change its level, in %s%s.", r.judgedText(), unjudged)}
	}
	text := fmt.Sprintf("%s of %s changed at %s: %s, was %s", of.Metric.Name, of.Trend.Benchmark, last.After.Short(),
		of.Metric.FormatValue(last.New), of.Metric.FormatValue(last.Old))
	if by := changeText(last.Ratio, last.CI95); by != "" {
		text += ", " + by
	}
	if last.Cause != "" {
		text += "; the cause is " + string(last.Cause)
	}
	a := gpuprof.Answer{Verdict: gpuprof.Plural(changes, "change"), Tone: last.Tone(), Sentence: text + ".",
		Bar: of.Metric.bar(last.Ratio, last.CI95)}
	if last.Worse && last.Cause != FromMachine {
		a.Action = bisectAction(last.Before, last.After)
	}
	return a
}

// bisectAction proposes a bisection for the commit of a change; nil if a commit is unknown.
func bisectAction(before, after Commit) *gpuprof.Action {
	if before.ID == "" || after.ID == "" {
		return nil
	}
	return &gpuprof.Action{
		Text:    "Find the commit by fresh measurements.",
		Command: "gpuprof bisect " + before.Short() + ".." + after.Short() + " -- COMMAND",
	}
}

// judgedText counts what was judged: "24 sessions of 2 trends".
func (r *Report) judgedText() string {
	n := 0
	for i := range r.Trends {
		for _, s := range r.Trends[i].Sessions {
			if s.LeftOut == "" {
				n++
			}
		}
	}
	return gpuprof.Plural(n, "session") + " of " + gpuprof.Plural(len(r.Trends), "trend")
}

// outranks reports whether a change of m by ratio is to be stated before another metric's change: the whole step comes
// first, then the larger change.
func (m *Metric) outranks(ratio gpuprof.Number, other *Metric, otherRatio gpuprof.Number) bool {
	if m.Total != other.Total {
		return m.Total
	}
	return changeSize(ratio) > changeSize(otherRatio)
}

// changeSize returns |log ratio|. A change from or to zero counts as the largest.
func changeSize(ratio gpuprof.Number) float64 {
	by := math.Abs(math.Log(float64(ratio)))
	if math.IsNaN(by) {
		return math.Inf(1)
	}
	return by
}

func changeText(ratio gpuprof.Number, ci [2]gpuprof.Number) string {
	return gpuprof.FormatRatioChange(float64(ratio), float64(ci[0]), float64(ci[1]))
}

func (m *Metric) bar(ratio gpuprof.Number, ci [2]gpuprof.Number) *gpuprof.Bar {
	return gpuprof.RatioBar(m.Name+", new level / old", float64(ratio), float64(ci[0]), float64(ci[1]))
}

// FormatValue formats a value in the metric's unit: counts with separators, sizes in binary units.
func (m *Metric) FormatValue(v gpuprof.Number) string {
	switch {
	case !gpuprof.IsFinite(float64(v)):
		return "unknown"
	case m.Unit == "count" || m.Unit == "":
		return gpuprof.FormatCount(float64(v))
	case m.Unit == "B":
		return gpuprof.FormatBytes(float64(v))
	}
	return gpuprof.FormatSI(float64(v), m.Unit)
}
