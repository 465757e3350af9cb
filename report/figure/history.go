package figure

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/history"
	"github.com/gpuprof/gpuprof/report/internal/view"
)

// mostTrends limits the trends of one picture; a page has one picture per trend.
const mostTrends = 8

// Trends draws the metrics of a history below each other: the changed ones, then the totals.
func Trends(r *history.Report) *Figure {
	f := &Figure{ID: "trend", Title: "Performance over commits", Subject: view.Cut(r.Store, 60), Tool: r.Tool.Version,
		Desc: "For each benchmark the figure of every session in the order of commits, the level between changes, and the changes."}
	type drawn struct {
		t  *history.Trend
		m  *history.Metric
		by float64
	}
	var all []drawn
	for i := range r.Trends {
		t := &r.Trends[i]
		for k := range t.Metrics {
			m := &t.Metrics[k]
			if d := (drawn{t, m, m.LastChange()}); m.Total || d.by > 0 || k == 0 {
				all = append(all, d)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b drawn) int { return cmp.Compare(b.by, a.by) })
	for i, d := range all {
		if i == mostTrends {
			f.addNote(fmt.Sprintf("not drawn, but in the data: %d more", len(all)-mostTrends))
			break
		}
		f.addTrend(d.t, d.m)
	}
	if len(f.Panels) == 0 {
		return f.setLacking("the store holds no session that can be drawn")
	}
	return f
}

// Trend draws one metric over the sessions. Below it is the sentinel, a fixed program whose times change only with the
// machine.
func Trend(t *history.Trend, m *history.Metric) *Figure {
	f := &Figure{ID: "trend", Title: view.Cut(t.Benchmark+", "+m.Name, 80),
		Desc: "The figure of every session in the order of commits, the level between changes, and the changes."}
	f.addTrend(t, m)
	if len(f.Panels) == 0 {
		return f.setLacking("no session has this metric")
	}
	return f
}

// addTrend adds a panel for a metric and, if the trend has a sentinel (see Trend), one for the sentinel.
func (f *Figure) addTrend(t *history.Trend, m *history.Metric) {
	p, ok := f.trendPanel(t, m)
	if !ok {
		return
	}
	p.Title = view.Cut(t.Benchmark+", "+m.Name, 80) + p.Title
	f.Panels = append(f.Panels, p)
	if len(t.Sentinel.Values) > 0 && !m.Exact {
		if s, ok := f.trendPanel(t, &t.Sentinel); ok {
			s.Title, s.Height = "sentinel of "+view.Cut(t.Benchmark, 60)+": its code never changes"+s.Title, 70
			f.Panels = append(f.Panels, s)
		}
	}
}

// trendPanel returns the panel of a metric, with the unit at the end of its title.
func (f *Figure) trendPanel(t *history.Trend, m *history.Metric) (p Panel, ok bool) {
	lo, hi, ok := m.Range()
	if !ok {
		return p, false
	}
	n := len(m.Values)
	p = Panel{Height: 150, X: Axis{Min: -0.5, Max: float64(n) - 0.5, Label: "sessions, in the order of commits", Ticks: commitTicks(t)}, Y: axisOf([]float64{lo, hi}, false, 0.15)}
	unit, name := 1.0, m.Unit
	switch m.Unit {
	case "s":
		unit, name = view.Scale(hi)
	case "count":
		name = ""
	}
	p.Y.Unit = unit
	if name != "" {
		p.Title = " (" + name + ")"
	}
	p.Marks = append(p.Marks, f.classMarks(t)...)
	p.Marks = append(p.Marks, f.sessionMarks(t, m, p.Y)...)
	p.Marks = append(p.Marks, f.changeMarks(m)...)
	return p, true
}

// commitTicks labels up to six sessions by their commits.
func commitTicks(t *history.Trend) []Tick {
	const most, digits = 6, 8
	step := max(1, (len(t.Sessions)+most-1)/most)
	var out []Tick
	for i := 0; i < len(t.Sessions); i += step {
		id := t.Sessions[i].Commit.Short()
		out = append(out, Tick{float64(i), id[:min(len(id), digits)]})
	}
	return out
}

// classMarks draws a line where a class of sessions begins, which had another machine or other settings.
func (f *Figure) classMarks(t *history.Trend) (out []Mark) {
	for _, c := range t.Classes[min(1, len(t.Classes)):] {
		out = append(out, Mark{Kind: Rule, X0: float64(c.First) - 0.5, Tone: Soft, Form: Hair, Tip: "another class: " + c.Class + " " + view.Cut(c.Device, 60)})
		f.addEntry(Entry{Text: "another machine or setting", Tone: Soft, Form: Outline})
	}
	return out
}

// sessionMarks draws a point for each session, other points for sessions that were not analyzed, and the levels: the
// metric's medians between two changes.
func (f *Figure) sessionMarks(t *history.Trend, m *history.Metric, y Axis) []Mark {
	const few = 120
	form := Points
	if len(m.Values) <= few {
		form = Dots
	}
	used, left := Mark{Kind: Samples, Tone: "p0", Form: form}, Mark{Kind: Samples, Tone: Soft, Form: form}
	outside := Mark{Kind: Flags, Tone: Slower, Form: Whisker}
	for i, v := range m.Values {
		at := [2]float64{float64(i), float64(v)}
		switch {
		case !gpuprof.IsFinite(at[1]):
		case at[1] < y.Min || at[1] > y.Max:
			outside.Points = append(outside.Points, at)
		case t.Sessions[i].LeftOut != "":
			left.Points = append(left.Points, at)
		default:
			used.Points = append(used.Points, at)
		}
	}
	var out []Mark
	for _, s := range []struct {
		m    Mark
		text string
	}{{used, "session"}, {left, "session that is not analysed: its commit is unknown"}, {outside, "session outside the picture"}} {
		if len(s.m.Points) > 0 {
			out = append(out, s.m)
			f.addEntry(Entry{Text: s.text, Tone: s.m.Tone, Dot: true})
		}
	}
	for _, l := range m.Levels {
		v := float64(l.Value)
		out = append(out, Mark{Kind: Line, Tone: "t0", Form: Stroke, Points: [][2]float64{{float64(l.First) - 0.4, v}, {float64(l.Last) + 0.4, v}}, Tip: "level of " + gpuprof.Plural(l.N, "session")})
		f.addEntry(Entry{Text: "level: the median between changes", Tone: "t0", Form: Stroke})
	}
	return out
}

// changeMarks marks the changes with size and commit.
func (f *Figure) changeMarks(m *history.Metric) (out []Mark) {
	for _, c := range m.Changes {
		tone, text := Faster, "change for the better"
		switch {
		case c.Cause == history.FromMachine:
			tone, text = Soft, "change of the machine"
		case c.Worse:
			tone, text = Slower, "change for the worse"
		}
		size := gpuprof.Significant(float64(c.Old), 6) + " -> " + gpuprof.Significant(float64(c.New), 6)
		if r := float64(c.Ratio); gpuprof.IsFinite(r) && r > 0 {
			size = view.Change(r - 1)
		}
		out = append(out, Mark{Kind: Rule, X0: float64(c.At) - 0.5, Tone: tone, Form: Dashed, Tip: size + " at " + c.After.Short() + " (" + string(c.Cause) + ")"})
		f.addEntry(Entry{Text: text, Tone: tone, Form: Dashed})
	}
	return out
}
