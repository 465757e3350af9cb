package analyze

import (
	"fmt"

	"github.com/gpuprof/gpuprof"
)

// Answer states the change of the mean step with its interval, and the part of the step that changed most.
func (c *Comparison) Answer() gpuprof.Answer {
	switch {
	case !c.Comparable():
		return gpuprof.Answer{Verdict: "not comparable", Tone: gpuprof.ToneUnsure, Sentence: gpuprof.AsSentence(c.Headline()),
			Action: &gpuprof.Action{Text: "Record both sides with the same marks of steps."}}
	case c.Old.Step.Count == 0:
		return gpuprof.Answer{Verdict: "windows compared", Tone: gpuprof.TonePlain, Sentence: gpuprof.AsSentence(c.Headline() + "; without steps a change is not judged"), Bar: c.stepRatioBar()}
	case c.StepOldNS == c.StepNewNS:
		return gpuprof.Answer{Verdict: "no change", Tone: gpuprof.TonePlain, Sentence: fmt.Sprintf("The mean step is %s on both sides.", gpuprof.FormatNS(c.StepNewNS))}
	}
	a := gpuprof.Answer{Verdict: "not decided", Tone: gpuprof.ToneUnsure, Bar: c.stepRatioBar()}
	half, ok := c.StepNoise()
	change := c.StepNewNS - c.StepOldNS
	switch {
	case !ok:
		a.Sentence = c.changeSentence("; one step on a side does not tell that from noise")
		a.Action = &gpuprof.Action{Text: "Record more steps of both sides."}
		return a
	case abs(change) <= half:
		a.Verdict = "no change shown"
		a.Sentence = c.changeSentence("; that is within the noise of the steps") + c.claimSentence()
		a.Action = &gpuprof.Action{Text: "Record more steps, or let gpuprof gate measure both sides in one job."}
		return a
	case change < 0:
		a.Verdict, a.Tone = "faster", gpuprof.ToneGood
	default:
		a.Verdict, a.Tone = "slower", gpuprof.ToneBad
	}
	a.Sentence = c.changeSentence(c.largestChange())
	if change > 0 {
		a.Sentence += c.claimSentence()
	}
	return a
}

// claimSentence names the finding that saved the most time as it had claimed, for comparisons in which the mean step
// did not become shorter; "" if no claim came true.
func (c *Comparison) claimSentence() string {
	var best *FindingChange
	for i := range c.Findings {
		if f := &c.Findings[i]; f.CameTrue == "yes" && (best == nil || f.DeliveredNS > best.DeliveredNS) {
			best = f
		}
	}
	if best == nil {
		return ""
	}
	return fmt.Sprintf(" %s of the %s that %s claimed.", upperFirst(best.deliveredText(c)), gpuprof.FormatNS(best.OldNS), best.Rule)
}

// stepRatios returns new/old of the mean step, and the bounds of its interval (0 if unknown).
func (c *Comparison) stepRatios() (ratio, low, high float64) {
	old, now := float64(c.StepOldNS), float64(c.StepNewNS)
	if half, ok := c.StepNoise(); ok && float64(half) < now {
		low, high = (now-float64(half))/old, (now+float64(half))/old
	}
	return now / old, low, high
}

// changeSentence returns "The mean step is 14.7 ms, was 27.0 ms: -45.6 % (95 % …)", and appends the text more.
func (c *Comparison) changeSentence(more string) string {
	ratio, low, high := c.stepRatios()
	return fmt.Sprintf("The mean step is %s, was %s: %s%s.", gpuprof.FormatNS(c.StepNewNS), gpuprof.FormatNS(c.StepOldNS), gpuprof.FormatRatioChange(ratio, low, high), more)
}

// largestChange names the part of the step with the largest change in the direction in which the step changed.
func (c *Comparison) largestChange() string {
	change := c.StepNewNS - c.StepOldNS
	for _, part := range c.Classes {
		if by := part.NewNS - part.OldNS; by < 0 == (change < 0) && by != 0 {
			sign := "+"
			if by < 0 {
				sign = "-"
			}
			return fmt.Sprintf("; %s changed most, by %s%s", part.Name, sign, gpuprof.FormatNS(abs(by)))
		}
	}
	return ""
}

// stepRatioBar returns the ratio new/old of the mean steps as a bar to draw; without steps, of the recording windows.
func (c *Comparison) stepRatioBar() *gpuprof.Bar {
	label := "mean step, new / old"
	if c.Old.Step.Count == 0 {
		label = "recording window, new / old"
	}
	ratio, low, high := c.stepRatios()
	return gpuprof.RatioBar(label, ratio, low, high)
}
