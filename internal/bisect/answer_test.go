package bisect

import (
	"math"
	"testing"

	"github.com/gpuprof/gpuprof"
)

func TestAnswers(t *testing.T) {
	nan := gpuprof.Number(math.NaN())
	ci := [2]gpuprof.Number{0.251, 0.32}
	search := func(o *Outcome, edit ...func(*Search)) *Search {
		s := &Search{Metric: "step", Unit: "s", Good: Commit{ID: "0000000"}, Commits: []Commit{{ID: "1111111", Subject: "one"}, {ID: "2222222", Subject: "two"}, {ID: "3333333", Subject: "three"}}, Outcome: o,
			Options: Options{Threshold: 0.05, Confidence: 0.95}}
		for _, e := range edit {
			e(s)
		}
		return s
	}
	exact := func(s *Search) { s.Exact, s.Metric, s.Unit = true, "launches", "count" }
	after := func(merge bool) func(*Search) {
		return func(s *Search) {
			s.Before = []Earlier{{Commit: Commit{ID: "4444444", Subject: "four", Merge: merge}, P: 1, Effect: 0.5, CI95: emptyInterval()}}
		}
	}
	culprit := Outcome{Found: Culprit, From: 2, To: 2, P: 0.9983, Effect: 0.285, CI95: ci, Part: 1}
	with := func(edit func(*Outcome)) *Outcome { o := culprit; edit(&o); return &o }

	for name, c := range map[string]struct {
		s       *Search
		verdict string
		tone    gpuprof.Tone
		text    string
		command string
		ratio   float64
	}{
		"found": {search(with(func(o *Outcome) { o.Stage, o.StagePart = &Also{Name: "step/gemm"}, 0.9 })), "commit found", gpuprof.TonePlain,
			`2222222 "two" changed step by +28.5 % (95 % +25.1 % to +32.0 %); probability 0.998; stage gemm makes 90 % of it.`, "git show 2222222", 1.285},
		"a part of the change": {search(with(func(o *Outcome) { o.Part, o.Rest = 0.4, &Span{3, 3} })), "commit found", gpuprof.TonePlain,
			`2222222 "two" changed step by +28.5 % (95 % +25.1 % to +32.0 %); probability 0.998; it is 40 % of the change, and the rest lies elsewhere.`, "git show 2222222", 1.285},
		"of uncertain size": {search(with(func(o *Outcome) { o.Effect, o.Part, o.P = nan, nan, 1 })), "commit found", gpuprof.TonePlain,
			`2222222 "two" changed step; by how much is not certain; probability >0.999.`, "git show 2222222", 0},
		"one that cannot be measured": {search(with(func(o *Outcome) { o.Found, o.From = Range, 1 })), "range found", gpuprof.TonePlain,
			`2222222 "two", or the commit before it that cannot be measured, changed step by +28.5 % (95 % +25.1 % to +32.0 %); probability 0.998.`, "git show 2222222", 1.285},
		"several that cannot": {search(with(func(o *Outcome) { o.Found, o.From, o.To = Range, 1, 3 })), "range found", gpuprof.TonePlain,
			`3333333 "three", or one of 2 commits before it that cannot be measured, changed step by +28.5 % (95 % +25.1 % to +32.0 %); probability 0.998.`, "git show 3333333", 1.285},
		"a counter": {search(&Outcome{Found: Culprit, From: 1, To: 1, P: 1, Effect: gpuprof.Number(math.Inf(1)), CI95: emptyInterval(), Part: 1, Also: []Also{{Name: "launches", Old: 0, New: 12345}}}, exact), "commit found", gpuprof.TonePlain,
			`1111111 "one" changed launches from 0 to 12,345.`, "git show 1111111", 0},
		"open": {search(&Outcome{Found: Open, From: 1, To: 3, Why: "the budget ended", Set: []Span{{1, 1}, {3, 3}}}), "not decided", gpuprof.ToneUnsure,
			"The commit is not decided: the budget ended, and 2 commits contain the change with 95 % probability.", "gpuprof bisect --resume --budget 4h", 0},
		"open, a counter": {search(&Outcome{Found: Open, From: 1, To: 3, Why: "the budget ended", Set: []Span{{1, 3}}}, exact), "not decided", gpuprof.ToneUnsure,
			"The commit is not decided: the budget ended, and 3 commits contain the change.", "gpuprof bisect --resume --budget 4h", 0},
		"undecided": {search(&Outcome{Found: Undecided, Why: "whether BAD is slower than GOOD by 5 % in step"}), "not decided", gpuprof.ToneUnsure,
			"It is not decided whether BAD is slower than GOOD by 5 % in step.", "", 0},
		"nothing": {search(&Outcome{Found: Nothing, Why: "BAD is not found slower than GOOD by 5 %: step is same"}), "nothing to find", gpuprof.ToneUnsure,
			"BAD is not found slower than GOOD by 5 %: step is same.", "", 0},
		"nothing in the rest": {search(&Outcome{Found: Nothing}, after(false)), "nothing to find", gpuprof.ToneUnsure,
			`4444444 "four" was found before, +50.0 %. In the rest: BAD is not found to be worse than GOOD.`, "", 0},
		"undecided in a branch": {search(&Outcome{Found: Undecided}, after(true)), "not decided", gpuprof.ToneUnsure,
			`4444444 "four" was found before, +50.0 %. In the merged branch alone: It is not decided whether BAD is worse than GOOD.`, "", 0},
		"not ended":   {search(nil, func(s *Search) { s.Reason = "interrupted" }), "not ended", gpuprof.ToneUnsure, "The search has not ended: interrupted.", "gpuprof bisect --resume", 0},
		"not started": {search(nil), "not ended", gpuprof.ToneUnsure, "The search has not ended: its measurements are kept.", "gpuprof bisect --resume", 0},
	} {
		a := c.s.Answer()
		command, ratio := "", 0.0
		if a.Action != nil {
			command = a.Action.Command
		}
		if a.Bar != nil {
			ratio = a.Bar.Ratio.Value
		}
		if a.Verdict != c.verdict || a.Tone != c.tone || a.Sentence != c.text || command != c.command || math.Abs(ratio-c.ratio) > 1e-9 {
			t.Errorf("%s: got %s (%s): %s %q %g", name, a.Verdict, a.Tone, a.Sentence, command, ratio)
		}
	}
}
