package fleet

import (
	"fmt"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/health"
)

// Tone rates the news of a verdict, on every surface.
func (v Verdict) Tone() gpuprof.Tone {
	switch v {
	case Even:
		return gpuprof.ToneGood
	case Waited, TooFew:
		return gpuprof.ToneUnsure
	}
	return gpuprof.ToneBad
}

// Answer is which rank is off or is waited for, at what cost and why.
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

// causeText is a cause; the usual one of such figures was not seen there.
func causeText(cause string, seen bool) string {
	if seen {
		return "cause: " + cause
	}
	return "usual cause: " + cause
}

// offSentence is the worst figure with its cause, and how many more ranks are off.
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

// OffText is a figure that is off, with its place, its size, and how rarely chance does that.
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
	if o.P < 1 { // earlier reports named figures of too few siblings, which have none
		text += " (p " + gpuprof.FormatP(float64(o.P)) + ")"
	}
	return text
}

// Place is a rank, or a GPU of it, by the names that help to find it.
func (r *Report) Place(rank int, node, device string) string {
	if r.Devices != nil { // each is a rank by itself
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

// offBar is a figure over the median of all ranks, nil where that is not known.
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

// waitingBar draws the mean step, with the part that ends if the rank is as fast as its siblings.
func waitingBar(s *Straggler) *gpuprof.Bar {
	cost := float64(s.CostS)
	step := cost / float64(s.Share) // the share is of the mean step of the replay
	if !(cost <= step) {
		return nil
	}
	return gpuprof.WholeBar("mean step", "s", step, []gpuprof.BarPart{
		{Name: "waiting for " + RanksText(s.Ranks), Value: cost}, {Name: "the rest", Value: step - cost},
	})
}
