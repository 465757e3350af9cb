package tune

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof"
)

// Tone returns how good a verdict is, for its colour in terminal, page and comment.
func (v Verdict) Tone() gpuprof.Tone {
	switch v {
	case Faster, Less:
		return gpuprof.ToneGood
	case Slower, More, Failed:
		return gpuprof.ToneBad
	case Inconclusive, Refused, Stopped:
		return gpuprof.ToneUnsure
	}
	return gpuprof.TonePlain
}

// Answer states the setting to use and its gain, or why no setting is recommended.
func (r *Result) Answer() gpuprof.Answer {
	c := r.Conclusion
	a := gpuprof.Answer{Tone: gpuprof.ToneUnsure, Sentence: firstClauses(c.Text)}
	switch {
	case len(r.Claims) > 0:
		return r.claimsAnswer()
	case r.Status != gpuprof.Complete && r.Recommended == nil:
		return r.partialAnswer()
	case r.Recommended != nil:
		return r.recommendedAnswer()
	case c.Verdict == DefaultBest:
		a.Verdict, a.Tone = "default is best", gpuprof.ToneGood
		if r.Program != nil && len(r.Effects) == 0 {
			a.Verdict, a.Tone = "nothing to tune", gpuprof.TonePlain
		}
	case c.Verdict == Unconfirmed:
		a.Verdict = "not confirmed"
	case c.Verdict == NothingFits:
		a.Verdict = "nothing fits"
	default:
		a.Verdict = "not decided"
	}
	if a.Sentence == "" {
		a.Sentence = "No setting is recommended; the reason was not recorded."
	}
	if a.Tone == gpuprof.ToneUnsure {
		a.Action = &gpuprof.Action{Text: "Give the search more time with --budget, or measure on an idle machine."}
		if c.Verdict == NothingFits {
			a.Action.Text = "Raise the limit, or start from a smaller setting."
		}
	}
	return a
}

func (r *Result) partialAnswer() gpuprof.Answer {
	return gpuprof.Answer{
		Verdict: "not ended", Tone: gpuprof.ToneUnsure,
		Sentence: fmt.Sprintf("The search did not come to its end, so nothing is recommended: %s.", r.endReason()),
		Action:   resumeAction(),
	}
}

func (r *Result) endReason() string {
	return strings.TrimSuffix(cmp.Or(r.Reason, "it can be continued"), ".")
}

func resumeAction() *gpuprof.Action {
	return &gpuprof.Action{Text: "Continue it with --resume and the file that it left."}
}

func (r *Result) recommendedAnswer() gpuprof.Answer {
	rec := r.Recommended
	goal := "cost"
	if slices.Contains(Goals(), r.Goal) {
		goal = string(r.Goal)
	}
	change := gpuprof.FormatRatioChange(rec.Ratio, rec.CI95[0], rec.CI95[1])
	setting := cmp.Or(DescribeSettings(rec.Knobs), "the setting")
	text := fmt.Sprintf("%s changes %s by %s against the default%s", setting, goal,
		cmp.Or(change, "an unknown amount"), confirmedIn(rec.Processes))
	a := gpuprof.Answer{
		Verdict: "recommended", Tone: gpuprof.ToneGood,
		Action: &gpuprof.Action{Text: "Run the recommended setting.", Command: r.Conclusion.Command},
	}
	of := goal + ", recommended / default"
	if p := r.Program; p != nil {
		of = "speed, recommended / as it is"
		text = fmt.Sprintf("%s makes the program %s times as fast (%s)%s; losses: %s",
			setting, gpuprof.FormatFactor(rec.Ratio),
			cmp.Or(gpuprof.FormatInterval(2, rec.CI95[0], rec.CI95[1]), "without an interval"),
			confirmedIn(rec.Processes), p.Losses.Text())
		if len(p.Patch) > 0 {
			a.Action.Text = "Change the program: " + strings.Join(p.Patch, "; ")
		}
	}
	a.Sentence = text + "."
	if r.Status != gpuprof.Complete {
		a.Sentence = text + "; the search did not come to its end."
	}
	a.Bar = gpuprof.RatioBar(of, rec.Ratio, rec.CI95[0], rec.CI95[1])
	return a
}

// confirmedIn counts the fresh processes that confirmed a setting; "" if the file lacks the number.
func confirmedIn(n int) string {
	if n < 1 {
		return ""
	}
	return ", confirmed in " + gpuprof.Plural(n, "fresh process")
}

// DescribeSettings formats settings as "impl=csr sync=never", in the order of their names.
func DescribeSettings(set gpuprof.Settings) string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(set)) {
		out = append(out, k+"="+set[k])
	}
	return strings.Join(out, " ")
}

// firstClauses returns the first two clauses of a conclusion as a sentence: the outcome and the number of changes.
func firstClauses(text string) string {
	parts := strings.SplitN(text, "; ", 3)
	return gpuprof.AsSentence(strings.Join(parts[:min(len(parts), 2)], "; "))
}

// claimsAnswer counts the claims by verdict, and names the first refuted claim.
func (r *Result) claimsAnswer() gpuprof.Answer {
	count := map[string]int{}
	opposite := ""
	for _, c := range r.Claims {
		count[c.Verdict]++
		if c.Verdict == ClaimOpposite && opposite == "" {
			opposite = c.ID
		}
	}
	var parts []string
	for _, v := range slices.Sorted(maps.Keys(count)) {
		parts = append(parts, fmt.Sprintf("%d %s", count[v], cmp.Or(v, "without a verdict")))
	}
	claims := "1 claim of tuning guides was tested here"
	if len(r.Claims) > 1 {
		claims = fmt.Sprintf("%d claims of tuning guides were tested here", len(r.Claims))
	}
	text := claims + ": " + strings.Join(parts, ", ")
	if opposite != "" {
		text += "; the opposite holds of " + opposite
	}
	a := gpuprof.Answer{
		Verdict: fmt.Sprintf("%d of %d confirmed", count[ClaimConfirmed], len(r.Claims)),
		Tone:    gpuprof.TonePlain, Sentence: text + ".",
	}
	if r.Status != gpuprof.Complete {
		a.Tone, a.Sentence = gpuprof.ToneUnsure, text+"; the test did not come to its end: "+r.endReason()+"."
		a.Action = resumeAction()
	}
	return a
}
