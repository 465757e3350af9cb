package page

import (
	"fmt"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/bisect"
	"github.com/gpuprof/gpuprof/internal/compare"
	"github.com/gpuprof/gpuprof/report/figure"
	"github.com/gpuprof/gpuprof/report/internal/view"
)

// Bisect builds the page of a search for a commit: result, cost, measured commits, and every commit's probability.
func Bisect(s *bisect.Search) (*Page, error) {
	if s == nil {
		return nil, view.ErrNoRun("a bisection")
	}
	p := &Page{Title: "bisect " + s.Range, Meta: bisectMeta(s), Date: view.Date(s.Started), Answer: s.Answer(), Footer: "Each measurement moves the probabilities of the commits; none of them decides alone.", Tool: toolText(s.Tool), Data: jsonData("bisect.json", s)}
	p.Sections = []Section{
		{ID: "commit", Heading: "Result", HeadingIn: HTML, Blocks: bisectResult(s)},
		{ID: "probes", Heading: "Measured commits", HeadingIn: Markdown | HTML, Blocks: []Block{probeTable(s)}},
		{ID: "posterior", Heading: "Probability of each commit", HeadingIn: Markdown | HTML, Blocks: []Block{
			Chart{ID: "posterior-chart", Narrow: true, Figure: func() *figure.Figure { return figure.Chances(s) }, Note: "Top: the probability that the change came with a commit. Bottom: the measured commits against GOOD with 95 % intervals; dashed: BAD."}, chanceTable(s)}},
		{ID: "unusable", Heading: "Commits that cannot be measured", HeadingIn: Markdown | HTML, In: Verbose, Blocks: []Block{unusableList(s)}},
		{ID: "method", Heading: "Method", HeadingIn: HTML, Blocks: []Block{bisectMethod(s)}},
	}
	return p, nil
}

func bisectMeta(s *bisect.Search) []string {
	out := []string{gpuprof.Plural(s.N(), "commit")}
	if w := s.Whole(); w.Quartets > 0 {
		out = append(out, s.Metric+" "+changeWith(w.Ratio, w.CI95))
	}
	return out
}

// changeWith formats a change, with its interval if known.
func changeWith(ratio gpuprof.Number, ci [2]gpuprof.Number) string {
	text := gpuprof.FormatChange(float64(ratio))
	if !gpuprof.IsFinite(float64(ratio)) {
		text = "not known"
	}
	if gpuprof.IsFinite(float64(ci[0])) && gpuprof.IsFinite(float64(ci[1])) {
		text += fmt.Sprintf(" (%+.1f to %+.1f)", 100*float64(ci[0]), 100*float64(ci[1]))
	}
	return text
}

// bisectResult lists facts that the answer omits: earlier culprits, remaining commits, counters and costs.
func bisectResult(s *bisect.Search) []Block {
	o := s.Outcome
	if o == nil {
		return nil
	}
	var out []Block
	for _, e := range s.Before {
		out = append(out, Text{S: fmt.Sprintf("culprit %s %q (P %s), its parent against it %s", e.Commit.Short(), e.Commit.Subject, bisect.FormatChance(e.P), changeWith(e.Effect, e.CI95)), As: Lead})
	}
	switch o.Found {
	case bisect.Nothing, bisect.Undecided:
		return out
	case bisect.Open:
		out = append(out, Text{S: fmt.Sprintf("the smallest set of commits with %g %%: %s", 100*s.Options.Confidence, spansText(s, o.Set)), As: Lead, Tone: Unsure})
	}
	return append(out, Lines{Lines: bisectFacts(s)})
}

// spansText names parts of the range by first and last commit.
func spansText(s *bisect.Search, spans []bisect.Span) string {
	var out []string
	for _, r := range spans {
		text := s.At(r.From).Short()
		if r.From < r.To {
			text = fmt.Sprintf("%s to %s (%d)", text, s.At(r.To).Short(), r.To-r.From+1)
		}
		out = append(out, text)
	}
	return strings.Join(out, ", ")
}

// bisectFacts lists the stage that changed most, the counters that changed, the cost and the next commands.
func bisectFacts(s *bisect.Search) []Line {
	o := s.Outcome
	var lines []Line // a terminal short of lines drops the last ones first
	if o.Rest != nil {
		rest := fmt.Sprintf("%s..%s", s.At(o.Rest.From-1).Short(), s.At(o.Rest.To).Short())
		lines = append(lines, Line{Label: "rest", Value: fmt.Sprintf("the rest of the change lies in %s: %s", rest, gpuprof.Plural(o.Rest.To-o.Rest.From+1, "commit"))},
			Line{Label: "next", Value: "gpuprof bisect " + rest, Code: true, Note: asBefore})
	}
	if st := o.Stage; st != nil {
		text := fmt.Sprintf("%s %s", st.Name[strings.LastIndex(st.Name, "/")+1:], gpuprof.FormatChange(float64((st.New-st.Old)/st.Old)))
		if o.StagePart != 0 {
			text += fmt.Sprintf(", %.0f %% of the change", 100*float64(o.StagePart))
		}
		lines = append(lines, Line{Label: "stage", Value: text})
	}
	var counters []string
	for _, c := range o.Also {
		counters = append(counters, fmt.Sprintf("%s %s -> %s", c.Name, compare.FormatMetric(float64(c.Old), c.Unit, true), compare.FormatMetric(float64(c.New), c.Unit, true)))
	}
	lines = append(lines, dropEmpty(Line{Label: "counters", Value: strings.Join(counters, ", ")})...)
	if o.Drift != 0 {
		lines = append(lines, Line{Label: "drift", Value: fmt.Sprintf("GOOD itself drifted by %s over the search, more than the change that was looked for", gpuprof.FormatChange(float64(o.Drift))), Tone: Unsure})
	}
	cost := Line{Label: "cost", Value: costText(s)}
	if o.Found == bisect.Open {
		return append(lines, cost)
	}
	if m := s.At(o.To).Short(); s.At(o.To).Merge {
		lines = append(lines, Line{Label: "next", Value: fmt.Sprintf("gpuprof bisect $(git merge-base %s^1 %s^2)..%s^2", m, m, m), Code: true, Note: "the commit is a merge, and this searches the merged branch, " + asBefore})
	}
	return append(lines, cost)
}

// asBefore completes a command that lacks the search's options.
const asBefore = "with the options and the command of this search"

func costText(s *bisect.Search) string {
	builds := 0
	for _, b := range s.Builds {
		if !b.Cached {
			builds++
		}
	}
	text := fmt.Sprintf("%s, %s, %s", gpuprof.Plural(builds, "build"), gpuprof.Plural(len(s.Check)+len(s.Quartet), measurementOf(s)), gpuprof.FormatSeconds(s.Spent()))
	if n := len(s.Failed); n > 0 {
		inside := 0
		for _, f := range s.Failed {
			if o := s.Outcome; o != nil && f.Commit >= o.From && f.Commit <= o.To {
				inside++
			}
		}
		text += fmt.Sprintf("; not measurable: %d (%s), %d of them in the result", n, s.Failed[0].Why, inside)
	}
	return text
}

// measurementOf returns the noun for counting measurements: process, or quartet (four processes: old, new, new, old).
func measurementOf(s *bisect.Search) string {
	if s.Exact {
		return "process"
	}
	return "quartet"
}

// probeTable has a row per measured pair of commits.
func probeTable(s *bisect.Search) Table {
	t := Table{Name: "Table of measured commits", Noun: "measured commit", Max: [3]int{12, 40, 0}, Columns: []Column{
		{Title: "probe"}, {Title: "commit", Left: true}, {Title: measurementOf(s) + "s"}, {Title: "change", Left: true}, {Title: "P(here or before)"}, {Title: "subject", Left: true, Drop: 1, Most: 60}}}
	for i, m := range s.Measured() {
		name := s.At(m.Commit).Short()
		if m.Against > 0 {
			name += " on " + s.At(m.Against).Short()
		}
		t.Rows = append(t.Rows, Row{Cells: []Cell{{Text: fmt.Sprint(i + 1)}, {Text: name}, {Text: fmt.Sprint(m.Quartets)},
			{Text: changeWith(m.Ratio, m.CI95), Value: float64(m.Ratio), Unit: "1"}, {Text: bisect.FormatChance(m.P), Value: float64(m.P), Unit: "1"}, {Text: s.At(m.Commit).Subject}}})
	}
	return t
}

// chanceTable has a row per commit that is not excluded.
func chanceTable(s *bisect.Search) Table {
	t := Table{Name: "Table of probabilities", Noun: "commit", Max: [3]int{40, 40, 200}, In: Verbose, Columns: []Column{{Title: "commit", Left: true}, {Title: "probability"}, {Title: "subject", Left: true, Drop: 1, Most: 60}}}
	for i, c := range s.Chances {
		if c < 0.0005 {
			continue
		}
		commit := s.At(i + 1)
		t.Rows = append(t.Rows, Row{Cells: []Cell{{Text: commit.Short()}, {Text: view.Percent(float64(c)), Value: float64(c), Unit: "1"}, {Text: commit.Subject}}})
	}
	return t
}

func unusableList(s *bisect.Search) List {
	l := List{Noun: "commit", Label: "not measurable"}
	for _, f := range s.Failed {
		l.Items = append(l.Items, Item{Text: s.At(f.Commit).Short() + ": " + f.Why})
	}
	return l
}

// bisectMethod describes the method of the search, in small print.
func bisectMethod(s *bisect.Search) Block {
	if s.Exact || s.Outcome != nil && (s.Outcome.Found == bisect.Nothing || s.Outcome.Found == bisect.Undecided) {
		return Text{}
	}
	from := map[string]string{"assumed": "assumed: give --scatter where it is known", "given": "given", "history": "from the history of sessions"}[s.Options.ScatterFrom]
	text := fmt.Sprintf("Builds of equal code are taken to differ by %s (%s). A quartet is four processes: older, newer, newer, older.", gpuprof.FormatPercent(s.Options.Scatter, 2), from)
	if len(s.Options.Prior) > 0 {
		text += fmt.Sprintf(" Commits that change %s were taken for %d times as likely as others at the beginning.", strings.Join(s.Options.Prior, ", "), bisect.LikelyTimes)
	}
	return Text{S: text, As: Remark}
}
