package figure

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/report/internal/view"
)

// Telemetry draws the quantities measured during the run over the blocks of samples, with disturbances marked.
func Telemetry(r *gpuprof.Run) *Figure {
	f := newRunFigure("telemetry", "Telemetry during the run",
		"For each quantity its readings over the time of the run, from the least to the most, with the blocks of samples behind them and marks at disturbed samples.", r)
	w := view.Telemetry(r)
	if len(w.Tracks) == 0 {
		return f.setRunLacking(r, "no telemetry was recorded")
	}
	time := Axis{Min: w.From, Max: w.To, Bare: true}
	for i, t := range w.Tracks {
		p := trackPanel(t)
		p.X = time
		if i == len(w.Tracks)-1 {
			p.X.Bare, p.X.Label = false, "time since the run began (s)"
		}
		f.Panels = append(f.Panels, p)
	}
	f.Legend = []Entry{{Text: "reading", Tone: "p0", Form: Stroke}}
	f.addBands(w)
	return f
}

// addBands draws a band behind the panels for each block of samples and each throttled time, and marks flagged samples.
func (f *Figure) addBands(w view.Watched) {
	sides := map[bool]Tone{false: "t5", true: Rest}
	for _, b := range w.Blocks {
		what := map[bool]string{false: "with probes", true: "bare"}[b.Bare]
		f.Behind = append(f.Behind, Mark{Kind: Band, X0: b.From, X1: b.To, Tone: sides[b.Bare], Tip: fmt.Sprintf("block %d, %s: %s", b.Number, what, gpuprof.Plural(b.Samples, "sample"))})
		f.addEntry(Entry{Text: map[bool]string{false: "samples with probes were taken", true: "bare samples were taken"}[b.Bare], Tone: sides[b.Bare], Form: Behind})
	}
	for _, t := range w.Throttled {
		f.Behind = append(f.Behind, Mark{Kind: Band, X0: t[0], X1: t[1], Tone: "t3", Tip: "throttled from " + view.Seconds(t[0]) + " to " + view.Seconds(t[1])})
	}
	if len(w.Throttled) > 0 {
		f.Legend = append(f.Legend, Entry{Text: "throttled", Tone: "t3", Form: Behind})
	}
	if len(w.Flagged) > 0 {
		m := Mark{Kind: Flags, Tone: "t3", Form: Whisker}
		for _, t := range w.Flagged {
			m.Points = append(m.Points, [2]float64{t, 0})
		}
		f.Panels[0].Marks = append(f.Panels[0].Marks, m)
		f.Legend = append(f.Legend, Entry{Text: "flagged sample: " + view.Cut(strings.Join(w.Codes, ", "), 80) + " (" + strconv.Itoa(w.FlaggedCount) + ")", Tone: "t3"})
	}
	if w.Left > 0 {
		f.addNote(fmt.Sprintf("not drawn, but in the data: %d more", w.Left))
	}
}

// trackPanel draws a quantity between its least and largest value.
func trackPanel(t view.WatchedTrack) Panel {
	p := Panel{Title: t.Title, Height: 62}
	lo, hi := t.Least, t.Most
	p.Y = Axis{Min: lo, Max: hi, Ticks: []Tick{{hi, formatReading(hi)}, {lo, formatReading(lo)}}}
	if hi-lo <= 1e-3*math.Abs(hi) { // a constant is a line in the middle
		around := max(0.05*math.Abs(hi), 1e-9)
		p.Y.Min, p.Y.Max = lo-around, hi+around
		p.Y.Ticks = p.Y.Ticks[:1]
	}
	m := Mark{Kind: Line, Tone: "p0", Form: Outline}
	for i := range t.TimeS {
		m.Points = append(m.Points, [2]float64{t.TimeS[i], t.Value[i]})
	}
	p.Marks = []Mark{m}
	if len(t.TimeS) < 40 {
		m.Kind, m.Form = Samples, Points
		p.Marks = append(p.Marks, m)
	}
	return p
}

// formatReading formats a reading with the digits of an axis label.
func formatReading(v float64) string {
	if math.Abs(v) >= 100 && math.Abs(v) < 1e5 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}
