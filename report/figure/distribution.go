package figure

import (
	"fmt"
	"math"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/report/internal/view"
)

// MostSamples is the default limit of the samples drawn of a series.
const MostSamples = 2000

// Distribution draws a row for the step and each stage: the samples in the order taken, where drift shows, and a
// histogram per process, where modes show. A row has at most limit samples, always with the extremes.
func Distribution(r *gpuprof.Run, limit int) *Figure {
	f := newRunFigure("distribution", "Distribution of samples about each median",
		"For the step and each stage: every sample as a dot in the order they were taken, process after process, and a histogram of each process.", r)
	spreads := view.Spreads(r, limit)
	if len(spreads) == 0 {
		return f.setRunLacking(r, "no samples were kept")
	}
	if n := len(spreads); n > maxRows {
		f.addNote(fmt.Sprintf("the first %d of %d rows", maxRows, n))
		spreads = spreads[:maxRows]
	}
	kept, total := 0, 0
	for i, s := range spreads {
		f.Panels = append(f.Panels, spreadPanel(s, i == 0, i == len(spreads)-1))
		kept, total = kept+s.Kept, total+s.Total
	}
	for i := range min(len(spreads[0].Process), 3) {
		if len(spreads[0].Process) == 1 {
			break // a single part needs no legend
		}
		text := fmt.Sprintf("process %d", i+1)
		if n := len(spreads[0].Process); n > 3 && i == 0 {
			f.Legend = []Entry{{Text: fmt.Sprintf("processes 1 to %d from left to right", n), Tone: processTone(0)}}
			break
		}
		f.Legend = append(f.Legend, Entry{Text: text, Tone: processTone(i)})
	}
	if kept == total {
		f.addNote(fmt.Sprintf("all %d samples are drawn", total))
	} else {
		f.addNote(fmt.Sprintf("%d of %d samples are drawn, evenly spaced in time, with the extremes", kept, total))
	}
	f.addNote("samples beyond the range of a row are drawn at its edge and counted")
	return f
}

// spreadPanel draws a row: the samples, and the histograms to their right.
func spreadPanel(s view.Spread, first, last bool) Panel {
	p := Panel{Name: view.Cut(s.Name, 40), Height: 58, X: Axis{Max: float64(max(len(s.Process), 1)), Bare: !last, Ticks: []Tick{}},
		Y: Axis{Min: s.Lo, Max: s.Hi, Ticks: []Tick{{s.Hi, percentMark(s.Hi)}, {0, ""}, {s.Lo, percentMark(s.Lo)}}}}
	if first {
		p.Height = 92
		p.Y.Label = "difference from the row's own median"
	}
	if s.Source != "period" {
		p.Sub = s.Source
	}
	most := 1
	for _, bins := range s.Bins {
		for _, n := range bins {
			most = max(most, n)
		}
	}
	side := &Panel{X: Axis{Max: float64(most) * 1.05, Bare: !last, Ticks: []Tick{}}}
	if last {
		p.X.Label, side.X.Label = "samples in the order they were taken, process after process", "how often"
	}
	for i, run := range s.Process {
		m := Mark{Kind: Samples, Tone: processTone(i), Form: Points}
		for k, v := range run {
			m.Points = append(m.Points, [2]float64{float64(i) + 0.02 + 0.96*(float64(k)+0.5)/float64(len(run)), v})
		}
		p.Marks = append(p.Marks, m)
		side.Marks = append(side.Marks, Mark{Kind: Line, Tone: processTone(i), Form: Outline, Points: sidewaysSteps(s.Bins[i], s.Lo, s.Hi)})
	}
	name := view.Cut(s.Name, 40)
	if gpuprof.IsFinite(s.P05) && gpuprof.IsFinite(s.P95) {
		side.Marks = append(side.Marks, Mark{Kind: Bar, X1: float64(most) * 0.02, Y0: max(s.P05, s.Lo), Y1: min(s.P95, s.Hi), Tone: Ink,
			Tip: fmt.Sprintf("%s: 5th to 95th percentile %s to %s", name, view.Seconds(s.Series.P05), view.Seconds(s.Series.P95))})
		p.Right = []string{view.Median(s.Series), "p5 to p95: " + view.Interval([2]float64{s.Series.P05, s.Series.P95}, view.Seconds)}
	} else {
		p.Right = []string{view.Median(s.Series)}
	}
	if s.Beyond > 0 {
		p.Right = append(p.Right, fmt.Sprintf("%d beyond, slowest %s", s.Beyond, view.Seconds(s.Slowest)))
	}
	p.Side = side
	return p
}

// sidewaysSteps outlines a histogram that grows to the right over a Y axis from lo to hi.
func sidewaysSteps(bins []int, lo, hi float64) [][2]float64 {
	out := [][2]float64{{0, lo}}
	for i, n := range bins {
		for _, edge := range []int{i, i + 1} {
			out = append(out, [2]float64{float64(n), lo + (hi-lo)*float64(edge)/float64(len(bins))})
		}
	}
	return append(out, [2]float64{0, hi})
}

func percentMark(v float64) string {
	sign, digits := "", 0
	if v > 0 {
		sign = "+"
	}
	if math.Abs(v) < 0.1 {
		digits = 1
	}
	return fmt.Sprintf("%s%.*f %%", sign, digits, v*100)
}
