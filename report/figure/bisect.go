package figure

import (
	"fmt"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/bisect"
	"github.com/gpuprof/gpuprof/report/internal/view"
)

// mostChances is the largest number of commits at which every commit gets a tooltip. With more commits, only those
// with a probability of at least 1 % get one.
const mostChances = 400

// Chances draws the probability of each commit, and below it the commits' measured changes.
func Chances(s *bisect.Search) *Figure {
	f := &Figure{ID: "posterior", Title: "Probability that a commit is the cause", Desc: "The probability of each commit, and the change of the measured ones against the first.", Tool: s.Tool.Version, Subject: "bisect " + view.Cut(s.Range, 60)}
	f.Context = []string{view.Cut(s.Machine, 60)}
	f.setDate(s.Started)
	if len(s.Chances) == 0 {
		return f.setLacking("nothing was searched")
	}
	f.Panels = []Panel{chancePanel(s)}
	if p, ok := levelPanel(s); ok {
		f.Panels = append(f.Panels, p)
	}
	f.Legend = []Entry{{Text: "probability of a commit", Tone: "t0"}, {Text: "measured against GOOD", Tone: "t1", Dot: true}}
	return f
}

// commitAxis returns an axis with the commits of the range, from the oldest to BAD, the newest.
func commitAxis(s *bisect.Search) Axis {
	n := float64(s.N())
	return Axis{Min: 0.5, Max: n + 0.5, Label: fmt.Sprintf("commit: 1 follows %s, %d is %s", s.Good.Short(), s.N(), s.At(s.N()).Short())}
}

func chancePanel(s *bisect.Search) Panel {
	p := Panel{Height: 170, X: commitAxis(s), Y: Axis{Max: 0.01, Unit: 0.01, Label: "probability (%)"}}
	p.X.Label = ""
	for i, c := range s.Chances {
		p.Y.Max = max(p.Y.Max, float64(c))
		at := float64(i + 1)
		m := Mark{Kind: Bar, X0: at - 0.4, X1: at + 0.4, Y1: float64(c), Tone: "t0"}
		if len(s.Chances) <= mostChances || c >= 0.01 {
			commit := s.At(i + 1)
			m.Tip = fmt.Sprintf("%d, %s %s: %s", i+1, commit.Short(), view.Cut(commit.Subject, 60), view.Percent(float64(c)))
		}
		if c >= 0.0001 {
			p.Marks = append(p.Marks, m)
		}
	}
	if o := s.Outcome; o != nil && (o.Found == bisect.Culprit || o.Found == bisect.Range) {
		p.Marks = append(p.Marks, Mark{Kind: Dot, Small: true, X0: float64(o.To), Y0: float64(s.Chances[o.To-1]), Tone: Ink, Text: s.At(o.To).Short(), Place: Near})
	}
	p.Y.Max *= 1.1
	return p
}

// levelPanel draws each measured commit's change against GOOD, the older end of the range, with its interval.
func levelPanel(s *bisect.Search) (Panel, bool) {
	p := Panel{Height: 150, X: commitAxis(s), Y: Axis{Unit: 0.01, Label: "change against GOOD (%)"}}
	widen := func(values ...gpuprof.Number) {
		for _, v := range values {
			if gpuprof.IsFinite(float64(v)) {
				p.Y.Min, p.Y.Max = min(p.Y.Min, float64(v)), max(p.Y.Max, float64(v))
			}
		}
	}
	whole := s.Whole()
	widen(whole.Ratio)
	for _, m := range s.Measured() {
		if m.Against > 0 || !gpuprof.IsFinite(float64(m.Ratio)) {
			continue
		}
		widen(m.Ratio, m.CI95[0], m.CI95[1])
		at := float64(m.Commit)
		if gpuprof.IsFinite(float64(m.CI95[0])) {
			p.Marks = append(p.Marks, Mark{Kind: Range, X0: at, X1: at, Y0: float64(m.CI95[0]), Y1: float64(m.CI95[1]), Tone: Ink})
		}
		p.Marks = append(p.Marks, Mark{Kind: Dot, X0: at, Y0: float64(m.Ratio), Tone: "t1", Tip: fmt.Sprintf("%d, %s: %s in %s", m.Commit, s.At(m.Commit).Short(), view.Change(float64(m.Ratio)), gpuprof.Plural(m.Quartets, "quartet"))})
	}
	if len(p.Marks) == 0 {
		return p, false
	}
	room := 0.08 * (p.Y.Max - p.Y.Min)
	p.Y.Min, p.Y.Max = p.Y.Min-room, p.Y.Max+room
	p.Marks = append([]Mark{{Kind: Rule, Across: true, Y0: 0, Tone: Soft, Form: Stroke}, {Kind: Rule, Across: true, Y0: float64(whole.Ratio), Tone: Soft, Form: Dashed}}, p.Marks...)
	return p, true
}
