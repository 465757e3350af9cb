package bisect

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/gpuprof/gpuprof"
)

// Answer names the commit that was found, or the reason why none was.
func (s *Search) Answer() gpuprof.Answer {
	o := s.Outcome
	if o == nil {
		return gpuprof.Answer{Verdict: "not ended", Tone: gpuprof.ToneUnsure,
			Sentence: "The search has not ended: " + cmp.Or(s.Reason, "its measurements are kept") + ".",
			Action:   &gpuprof.Action{Text: "Continue the search.", Command: "gpuprof bisect --resume"}}
	}
	switch o.Found {
	case Culprit, Range:
		return s.foundAnswer()
	case Undecided:
		return gpuprof.Answer{Verdict: "not decided", Tone: gpuprof.ToneUnsure, Bar: s.bar(),
			Sentence: s.where() + "It is not decided " + cmp.Or(o.Why, "whether BAD is worse than GOOD") + ".",
			Action:   &gpuprof.Action{Text: "Search again with a larger --budget or an older GOOD, while nothing else runs on the machine."}}
	case Nothing:
		return gpuprof.Answer{Verdict: "nothing to find", Tone: gpuprof.ToneUnsure, Bar: s.bar(),
			Sentence: s.where() + cmp.Or(o.Why, "BAD is not found to be worse than GOOD") + "."}
	}
	return s.openAnswer()
}

// where returns the beginning of the answer of a follow-up search, in a merged branch or in the remaining commits. It
// names the commit that the wider search before found. It is "" for the first search.
func (s *Search) where() string {
	n := len(s.Before)
	switch {
	case n == 0:
		return ""
	case s.Before[n-1].Commit.Merge:
		return s.earlier() + " In the merged branch alone: "
	}
	return s.earlier() + " In the rest: "
}

// earlier describes the commit that the earlier, wider search found.
func (s *Search) earlier() string {
	e := &s.Before[len(s.Before)-1]
	return fmt.Sprintf("%s was found before, %s.", e.Commit.named(), changeText(e.Effect, e.CI95))
}

// named formats the commit's short ID and subject.
func (c Commit) named() string { return c.Short() + ` "` + c.Subject + `"` }

// foundAnswer names the found commit or range, its own change, and the stage that changed most.
func (s *Search) foundAnswer() gpuprof.Answer {
	o := s.Outcome
	c := s.At(o.To)
	a := gpuprof.Answer{Verdict: "commit found", Tone: gpuprof.TonePlain, Bar: effectBar(s.Metric+", after / before", o.Effect, o.CI95),
		Action: &gpuprof.Action{Text: "Read the commit.", Command: "git show " + c.Short()}}
	who := c.named()
	if o.Found == Range {
		n := o.To - o.From
		others := fmt.Sprintf("one of %d commits before it", n)
		if n == 1 {
			others = "the commit before it"
		}
		a.Verdict, who = "range found", fmt.Sprintf("%s, or %s that cannot be measured,", who, others)
	}
	text := fmt.Sprintf("%s changed %s by %s", who, s.Metric, changeText(o.Effect, o.CI95))
	switch {
	case s.Exact && len(o.Also) > 0:
		text = fmt.Sprintf("%s changed %s from %s to %s", who, s.Metric,
			gpuprof.FormatCount(float64(o.Also[0].Old)), gpuprof.FormatCount(float64(o.Also[0].New)))
	case !gpuprof.IsFinite(float64(o.Effect)):
		text = fmt.Sprintf("%s changed %s; by how much is not certain", who, s.Metric)
	}
	if !s.Exact {
		text += fmt.Sprintf("; probability %s", FormatChance(o.P))
	}
	if st := o.Stage; st != nil && o.StagePart > 0 {
		text += fmt.Sprintf("; stage %s makes %.0f %% of it",
			st.Name[strings.LastIndex(st.Name, "/")+1:], 100*min(float64(o.StagePart), 1))
	}
	if o.Rest != nil && gpuprof.IsFinite(float64(o.Part)) {
		text += fmt.Sprintf("; it is %.0f %% of the change, and the rest lies elsewhere", 100*float64(o.Part))
	}
	a.Sentence = text + "."
	return a
}

// openAnswer answers for a search that ended without a commit.
func (s *Search) openAnswer() gpuprof.Answer {
	o := s.Outcome
	n := 0
	for _, r := range o.Set {
		n += r.To - r.From + 1
	}
	text := fmt.Sprintf("The commit is not decided: %s", cmp.Or(o.Why, "the search ended early"))
	if n > 0 {
		text += fmt.Sprintf(", and %s contain the change", gpuprof.Plural(n, "commit"))
		if !s.Exact {
			text += fmt.Sprintf(" with %.3g %% probability", 100*s.Options.Confidence)
		}
	}
	return gpuprof.Answer{Verdict: "not decided", Tone: gpuprof.ToneUnsure, Sentence: text + ".", Bar: s.bar(),
		Action: &gpuprof.Action{Text: "Continue the search with more time.", Command: "gpuprof bisect --resume --budget 4h"}}
}

// bar draws the metric's ratio of BAD to GOOD with its interval; nil without a comparison.
func (s *Search) bar() *gpuprof.Bar {
	w := s.Whole()
	if w.Quartets == 0 {
		return nil
	}
	return effectBar(s.Metric+", BAD / GOOD", w.Ratio, w.CI95)
}

func effectBar(of string, share gpuprof.Number, ci [2]gpuprof.Number) *gpuprof.Bar {
	return gpuprof.RatioBar(of, 1+float64(share), 1+float64(ci[0]), 1+float64(ci[1]))
}

// changeText formats a relative change with its interval: "+28.5 % (95 % +25.1 % to +32.0 %)".
func changeText(share gpuprof.Number, ci [2]gpuprof.Number) string {
	return cmp.Or(gpuprof.FormatRatioChange(1+float64(share), 1+float64(ci[0]), 1+float64(ci[1])), "an unknown amount")
}

// FormatChance formats a probability, at most as ">0.999".
func FormatChance(p gpuprof.Number) string {
	if p > 0.9995 {
		return ">0.999"
	}
	return gpuprof.FormatP(float64(p))
}
