package fleet

import (
	"fmt"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/health"
)

// Tone returns how good a verdict is; terminal, page and pull-request comment colour it by the tone.
func (v Verdict) Tone() gpuprof.Tone {
	switch v {
	case Even:
		return gpuprof.ToneGood
	case Waited, TooFew:
		return gpuprof.ToneUnsure
	}
	return gpuprof.ToneBad
}

// Answer states which rank is off or delays the others, with cost and cause.
func (r *Report) Answer() gpuprof.Answer {
	a := gpuprof.Answer{Verdict: string(r.Verdict), Tone: r.Verdict.Tone(), Sentence: "The reason was not recorded."}
	if r.Verdict == TooFew {
		a.Verdict = "too few to compare"
	}
	if r.Reason != "" {
		a.Sentence = gpuprof.AsSentence(r.Reason)
	}
	switch {
	case r.Verdict == Uneven && len(r.Off) > 0:
		o := r.Off[0]
		a.Sentence = r.offSentence(&o)
		a.Bar, a.Action = r.offBar(&o), gpuprof.FixAction(o.Fix)
	case (r.Verdict == Waited || r.Verdict == Uneven) && r.Waiting != nil && len(r.Waiting.Stragglers) > 0:
		s := &r.Waiting.Stragglers[0]
		if s.Cause != "" {
			a.Sentence = gpuprof.AsSentence(r.Reason + "; " + causeText(s.Cause, s.Evidence))
		}
		a.Bar, a.Action = waitingBar(s), gpuprof.FixAction(s.Fix)
	case r.Verdict == Broken && len(r.Problems) > 0:
		a.Action = &gpuprof.Action{Text: gpuprof.AsSentence("correct what was left out first: " + r.Problems[0])}
	}
	return a
}

// causeText formats a cause. seen reports that it was observed; otherwise it is only the usual cause.
func causeText(cause string, seen bool) string {
	if seen {
		return "cause: " + cause
	}
	return "usual cause: " + cause
}

// offSentence describes the worst figure with its cause, and counts the other ranks that are off.
func (r *Report) offSentence(o *Off) string {
	text := r.OffText(o)
	if o.Cause != "" {
		text += "; " + causeText(o.Cause, o.Evidence)
	}
	if more := len(r.ranksOff()) - 1; more > 0 {
		noun := "rank"
		if r.Devices != nil {
			noun = "device"
		}
		if more > 1 {
			text += fmt.Sprintf("; %d more %ss are off", more, noun)
		} else {
			text += "; 1 more " + noun + " is off"
		}
	}
	return text + "."
}

// OffText describes a figure that is off, with place, size and p-value.
func (r *Report) OffText(o *Off) string {
	text := o.Metric + " of " + r.Place(o.Rank, o.Node, o.Device)
	if v := float64(o.Value); !gpuprof.IsFinite(v) {
		return text
	}
	text += fmt.Sprintf(": %s, %s worse than ", health.FormatFigure(float64(o.Value), o.Unit),
		gpuprof.FormatPercent(float64(o.Worse), 2))
	if o.Siblings == 0 {
		return text + "it should be"
	}
	text += fmt.Sprintf("the median of %d siblings", o.Siblings)
	if o.P < 1 { // older reports also name figures with too few siblings, which were not tested
		text += " (p " + gpuprof.FormatP(float64(o.P)) + ")"
	}
	return text
}

// Place names a rank, or one of its GPUs, so that a user can find it.
func (r *Report) Place(rank int, node, device string) string {
	if r.Devices != nil { // each device is a rank
		return device
	}
	text := fmt.Sprint("rank ", rank)
	if device != "" {
		text = device + " of " + text
	}
	if node != "" {
		text += " on " + NodeText(node)
	}
	return text
}

// offBar compares a figure with the median of all ranks; nil if the median is unknown.
func (r *Report) offBar(o *Off) *gpuprof.Bar {
	for i := range r.Metrics {
		m := &r.Metrics[i]
		if m.Name == o.Metric {
			of := o.Metric + ", " + r.Place(o.Rank, o.Node, o.Device) + " / median"
			return gpuprof.RatioBar(of, float64(o.Value/m.Median), 0, 0)
		}
	}
	return nil
}

// waitingBar draws the mean step, divided into the time that the straggler costs and the remainder.
func waitingBar(s *Straggler) *gpuprof.Bar {
	cost := float64(s.CostS)
	step := cost / float64(s.Share) // Share is CostS over the mean step
	if !(cost <= step) {
		return nil
	}
	return gpuprof.WholeBar("mean step", "s", step, []gpuprof.BarPart{
		{Name: "waiting for " + RanksText(s.Ranks), Value: cost}, {Name: "the rest", Value: step - cost},
	})
}
