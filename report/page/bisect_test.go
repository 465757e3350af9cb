package page

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/bisect"
)

// searched is a search of twelve commits whose seventh is 6 % slower.
func searched() *bisect.Search {
	s := &bisect.Search{Range: "v1..main", Good: bisect.Commit{ID: "0000000aaaa"}, Metric: "step", Unit: "s", Status: gpuprof.Complete,
		Options: bisect.Options{Confidence: 0.95, Scatter: 0.003, ScatterFrom: "assumed", BudgetS: 3600}}
	for i := range 12 {
		s.Commits = append(s.Commits, bisect.Commit{ID: fmt.Sprintf("%07dbbbb", i+1), Subject: fmt.Sprintf("change %d", i+1), Merge: i == 6})
	}
	add := func(commit, against int, change float64) bisect.Quartet {
		a, b := gpuprof.Number(1), gpuprof.Number(math.Exp(change))
		return bisect.Quartet{Commit: commit, Against: against, Values: [4]gpuprof.Number{a, b, b, a}, Seconds: 20,
			Also: []bisect.Also{{Name: "step/gemm", Unit: "s", Old: 0.5, New: gpuprof.Number(0.5 + change)}, {Name: "launches", Exact: true, Old: 40, New: 40 + gpuprof.Number(math.Round(20*change))}}}
	}
	for range 9 {
		s.Check = append(s.Check, add(12, 0, 0.06))
	}
	s.Builds = []bisect.Build{{Commit: 0, Seconds: 60}, {Commit: 12, Seconds: 60}}
	s.Failed = []bisect.Failure{{Commit: 3, Why: "does not compile"}}
	for _, q := range []struct {
		commit, against int
		change          float64
	}{{6, 0, 0}, {6, 0, 0.001}, {7, 0, 0.06}, {7, 0, 0.061}, {7, 6, 0.06}, {7, 6, 0.06}, {7, 6, 0.061}, {7, 6, 0.059}} {
		s.Add(add(q.commit, q.against, q.change))
	}
	s.Finish()
	return s
}

// sentences are all texts of a page.
func sentences(t *testing.T, s *bisect.Search) string {
	t.Helper()
	p, err := Bisect(s)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	b.WriteString(p.Answer.Verdict + ": " + p.Answer.Sentence + "\n")
	if p.Answer.Action != nil {
		b.WriteString(p.Answer.Action.Command + "\n")
	}
	b.WriteString(strings.Join(append([]string{p.Title, p.Answer.Verdict, p.Answer.Sentence}, p.Meta...), "; ") + "\n")
	for _, sec := range p.Sections {
		for _, block := range sec.Blocks {
			switch x := block.(type) {
			case Text:
				b.WriteString(x.S + "\n")
			case Lines:
				for _, l := range x.Lines {
					b.WriteString(l.Label + " " + l.Value + "\n")
				}
			case List:
				for _, i := range x.Items {
					b.WriteString(i.Text + "\n")
				}
			case Table:
				for _, r := range x.Rows {
					for _, c := range r.Cells {
						b.WriteString(c.Text + " | ")
					}
					b.WriteString("\n")
				}
			}
		}
	}
	return b.String()
}

func TestBisectSaysWhatItCameTo(t *testing.T) {
	t.Parallel()
	holds := func(s *bisect.Search, wants ...string) {
		t.Helper()
		text := sentences(t, s)
		for _, want := range wants {
			if !strings.Contains(text, want) {
				t.Errorf("%q is missing in:\n%s", want, text)
			}
		}
	}
	s := searched()
	holds(s, "bisect v1..main", "12 commits", "step +6.2 % (", `0000007 "change 7" changed step by +6.2 %`, "probability >0.999",
		"stage gemm +12.0 %, 97 % of the change", "launches 40 -> 41", "2 builds, 17 quartets", "not measurable: 1 (does not compile), 0 of them in the result", "git show 0000007", "gpuprof bisect $(git merge-base 0000007^1 0000007^2)..0000007^2",
		"0000007 on 0000006", "0000003: does not compile")

	whole := *s.Outcome
	s.Outcome.Rest, s.Outcome.Part = &bisect.Span{From: 8, To: 12}, 0.4
	holds(s, "40 % of the change", "the rest of the change lies in 0000007..0000012: 5 commits", "gpuprof bisect 0000007..0000012")

	*s.Outcome = whole
	s.Outcome.Found, s.Outcome.From = bisect.Range, 5
	holds(s, "or one of 2 commits before it that cannot be measured")

	s.Outcome = &bisect.Outcome{Found: bisect.Open, From: 5, To: 7, Why: "the budget ended", Set: []bisect.Span{{From: 5, To: 7}, {From: 9, To: 9}}}
	holds(s, "The commit is not decided: the budget ended", "the smallest set of commits with 95 %: 0000005 to 0000007 (3), 0000009", "gpuprof bisect --resume")

	s.Outcome = &bisect.Outcome{Found: bisect.Nothing, Why: "BAD is not slower"}
	holds(s, "nothing to find: BAD is not slower")

	s.Outcome = nil
	holds(s, "not ended")
}
