package gpuprof

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// Answer summarizes a run: its status with the reason, or the step time with the stage that takes most of it.
func (r *Run) Answer() Answer {
	switch {
	case r.Status == Invalid:
		text := sentenceOf(r.Reason, "The implementation disagrees with its reference")
		if !strings.Contains(text, "no times are reported") {
			text += "; no times are reported"
		}
		return Answer{Verdict: "invalid", Tone: ToneBad, Sentence: text + "."}
	case !r.Step.Usable() && len(r.StageShares()) == 0:
		return Answer{Verdict: "not measured", Tone: ToneUnsure, Sentence: sentenceOf(r.Reason, "No sample of a step was taken") + "."}
	}
	out := Answer{Verdict: "complete", Tone: ToneGood, Sentence: r.stepText() + ".", Bar: WholeBar("exposed time by stage", "1", 1, r.StageShares()), Action: r.action()}
	if q := r.Requests; q != nil { // a service is summarized by its latency
		out.Bar = nil
		if p, ok := q.Latency.At(0.99); ok && q.Told() == 1 {
			out.Sentence = fmt.Sprintf("99 of 100 requests are answered within %s; a step takes %s.", FormatSeconds(p.S), Format(r.Step.median(), "s", r.Step.Digits()))
		}
	}
	switch {
	case r.Status == Partial:
		out.Verdict, out.Tone, out.Action = "partial", ToneUnsure, nil // an incomplete run does not justify a change
		out.Sentence = sentenceOf(r.Reason, "The run did not come to its end") + ". " + out.Sentence
	case r.Status != Complete:
		out.Verdict, out.Tone = "unknown status", ToneUnsure
	}
	return out
}

// sentenceOf capitalizes a reason and removes its full stop; without a reason it returns otherwise.
func sentenceOf(reason, otherwise string) string {
	if reason = strings.TrimRight(strings.TrimSpace(reason), "."); reason == "" {
		return otherwise
	}
	return strings.ToUpper(reason[:1]) + reason[1:]
}

// stepText states the step time with its interval, and the stage that takes most of it.
func (r *Run) stepText() string {
	text := "The time of a step is unknown"
	if r.Step.Usable() {
		n := r.Step.Digits()
		text = "A step takes " + Format(r.Step.Median, "s", n)
		if low, high := r.Step.CI95[0], r.Step.CI95[1]; r.Step.CI95.Known() && !math.IsInf(low, 0) && !math.IsInf(high, 0) {
			text += fmt.Sprintf(" [%s, %s]", Format(low, "s", n), Format(high, "s", n))
		}
	}
	shares := r.StageShares()
	if len(shares) == 0 {
		return text
	}
	most := slices.MaxFunc(shares, func(a, b BarPart) int {
		if a.Value < b.Value {
			return -1
		}
		return 1
	})
	how := "most of it"
	if most.Value < 0.5 {
		how = "the largest part"
	}
	return fmt.Sprintf("%s, %s in %s (%.1f %%)", text, how, most.Name, 100*most.Value)
}

// StageShares returns the stages' shares of all exposed time, in the order of the step. It adds up samples, since a
// median would drop a stage that only some steps have.
func (r *Run) StageShares() []BarPart {
	var out []BarPart
	total := 0.0
	for i := range r.Stages {
		s := &r.Stages[i]
		if s.Parent != StageStep {
			continue
		}
		v := s.Exposed.Total()
		total += v
		out = append(out, BarPart{Name: s.Name, Value: v})
	}
	if !isPositive(total) {
		return nil
	}
	for i := range out {
		out[i].Value /= total
	}
	return out
}

// action returns the change that the first finding proposes.
func (r *Run) action() *Action {
	if len(r.Findings) == 0 {
		return nil
	}
	f := &r.Findings[0]
	switch {
	case f.Knob != "" && f.Command != "":
		return &Action{Text: fmt.Sprintf("Set %s from %s to %s, and measure both:", f.Knob, f.From, f.To), Command: f.Command}
	case f.Rule == RuleNoise && f.PyTorch != "": // the measurement is to change, not the program
		return &Action{Text: AsSentence(f.PyTorch), Command: f.Command}
	case f.PyTorch != "":
		return &Action{Text: "Change: " + f.PyTorch, Command: f.Command}
	}
	return nil
}

// Usable reports whether a series has a finite median.
func (s *Series) Usable() bool {
	return s != nil && IsFinite(s.Median)
}

// median is the median of a series, NaN without one.
func (s *Series) median() float64 {
	if !s.Usable() {
		return math.NaN()
	}
	return s.Median
}

// Total returns the sum of a series' finite samples, negative ones as 0; without samples the median, without a median
// 0.
func (s *Series) Total() float64 {
	if !s.Usable() {
		return 0
	}
	total, n := 0.0, 0
	for _, run := range s.Runs {
		for _, v := range run {
			if IsFinite(v) {
				total, n = total+max(v, 0), n+1
			}
		}
	}
	if n == 0 {
		return max(s.Median, 0)
	}
	return total
}

// mostDigits limits the significant digits of a series' figures.
const mostDigits = 5

// Digits returns the number of significant digits to print: the constant Digits, or more if both ends of the interval
// would look equal.
func (s *Series) Digits() int {
	if s == nil || !s.CI95.Known() || math.IsInf(s.CI95[0], 0) || math.IsInf(s.CI95[1], 0) || s.CI95[0] == s.CI95[1] {
		return Digits
	}
	for n := Digits; n < mostDigits; n++ {
		if Rounded(s.CI95[0], n) != Rounded(s.CI95[1], n) {
			return n
		}
	}
	return mostDigits
}
